"""The command line as a module: ``python -m kopf run ...``."""

from kopf_kits.cli.__main__ import start

if __name__ == "__main__":
    start()
