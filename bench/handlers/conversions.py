"""Conversions through a version in between: how long API servers wait for them."""

import os
from typing import Any

import kopf
from bench.handlers import probe as probe

PORT = int(os.environ["BENCH_PORT"])
KIND = "kopfexamples.kopf.dev"


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.admission.server = kopf.WebhookServer(addr="127.0.0.1", port=PORT, insecure=True)


@kopf.on.event("kopfexamples")
async def seen(**_: Any) -> None:
    pass


@kopf.on.convert("v1alpha1", "v1beta1", kind=KIND)
def upgrade_to_beta(spec: dict[str, Any], **_: Any) -> None:
    spec["size"] = spec.pop("counter")


@kopf.on.convert("v1beta1", "v1", kind=KIND)
def upgrade_to_v1(spec: dict[str, Any], **_: Any) -> None:
    spec["replicas"] = spec.pop("size")
