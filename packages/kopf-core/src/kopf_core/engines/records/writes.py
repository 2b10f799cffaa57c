"""The last write: how the operator itself has left an object, and what must come back of that.

There is one such value for an object. It answers all questions about our own patches:

* Is a state older than our patch? Then it is outdated, and nothing is decided by it.
* Is a state exactly the one that our patch has made? Then the rest is known without reading it.
* Has the stream brought our patch back? Until then, the object is not settled.

Invariants: ``state`` and ``is_final`` are never set together, and never without a ``version``;
``awaited`` is never newer than ``floor``, where both are numbers.
"""

from typing import NamedTuple

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.versions import is_as_new, parse_version
from kopf_core.actions.states import State


class AwaitChange(NamedTuple):
    """Our own patch is to come back in the stream: until then, the object is not settled."""

    version: str
    """The resource version of the object after the patch."""

    until: float
    """The monotonic time of the operator's clock: when to give up, and to work with what is."""

    def is_met_by(self, body: RawBody) -> bool:
        """Whether this state has our patch in it, for sure."""
        version = body["metadata"].get("resourceVersion")
        return version == self.version or is_as_new(body, self.version)


class LastWrite(NamedTuple):
    """How we have left the object, as far as it is known in this process."""

    floor: int | None = None
    """The version of the latest state that is surely known: of our own patch, or of a reply to us.

    Older states are outdated. For absent objects, newer states mean that they are there.
    """

    version: str | None = None
    """The version of the state that our patch has made, if it has changed nothing unexpected."""

    kind: str | None = None
    """In which version of the kind: the same object can be handled in several of them."""

    state: State | None = None
    """How far the handling cycle had got in that state, if it goes on.

    It is stored on the object, too; but it takes much longer to be read from there.
    """

    is_final: bool = False
    """Whether everything was handled in that state."""

    awaited: AwaitChange | None = None
    """What the stream must bring before the object is settled."""

    are_versions_doubted: bool = False
    """The server was restored from a backup: the earlier states are not older than those now."""

    # Questions.

    def outdates(self, body: RawBody) -> bool:
        """Whether the state is older than what is surely known. Unknown versions are trusted."""
        if self.floor is None:
            return False
        version = parse_version(body)
        return version is not None and version < self.floor

    def precedes(self, body: RawBody) -> bool:
        """Whether the state is newer than what is surely known. Unknown versions can be older."""
        version = parse_version(body)
        return self.floor is not None and version is not None and version > self.floor

    def has_left(self, body: RawBody | None) -> bool:
        """Whether the object is exactly as we have left it when everything was handled."""
        return self.is_final and body is not None and self._has_made(body)

    def get_state(self, body: RawBody | None) -> State | None:
        """How far the cycle has got, if the object is exactly as its latest step has left it."""
        if self.state is None or body is None or not self._has_made(body):
            return None
        return self.state

    def is_awaited(self, now: float) -> bool:
        """Whether the state cannot be relied on yet."""
        return self.awaited is not None and self.awaited.until > now

    def _has_made(self, body: RawBody) -> bool:
        return (
            self.version is not None
            and self.version == body["metadata"].get("resourceVersion")
            and self.kind == body.get("apiVersion")
        )

    # Changes.

    def streamed(self, body: RawBody) -> "LastWrite":
        """The stream has brought a state: it can be the awaited one."""
        if self.awaited is None or not self.awaited.is_met_by(body):
            return self
        floor, version, kind, state, is_final, _, doubts = self
        return LastWrite(floor, version, kind, state, is_final, None, doubts)

    def answered(self, body: RawBody, until: float) -> "LastWrite":
        """The API has accepted our patch, and the object has changed to this state by it."""
        _, version, kind, state, is_final, _, doubts = self
        awaited = AwaitChange(body["metadata"].get("resourceVersion") or "", until)
        return LastWrite(parse_version(body), version, kind, state, is_final, awaited, doubts)

    def looked_up(self, body: RawBody) -> "LastWrite":
        """The API has returned this state on our request, so it is not older than our patches."""
        return self._replace(floor=parse_version(body))

    def unknown(self) -> "LastWrite":
        """A patch was sent: what it has made of the object is not known to be what we wanted."""
        if self.version is None:
            return self
        return LastWrite(
            self.floor, awaited=self.awaited, are_versions_doubted=self.are_versions_doubted
        )

    def finished(self, body: RawBody) -> "LastWrite":
        """Everything is handled, and nothing but our own changes is in this state."""
        return self._left(body, None, is_final=True)

    def stepped(self, body: RawBody, state: State) -> "LastWrite":
        """The cycle has got so far, and nothing but our own marks was changed in this state."""
        return self._left(body, state, is_final=False)

    def _left(self, body: RawBody, state: State | None, *, is_final: bool) -> "LastWrite":
        version = body["metadata"].get("resourceVersion")
        if version is None:  # it can never be recognised
            return self.unknown()
        floor, awaited, doubts = self.floor, self.awaited, self.are_versions_doubted
        kind = body.get("apiVersion")
        return LastWrite(floor, version, kind, state, is_final, awaited, doubts)

    def restored(self) -> "LastWrite":
        """The object is there anew or for the last time: what was before is not comparable."""
        return self._replace(floor=None, awaited=None, are_versions_doubted=False)

    def doubted(self) -> "LastWrite":
        """The versions of the server went back: those that are known mean nothing anymore."""
        return self.unknown()._replace(floor=None, are_versions_doubted=True)


UNWRITTEN = LastWrite()
"""Nothing was written to the object in this process. One for all: they are many."""
