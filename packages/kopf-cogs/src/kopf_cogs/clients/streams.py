"""Streams of JSON documents, one per line: how Kubernetes sends watch-events."""

from collections.abc import AsyncGenerator
from typing import Any

import aiohttp

from kopf_cogs.helpers import jsons


class StreamBroken(Exception):
    """The stream has brought something that is not a line of JSON, or was cut inside of a line."""


class Unparsed:
    """A line that is good by itself, but impossible to hold as an object: it is nested too deep."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw = raw


async def iter_batches(content: aiohttp.StreamReader) -> AsyncGenerator[list[Any]]:
    """Parse the lines of the response as they come: the lines of one chunk are one batch.

    There is one wake-up per chunk of data, not per line. There is no limit on the line's length.
    The time is linear even if a line comes in many chunks. Empty lines are ignored. Too deeply
    nested documents come as :class:`Unparsed`. Everything before a bad line is yielded, and then
    :class:`StreamBroken` is raised. The network errors are raised as they are.
    """
    tail: list[bytes] = []  # the beginning of an incomplete line
    while chunk := await content.readany():
        head, newline, rest = chunk.partition(b"\n")
        tail.append(head)
        if not newline:
            continue
        lines = [b"".join(tail)]
        if rest:
            lines += rest.split(b"\n")
            tail = [lines.pop()]
        else:
            tail = []
        batch, error = parse_lines(lines)
        if batch:
            yield batch
        if error is not None:
            raise error
    leftover = b"".join(tail)
    if leftover.strip():
        batch, _ = parse_lines([leftover])
        if not batch:
            raise StreamBroken("The stream has been cut in the middle of a line.")
        yield batch


def parse_lines(lines: list[bytes]) -> tuple[list[Any], StreamBroken | None]:
    """Parse as many lines as possible, until the first bad one."""
    loads = jsons.loads
    batch: list[Any] = []
    try:
        for line in lines:
            if line:
                batch.append(loads(line))
    except ValueError:
        return _parse_carefully(lines)
    return batch, None


def _parse_carefully(lines: list[bytes]) -> tuple[list[Any], StreamBroken | None]:
    batch: list[Any] = []
    for line in lines:
        if not line.strip():
            continue
        try:
            batch.append(jsons.loads(line))
        except jsons.TooDeepError:
            batch.append(Unparsed(line))
        except ValueError:
            return batch, StreamBroken("The stream has brought something that is not JSON.")
    return batch, None
