import pytest

from kopf_cogs.clients.streams import StreamBroken, Unparsed, iter_batches


class Content:
    """The content of a response: only what is needed of it."""

    def __init__(self, chunks):
        self.chunks = [*chunks]

    async def readany(self):
        return self.chunks.pop(0) if self.chunks else b""


async def collect(*chunks):
    """All batches, and the error in the end, if any."""
    batches = []
    try:
        async for batch in iter_batches(Content(chunks)):
            batches.append(batch)
    except StreamBroken as e:
        return batches, e
    return batches, None


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], []),
        ([b"1\n"], [[1]]),
        ([b"1\n2\n3\n"], [[1, 2, 3]]),
        ([b"1\n", b"2\n"], [[1], [2]]),
        ([b"1\n2", b"3\n4", b"\n"], [[1], [23], [4]]),
        ([b"1", b"2", b"3", b"\n"], [[123]]),
        ([b"12\n", b"\n\n", b"3\n"], [[12], [3]]),
        ([b"1\r\n \n2\n"], [[1, 2]]),
        ([b'"\xd0', b'\xb9"\n'], [["й"]]),
        ([b'{"a":\t[null]}\n'], [[{"a": [None]}]]),
        ([b"1\n2"], [[1], [2]]),  # the last line is complete by its content
    ],
)
async def test_lines(chunks, expected):
    batches, error = await collect(*chunks)
    assert batches == expected
    assert error is None


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"<html>\n"], []),
        ([b'1\n{"a":'], [[1]]),
        ([b'1\n2\n{"a\n3\n'], [[1, 2]]),
        ([b'1\n"\xd0'], [[1]]),
        ([b'1\n"\xd0"\n2\n'], [[1]]),
        ([b"{} {}\n"], []),
    ],
)
async def test_a7_broken_lines(chunks, expected):
    batches, error = await collect(*chunks)
    assert batches == expected
    assert isinstance(error, StreamBroken)


async def test_a9_depth_bombs_are_kept_unparsed():
    bomb = b"[" * 3000 + b"]" * 3000
    (batch,), error = await collect(b"1\n" + bomb + b"\n2\n")
    assert batch[0] == 1
    assert isinstance(batch[1], Unparsed)
    assert batch[1].raw == bomb
    assert batch[2] == 2
    assert error is None
