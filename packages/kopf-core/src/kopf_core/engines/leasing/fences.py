"""Fences: an operator that does not surely lead sends nothing.

The certainty ends with time, not with an event. A process that was suspended, or had a blocked
loop, must send nothing when it goes on: another operator can lead by then.
"""

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.clients.errors import APIError


class FencedError(APIError):
    """The request was not sent: this operator does not hold its lease, or is not sure of that."""

    is_temporary = True


class Fence:
    """Lets writing requests through only while the lease is surely held."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0
        self.term = 0
        """The number of times when it was closed: it tells one leadership from another."""

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until

    def get_left(self) -> float:
        """For how many seconds the lease is surely held."""
        return max(0.0, self._until - self._clock.monotonic())

    def extend(self, until: float) -> None:
        """Hold the lease until that monotonic time, unless it has lapsed meanwhile.

        While it was not held, the operator has left all changes alone. So a lapsed fence stays as
        it is until it is closed: then the lease counts as lost, and everything starts anew.
        """
        if self.is_open or not self._until:
            self._until = until

    def close(self) -> None:
        """The lease is lost or given up."""
        self._until = 0.0
        self.term += 1

    def check(self) -> float:
        """For how many seconds a request can be sent. Raises :class:`FencedError` if it cannot."""
        left = self.get_left()
        if left <= 0:
            raise FencedError("nothing is sent, as this operator does not hold its lease (anymore)")
        return left
