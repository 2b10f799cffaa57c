"""Watch-streams with both the real events and the predicted ones."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from kopf_cogs.clients.rehearsal.overlay import Overlay, StreamId, identify
from kopf_cogs.helpers import jsons

_END_OF_INITIAL_EVENTS = "k8s.io/initial-events-end"


class Replay:
    """The content of a response, to be read in chunks, as the content of the HTTP client.

    It has no real changes of the objects with predicted states: these changes do not fit them.
    """

    def __init__(self, content: Any, overlay: Overlay, reader: StreamId) -> None:
        super().__init__()
        self._content = content
        self._overlay = overlay
        self._reader = reader
        self._tail = b""
        self._news = asyncio.Event()
        self._reading: asyncio.Task[bytes] | None = None
        overlay.listen(self._news.set)

    async def readany(self) -> bytes:
        """Some whole lines, as soon as there are any; empty at the end of the stream."""
        while True:
            self._news.clear()
            if lines := self._inject():
                return lines
            if self._reading is None:
                self._reading = asyncio.create_task(self._content.readany())
            await self._wait(self._reading)
            if not self._reading.done():
                continue
            chunk, self._reading = self._reading.result(), None
            if not chunk:
                rest, self._tail = self._tail, b""
                return rest
            *whole, self._tail = (self._tail + chunk).split(b"\n")
            if lines := b"".join(filter(None, map(self._revise, whole))):
                return lines

    async def close(self) -> None:
        self._overlay.unlisten(self._news.set)
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._reading

    async def _wait(self, reading: "asyncio.Task[bytes]") -> None:
        waiting = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait([reading, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def _inject(self) -> bytes:
        return b"".join(
            jsons.dumps({"type": type, "object": body}) + b"\n"
            for type, body in self._overlay.take(self._reader)
        )

    def _revise(self, line: bytes) -> bytes:
        """The line as the reader must get it; empty if the reader must not."""
        try:
            event = jsons.loads(line)
            kind, body = event["type"], event["object"]
            metadata = body["metadata"]
        except (ValueError, TypeError, KeyError):
            return line + b"\n"
        version = metadata.get("resourceVersion")
        self._overlay.see_version(version)
        if kind == "BOOKMARK":
            return self._revise_bookmark(event, metadata)
        is_predicted = self._overlay.get(identify(self._reader[0], body)) is not None
        return b"" if is_predicted else line + b"\n"

    def _revise_bookmark(self, event: Any, metadata: Mapping[str, Any]) -> bytes:
        """The final bookmark of a list, as new as the replayed events; empty for all others."""
        if (metadata.get("annotations") or {}).get(_END_OF_INITIAL_EVENTS) != "true":
            return b""
        metadata = {**metadata, "resourceVersion": self._overlay.highest}
        return jsons.dumps({**event, "object": {**event["object"], "metadata": metadata}}) + b"\n"


class ReplayedResponse:
    """The part of a response that the readers of streams need."""

    def __init__(self, content: Replay) -> None:
        super().__init__()
        self.content = content
