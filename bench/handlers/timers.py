"""One timer an object, every second."""

from typing import Any

import kopf
from bench.handlers import probe


@kopf.timer("kopfexamples", interval=1.0)
async def tick(**_: Any) -> None:
    probe.count()
