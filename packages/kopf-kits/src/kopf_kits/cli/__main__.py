"""The command line as the whole process: ``kopf``, or ``python -m kopf_kits.cli``."""

import signal
from types import FrameType
from typing import NoReturn

from kopf_kits.cli import main
from kopf_kits.cli.exits import SIGNALS


def start() -> None:
    """Run the command line. Signals end it with no error, whenever they come."""
    for signum in SIGNALS:
        signal.signal(signum, _leave)
    try:
        main(prog_name="kopf")
    finally:
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_IGN)


def _leave(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    start()
