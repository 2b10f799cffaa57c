"""Fences: nothing is sent by an operator that is not sure to lead.

The certainty ends with the time, not with an event: a process that was suspended, or whose loop
was blocked, must send nothing when it goes on, whoever leads by then.
"""

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.clients.errors import APIError


class FencedError(APIError):
    """The request was not sent: this operator does not lead, or is not sure that it does."""

    is_temporary = True


class Fence:
    """Lets the writing requests through only while the lease is surely held."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0
        self.term = 0
        """How many times it was closed: it tells one leadership from another."""

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until

    def get_left(self) -> float:
        """For how many seconds the lease is surely held."""
        return max(0.0, self._until - self._clock.monotonic())

    def extend(self, until: float) -> None:
        """The lease is held until that monotonic time; unless it has lapsed meanwhile.

        What has come while it was not held, was left alone. So it remains as it is until it is
        closed, i.e. until the lease counts as lost, and everything starts anew.
        """
        if self.is_open or not self._until:
            self._until = until

    def close(self) -> None:
        """The lease is not held anymore, or it is given up."""
        self._until = 0.0
        self.term += 1

    def check(self) -> float:
        """For how many seconds it can be sent. Raises :class:`FencedError` if it cannot be."""
        left = self.get_left()
        if left <= 0:
            raise FencedError("nothing is sent, as this operator is not the leader (anymore)")
        return left
