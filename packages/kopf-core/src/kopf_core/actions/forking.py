"""Children of a fork: they have a copy of the operator, but they are not the operator.

If a handler forks, the child can exit, or even return from the handler. It must not become another
operator with the same connections, and must neither wait for parts of the parent nor close them.
"""

import os
import sys
from typing import NoReturn


def leave_fork(exc: BaseException | None = None) -> NoReturn:
    """End this process, a child of a fork, with the exit code that it has asked for."""
    code = 0
    if isinstance(exc, SystemExit):
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    elif exc is not None:
        code = 1
    if exc is not None and not isinstance(exc, SystemExit):
        sys.excepthook(type(exc), exc, exc.__traceback__)
    elif isinstance(exc, SystemExit) and isinstance(exc.code, str):
        print(exc.code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # anything else would run the copy of the loop, or wait for absent threads
