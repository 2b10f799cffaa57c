"""The shared memory between the handlers and the bench: the number of calls, then the latencies."""

from __future__ import annotations

import mmap
import time
from pathlib import Path

SLOTS = 4096


class Cells:
    """Both sides of it: the bench reads; clients without a framework and the load server write."""

    def __init__(self, path: str | Path) -> None:
        with open(path, "r+b") as file:
            self._cells = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")

    @staticmethod
    def make(path: Path) -> Cells:
        path.write_bytes(bytes(8 * SLOTS))
        return Cells(path)

    @property
    def calls(self) -> int:
        return self._cells[0]

    def latencies(self) -> list[float]:
        """In seconds; in the order of events, until the first ones are overwritten."""
        return [nanoseconds / 1e9 for nanoseconds in self._cells[1:SLOTS] if nanoseconds]

    def forget_latencies(self) -> None:
        """Forget the latencies of the preparations."""
        for slot in range(1, SLOTS):
            self._cells[slot] = 0

    def count(self, sent: int | None) -> None:
        if sent is not None:
            self._cells[1 + self._cells[0] % (SLOTS - 1)] = time.monotonic_ns() - sent
        self._cells[0] += 1
