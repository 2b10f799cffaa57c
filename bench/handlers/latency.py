"""How old the events are when the handler sees them."""

from typing import Any

import kopf
from bench.handlers import probe


@kopf.on.event("kopfexamples")
async def seen(spec: kopf.Spec, **_: Any) -> None:
    if "sent" in spec:
        probe.count_latency(spec["sent"])
