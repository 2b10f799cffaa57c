"""An index of all objects, as in the documentation."""

from typing import Any

import kopf
from bench.handlers import probe


@kopf.index("kopfexamples")
async def by_field(name: str | None, spec: kopf.Spec, **_: Any) -> dict[str, str | None]:
    probe.count()
    return {spec["field"]: name}
