"""A webhook which judges nothing: what it costs to be asked."""

import os
from typing import Any

import kopf
from bench.handlers import probe

PORT = int(os.environ["BENCH_PORT"])


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.admission.server = kopf.WebhookServer(addr="127.0.0.1", port=PORT, insecure=True)


@kopf.on.event("kopfexamples")
async def seen(**_: Any) -> None:
    pass


@kopf.on.validate("kopfexamples")
async def check(spec: kopf.Spec, **_: Any) -> None:
    probe.count_latency(spec["sent"])
