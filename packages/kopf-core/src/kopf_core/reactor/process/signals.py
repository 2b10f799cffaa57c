"""Signals of the process: every operator in the main thread gets all of them."""

import asyncio
import contextvars
import logging
import os
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from kopf_core.reactor.life.exiting import HASTE, MARGIN, ProcessOwner

if TYPE_CHECKING:
    from kopf_core.reactor.process.supervising import Supervised

logger = logging.getLogger("kopf._core.reactor.running")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class OperatorSignals:
    """The handler of signals of one operator, which passes them on to the earlier operators.

    The handlers of asyncio are not used. For a moment at their removal, the default handlers are
    active, and a signal would kill the process in the middle of its graceful exit.
    """

    def __init__(self, operator: "Supervised", owner: ProcessOwner | None) -> None:
        self._operator = operator
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        # Signals interrupt anything, such as a task for one of several clusters.
        self._context = contextvars.copy_context()
        self._pid = os.getpid()
        self._count = 0
        self._previous: dict[int, Any] = {}

    def install(self) -> None:
        for signum in SIGNALS:
            self._previous[signum] = signal.signal(signum, self._handle)

    def uninstall(self) -> None:
        """Restore the previous handlers of signals; keep the handlers of later operators."""
        for signum, previous in self._previous.items():
            current = _find_operator(signal.getsignal(signum))
            if current is self and previous is not None:  # None is not of Python
                signal.signal(signum, previous)
            while current is not None and current is not self:
                below = _find_operator(current._previous[signum])
                if below is self:
                    current._previous[signum] = previous
                current = below

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # this is a fork of our process, without the loop
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
            return
        self._count += 1
        if self._owner is not None:
            bound = self._operator.exit.bound if self._count == 1 else HASTE
            self._owner.on_signal(bound + MARGIN, self._operator.exit.describe)
        number = signal.Signals(signum)
        self._loop.call_soon_threadsafe(
            _on_signal, self._operator, number, self._count, context=self._context
        )
        earlier = _find_operator(self._previous[signum])
        if earlier is not None:
            earlier._handle(signum, frame)


def install_signals(operator: "Supervised", owner: ProcessOwner | None) -> OperatorSignals:
    """Let the signals stop the operator, if it runs in the main thread."""
    signals = OperatorSignals(operator, owner)
    if threading.current_thread() is threading.main_thread():
        signals.install()
        if owner is not None and owner.is_asked:  # the interpreter has lost the raised exception
            logger.info("A signal was received. Operator is stopping.")
            operator.stop()
    return signals


def _find_operator(handler: Any) -> OperatorSignals | None:
    """Find the signals of the operator to which the handler belongs, if there is one."""
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, OperatorSignals) else None


def _on_signal(operator: "Supervised", signum: signal.Signals, number: int) -> None:
    if number == 1:
        logger.info(f"Signal {signum.name} is received. Operator is stopping.")
        operator.stop()
    else:
        logger.warning(f"Signal {signum.name} is received again. Operator is aborted.")
        operator.abort()
