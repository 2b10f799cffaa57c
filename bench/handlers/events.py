"""The cheapest operator: it sees every event, and does nothing."""

from typing import Any

import kopf
from bench.handlers import probe


@kopf.on.event("kopfexamples")
async def seen(**_: Any) -> None:
    probe.count()
