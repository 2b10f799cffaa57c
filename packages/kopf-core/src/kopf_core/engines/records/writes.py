"""The last write: how our own latest patch has left an object, and whether it has come back.

There is one such value for an object. It answers all questions about our own patches:

* Is a state older than our patch? Then it is outdated, and nothing is decided by it.
* Is a state exactly the one that our patch has made? Then the progress need not be read from it.
* Has the stream brought our patch back? Until then, the object is not settled.

Invariants: ``state`` and ``is_final`` are never set together, and never without a ``version``;
``awaited`` is never newer than ``floor``, where both are numbers.
"""

from typing import NamedTuple

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.versions import is_as_new, parse_version
from kopf_core.actions.states import State


class AwaitChange(NamedTuple):
    """The result of a turn: our own patch must come back in the stream before the next turn."""

    version: str
    """The resource version of the object after the patch."""

    until: float
    """The deadline, by the monotonic time of the operator's clock: then, the turn comes anyway."""

    def is_met_by(self, body: RawBody) -> bool:
        """Whether this state surely has our patch in it."""
        version = body["metadata"].get("resourceVersion")
        return version == self.version or is_as_new(body, self.version)


class LastWrite(NamedTuple):
    """How our own latest patch of this process has left the object."""

    floor: int | None = None
    """The latest version that is surely known: of the reply to our patch or to our request.

    Older states are outdated. A newer state of an absent object shows that the object exists.
    """

    version: str | None = None
    """The version after our patch, if nothing unexpected has changed together with it."""

    kind: str | None = None
    """The version of the kind of that state: one object can be handled in several versions."""

    state: State | None = None
    """The state of the cycle after that patch, if the cycle goes on.

    It is stored on the object, too, but to read it from there takes much longer.
    """

    is_final: bool = False
    """Whether everything was handled in that state."""

    awaited: AwaitChange | None = None
    """The patch that the stream must bring before the object is settled."""

    is_doubted: bool = False
    """Whether the server has shown an older list than before, for an unknown reason.

    Either the server was restored from a backup, or the list is late. A request shows which.
    """

    # Questions.

    def outdates(self, body: RawBody) -> bool:
        """Whether the state is surely outdated. Kopf trusts states without numeric versions."""
        if self.floor is None:
            return False
        version = parse_version(body)
        return version is not None and version < self.floor

    def precedes(self, body: RawBody) -> bool:
        """Whether the state is surely newer than all our changes; unknown versions never are."""
        if self.floor is None:
            return False
        version = parse_version(body)
        return version is not None and version > self.floor

    def includes(self, body: RawBody) -> bool:
        """Whether the state is surely not later than our latest patch or request."""
        if self.floor is None:
            return False
        version = parse_version(body)
        return version is not None and version <= self.floor

    def has_left(self, body: RawBody | None) -> bool:
        """Whether the object is exactly as we have left it when everything was handled."""
        return self.is_final and body is not None and self._has_made(body)

    def get_state(self, body: RawBody | None) -> State | None:
        """The state of the cycle, if the object is exactly as the latest step has left it."""
        if self.state is None or body is None or not self._has_made(body):
            return None
        return self.state

    def is_awaited(self, now: float) -> bool:
        """Whether our patch has not come back yet, and its deadline has not passed."""
        return self.awaited is not None and self.awaited.until > now

    def _has_made(self, body: RawBody) -> bool:
        return (
            self.version is not None
            and self.version == body["metadata"].get("resourceVersion")
            and self.kind == body.get("apiVersion")
        )

    # Changes.

    def streamed(self, body: RawBody) -> "LastWrite":
        """The stream has brought a state, which can be the awaited one."""
        if self.awaited is None or not self.awaited.is_met_by(body):
            return self
        floor, version, kind, state, is_final, _, is_doubted = self
        return LastWrite(floor, version, kind, state, is_final, None, is_doubted)

    def answered(self, body: RawBody, until: float) -> "LastWrite":
        """The API has accepted our patch, which has changed the object to this state."""
        _, version, kind, state, is_final, *_ = self
        awaited = AwaitChange(body["metadata"].get("resourceVersion") or "", until)
        return LastWrite(parse_version(body), version, kind, state, is_final, awaited)

    def looked_up(self, body: RawBody) -> "LastWrite":
        """The API has returned this state on our request: it is not older than our patches."""
        return self._replace(floor=parse_version(body))

    def unknown(self) -> "LastWrite":
        """A patch was sent, and its result is not known to be the wanted state."""
        if self.version is None:
            return self
        return LastWrite(self.floor, awaited=self.awaited, is_doubted=self.is_doubted)

    def finished(self, body: RawBody) -> "LastWrite":
        """Everything is handled, and nothing but our own changes is in this state."""
        return self._left(body, None, is_final=True)

    def stepped(self, body: RawBody, state: State) -> "LastWrite":
        """The cycle goes on from that state, and nothing but our own marks is changed in it."""
        return self._left(body, state, is_final=False)

    def _left(self, body: RawBody, state: State | None, *, is_final: bool) -> "LastWrite":
        version = body["metadata"].get("resourceVersion")
        if version is None:  # such a state could not be recognised
            return self.unknown()
        kind = body.get("apiVersion")
        return LastWrite(self.floor, version, kind, state, is_final, self.awaited, self.is_doubted)

    def deleted(self) -> "LastWrite":
        """The object is deleted: the versions of its successor are not comparable."""
        return self._replace(floor=None, awaited=None, is_doubted=False)

    def trusted(self) -> "LastWrite":
        """Kopf has requested the object: there are no doubts anymore."""
        return self._replace(is_doubted=False) if self.is_doubted else self


DOUBTED = LastWrite(is_doubted=True)
"""The versions of the server went back: known versions mean nothing anymore."""

UNWRITTEN = LastWrite()
"""This process has not written to the object. Most objects share this value."""
