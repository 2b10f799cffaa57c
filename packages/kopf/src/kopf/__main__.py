"""
The command line as a module: ``python -m kopf run ...``.
"""

from kopf.cli import main

if __name__ == "__main__":
    main(prog_name="kopf")
