"""Kubernetes events of handlers, as the API server takes them."""

from __future__ import annotations

from e2e.tests.harness import GROUP
from kopf_core.engines.posting import warn
from kopf_core.intents import decorators as on

KEX = (GROUP, "kexes")


async def test_k32_events_of_any_script_and_length_are_posted(world):
    text, reason = "\u0436" * 600, "Long" * 50
    world.settings.posting.enabled = True

    @on.create(*KEX, registry=world.registry)
    def create_fn(body, **_):
        warn(body, reason="Foreign", message=text)
        warn(body, reason=reason, message="The reason is too long.")

    async with world.operator():
        await world.create()
        posted = await world.until_event("Foreign")
        assert posted["message"].startswith("\u0436" * 200)
        cut = f"{reason[:63]}...{reason[-62:]}"
        assert (await world.until_event(cut))["message"] == "The reason is too long."
