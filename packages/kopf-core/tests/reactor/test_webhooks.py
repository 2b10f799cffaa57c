"""The webhooks of operators: what the log says about their configurations in the cluster."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kopf_core.intents import decorators as on


@pytest.mark.docs("admission/managed")
@pytest.mark.parametrize(
    ("managed", "has_handlers", "is_told"),
    [(None, True, True), (None, False, False), ("hooks.kopf.dev", True, False)],
)
async def test_webhooks_that_kopf_does_not_configure_are_told_of(
    operate, registry, settings, logged, managed, has_handlers, is_told
):
    served = asyncio.Event()

    async def server(_: Any) -> AsyncIterator[dict[str, Any]]:
        served.set()
        yield {"url": "https://127.0.0.1:1/"}
        await asyncio.Event().wait()

    settings.admission.server, settings.admission.managed = server, managed
    if has_handlers:
        on.validate("kopfexamples", registry=registry)(lambda **_: None)
    async with operate(clusterwide=True):
        await served.wait()
    assert is_told is any("`settings.admission.managed` is not set" in text for text in logged())
