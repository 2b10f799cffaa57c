"""Operators that keep objects in different forms: BENCH_FORM and BENCH_KEEPER tell which."""

import os
from typing import Any

import kopf
from bench.handlers import probe

FORM, KEEPER = os.environ["BENCH_FORM"], os.environ["BENCH_KEEPER"]
OPTIONS: dict[str, Any] = {"metadata_only": True} if FORM == "metadata" else {}


def keep_little(body: Any) -> None:
    """A transform as in the documentation: one field of the spec is left."""
    spec = body.get("spec", {})
    body["spec"] = {"field": spec["field"]} if "field" in spec else {}
    body.pop("status", None)
    body.get("metadata", {}).pop("managedFields", None)


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.watching.referenced_only = FORM == "referenced"
    if FORM == "trimmed":
        settings.watching.transforms["kopfexamples"] = keep_little


def count(**_: Any) -> None:
    probe.count()


def index_bodies(name: str, body: Any, **_: Any) -> Any:
    probe.count()
    return {name: dict(body)}


async def run(stopped: Any, **_: Any) -> None:
    probe.count()
    await stopped.wait()


match KEEPER:
    case "event":
        kopf.on.event("kopfexamples", **OPTIONS)(count)
    case "index":
        kopf.index("kopfexamples", **OPTIONS)(index_bodies)
    case "timer":
        kopf.timer("kopfexamples", interval=3600, **OPTIONS)(count)
    case "daemon":
        kopf.daemon("kopfexamples", **OPTIONS)(run)
    case "related":
        kopf.reconcile("pods", related={"kopfexamples": "spec.reference"})(count)
