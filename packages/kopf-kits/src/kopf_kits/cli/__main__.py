"""The command line as the whole process: ``kopf``, or ``python -m kopf_kits.cli``."""

import signal
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Leave(BaseException):
    """The process is asked to end. It is none of what the code of users or of click catches."""


def start() -> None:
    """Run the command line. Signals end it with no error, whenever they come."""
    for signum in SIGNALS:
        signal.signal(signum, _leave)
    try:
        from kopf_kits.cli.groups import main  # it takes time, so the signals are handled already

        main(prog_name="kopf")
    except _Leave:
        pass
    finally:
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_IGN)


def _leave(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise _Leave


if __name__ == "__main__":
    start()
