"""The words of which the scripts of the cases are made.

Every step waits for a condition, never for a period: for calls of handlers, for their records,
or for quiescence, which is when neither the operator nor its objects show any signs of life.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from .clients import make_path
from .definitions import API, KINDS

if TYPE_CHECKING:
    from .tracks import Track


class Step(Protocol):
    """One step of a script."""

    async def run(self, track: Track) -> None: ...


@dataclasses.dataclass(frozen=True)
class Create:
    """Create an object."""

    name: str = "x"
    spec: Any = dataclasses.field(default_factory=lambda: {"field": "v1"})
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    plural: str = "compatexamples"

    async def run(self, track: Track) -> None:
        metadata = {"name": track.rename(self.name), **self.metadata}
        if self.plural == "compatclusters":
            labels = {"compat-run": track.run_id, **metadata.get("labels", {})}
            metadata["labels"] = labels
        body = {
            "apiVersion": API.removeprefix("/apis/"),
            "kind": KINDS[self.plural],
            "metadata": metadata,
            **({} if self.spec is None else {"spec": self.spec}),
        }
        await track.change("POST", make_path(self.plural, track.namespace), body)


@dataclasses.dataclass(frozen=True)
class Patch:
    """Merge-patch an object."""

    patch: Mapping[str, Any]
    name: str = "x"
    plural: str = "compatexamples"
    subresource: str | None = None

    async def run(self, track: Track) -> None:
        path = make_path(self.plural, track.namespace, track.rename(self.name), self.subresource)
        await track.change("PATCH", path, self.patch)


@dataclasses.dataclass(frozen=True)
class Delete:
    """Request the deletion of an object."""

    name: str = "x"
    plural: str = "compatexamples"

    async def run(self, track: Track) -> None:
        path = make_path(self.plural, track.namespace, track.rename(self.name))
        await track.change("DELETE", path)


@dataclasses.dataclass(frozen=True)
class Settle:
    """Wait until nothing happens any more, and take a snapshot of the objects.

    Unfinished handlers and deletions are waited for, unless told that they are to be left.
    """

    pending: bool = False

    async def run(self, track: Track) -> None:
        await track.settle(pending=self.pending)
        track.take_snapshot()


@dataclasses.dataclass(frozen=True)
class Called:
    """Wait until the handler has been called so many times since the beginning."""

    handler: str
    times: int = 1

    async def run(self, track: Track) -> None:
        await track.wait_for(
            lambda: sum(entry["handler"] == self.handler for entry in track.journal) >= self.times,
            f"{self.times} calls of {self.handler!r}",
        )


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Wait until the progress of the handler is recorded on the object."""

    handler: str
    retries: int = 1
    name: str = "x"

    async def run(self, track: Track) -> None:
        await track.wait_for(
            lambda: track.get_retries(track.rename(self.name), self.handler) >= self.retries,
            f"{self.retries} retries of {self.handler!r} on the object",
        )


@dataclasses.dataclass(frozen=True)
class Start:
    """Start the operator; optionally with another source than before."""

    source: str | None = None

    async def run(self, track: Track) -> None:
        if self.source is not None:
            track.write_source(self.source)
        await track.start()


@dataclasses.dataclass(frozen=True)
class Stop:
    """Stop the operator gracefully; the next start is of the next generation in hand-overs."""

    async def run(self, track: Track) -> None:
        await track.stop()


@dataclasses.dataclass(frozen=True)
class Kill:
    """Kill the operator on the spot; the next start is of the next generation in hand-overs."""

    async def run(self, track: Track) -> None:
        await track.kill()


@dataclasses.dataclass(frozen=True)
class Release:
    """Create a file that the handlers wait for; see ``COMPAT_FOLDER``."""

    name: str = "released"

    async def run(self, track: Track) -> None:
        (track.folder / self.name).touch()
