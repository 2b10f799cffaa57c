"""The same as ``bench/go/handled``: each state is noted on the object by one merge patch."""

import os
from typing import Any

import kopf


@kopf.on.create("kopfexamples")
@kopf.on.update("kopfexamples")
async def handled(**_: Any) -> None:
    pass


if os.environ.get("BENCH_INDEX") == "1":

    @kopf.index("kopfexamples")
    async def bodies(body: kopf.Body, name: str, **_: Any) -> Any:
        return {name: dict(body)}
