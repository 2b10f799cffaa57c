"""The command line as the whole process: ``kopf``, or ``python -m kopf_kits.cli``."""

import atexit
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)

SERVING = ("run", "sandbox")
"""The commands that go on until a signal ends them. It leaves other commands unfinished."""


class _Leave(BaseException):
    """A signal asks the process to end. Click and most code of users do not catch it."""


def start() -> None:
    """Run the command line. Signals end it quietly, whenever they come."""
    _open_streams()
    leaver = _Leaver()
    for signum in SIGNALS:
        signal.signal(signum, leaver)
    try:
        try:
            from kopf_kits.cli.groups import main  # it is slow: the signals are handled already

            main(prog_name="kopf")
        finally:
            _ignore_signals()
    except _Leave:  # even if the signal came at the very end, before it was ignored
        _ignore_signals()
        if code := _get_code():
            sys.exit(code)
    except SystemExit as e:
        if getattr(e.__context__, "leaves_work", False):
            _end(e.code)
        raise


def _open_streams() -> None:
    """Replace the closed standard streams, so that files and sockets do not get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _get_code() -> int:
    """The exit code of a process that was asked to end by a signal."""
    return int(bool(sys.argv[1:2]) and sys.argv[1] not in SERVING)


class _Leaver:
    """The handler of signals until another handler replaces it.

    The interpreter can lose the exception, e.g. if the signal comes right when a lock of an import
    is released; and the code of users can catch it. So the next handler of the signals must check
    ``is_asked``, and the second signal ends the process with no exception.
    """

    def __init__(self) -> None:
        self.is_asked = False

    def __call__(self, _signum: int, _frame: FrameType | None) -> None:
        if self.is_asked:
            os._exit(_get_code())
        self.is_asked = True
        raise _Leave


def _end(code: object) -> NoReturn:
    """End the process with no teardown of the interpreter, which waits for threads.

    Even with no threads, the teardown takes seconds on a busy machine: there can be no time left.
    """
    atexit._run_exitfuncs()
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)  # as the interpreter does it
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)


def _ignore_signals() -> None:
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


if __name__ == "__main__":
    start()
