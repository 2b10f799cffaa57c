"""The command line of this package alone: ``python -m kopf_kits.cli``."""

from kopf_kits.cli import main

if __name__ == "__main__":
    main(prog_name="kopf")
