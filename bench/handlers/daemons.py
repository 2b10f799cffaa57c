"""One daemon an object, which sleeps until the object or the operator goes away."""

import asyncio
from typing import Any

import kopf
from bench.handlers import probe


@kopf.daemon("kopfexamples", cancellation_timeout=1.0)
async def wait(**_: Any) -> None:
    probe.count()
    await asyncio.sleep(3600)
