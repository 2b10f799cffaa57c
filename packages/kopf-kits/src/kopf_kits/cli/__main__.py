"""The command line as the whole process: ``kopf``, or ``python -m kopf_kits.cli``."""

import signal

from kopf_kits.cli import main
from kopf_kits.cli.exits import SIGNALS


def start() -> None:
    """Run the command line. Once it is over, no signal changes its exit code."""
    try:
        main(prog_name="kopf")
    finally:
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_IGN)


if __name__ == "__main__":
    start()
