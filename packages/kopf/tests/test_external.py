"""External happenings: ``kopf.trigger()`` and ``@kopf.on.external`` in a real operator."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from idleness import quiet, until

import kopf
from kopf_core.reactor.life.operator import Operator, OperatorOptions


class Passes:
    """The passes that were made: for which objects, and why."""

    def __init__(self, websites: Any, **options: Any) -> None:
        self.made: list[tuple[str, set[str]]] = []
        self.failures: list[Exception] = []

        @websites.reconcile(**options)  # type: ignore[untyped-decorator]
        async def site(name: str, triggers: Any, **_: Any) -> None:
            self.made.append((name, {str(trigger) for trigger in triggers}))
            if self.failures:
                raise self.failures.pop()


async def settled(passes: Passes, count: int) -> None:
    await until(lambda: len(passes.made) >= count)
    await quiet()
    assert len(passes.made) == count


async def test_happenings_from_threads_make_one_pass_together(websites: Any) -> None:
    passes = Passes(websites)
    await websites.apply("one")
    await websites.apply("two")

    def tell() -> None:  # it has nothing of the operator's context
        for order in (1, 2, 1):
            kopf.trigger(websites.kind, "one", "ns1", reason=f"order {order}")
        kopf.trigger("websites", "absent", "ns1")
        kopf.trigger("pods", "one", "ns1")

    async with websites.operating():
        await settled(passes, 2)
        thread = threading.Thread(target=tell)
        thread.start()
        thread.join()  # no pass begins before all is told
        await settled(passes, 3)
        assert passes.made[2] == ("one", {"external: order 1", "external: order 2"})


async def test_without_a_namespace_all_objects_of_the_name_are_meant(websites: Any) -> None:
    passes = Passes(websites)
    await websites.apply("one", "ns1")
    await websites.apply("one", "ns2")
    async with websites.operating():
        await settled(passes, 2)
        kopf.trigger("websites", "one")
        await settled(passes, 4)
        assert passes.made[2:] == [("one", {"external"})] * 2


async def test_failed_passes_are_retried_as_usual(websites: Any) -> None:
    passes = Passes(websites, backoff=0.01)
    await websites.apply("one")
    async with websites.operating():
        await settled(passes, 1)
        passes.failures.append(RuntimeError("The queue is away."))
        kopf.trigger("websites", "one", "ns1")
        await settled(passes, 3)
        assert passes.made[1:] == [("one", {"external"}), ("one", {"retry"})]


def test_nobody_to_be_told() -> None:
    with pytest.raises(RuntimeError, match="No operator runs"):
        kopf.trigger("websites", "one", "ns1")


@pytest.mark.parametrize("args", [("", "one"), ("a.b/c/d/e", "one"), ("websites", ""), ("a", 1)])
def test_senseless_happenings(args: Any) -> None:
    with pytest.raises(TypeError):
        kopf.Happening(*args)


async def test_sources_are_called_again_after_errors(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    passes = Passes(websites)
    attempts: list[int] = []
    orders: asyncio.Queue[str] = asyncio.Queue()

    @kopf.on.external(registry=websites.registry, backoff=0.01)
    async def shop(retry: int, **_: Any) -> AsyncIterator[kopf.Happening]:
        attempts.append(retry)
        if len(attempts) < 3:
            raise ConnectionError("The shop is closed.")
        while True:
            order = await orders.get()
            yield kopf.Happening("websites", "one", "ns1", f"order {order}")
            if order == "bad":
                raise ValueError("A bad order.")

    await websites.apply("one")
    async with websites.operating():
        await settled(passes, 1)
        await until(lambda: len(attempts) == 3)
        orders.put_nowait("1")
        await until(lambda: len(passes.made) == 2)
        orders.put_nowait("bad")
        await until(lambda: len(passes.made) == 3 and len(attempts) == 4)
    assert attempts == [0, 1, 2, 1]  # what was yielded has begun the count anew
    assert [why for _, why in passes.made[1:]] == [{"external: order 1"}, {"external: order bad"}]
    assert "shop' failed with an exception and will try again in 0.01 seconds" in caplog.text
    assert "Will escalate" not in caplog.text


async def test_sources_stop_for_pauses(websites: Any) -> None:
    life: list[str] = []

    @kopf.on.external(registry=websites.registry)
    async def shop(**_: Any) -> AsyncIterator[kopf.Happening]:
        life.append("opened")
        try:
            await asyncio.Event().wait()
            yield kopf.Happening("websites", "one", "ns1")
        finally:
            life.append("closed")

    operator = Operator(OperatorOptions(registry=websites.registry, settings=websites.settings))
    websites.settings.peering.standalone = True
    running = asyncio.create_task(operator.run())
    await until(lambda: life == ["opened"])
    await operator.pause()
    await until(lambda: life == ["opened", "closed"])
    await quiet()
    operator.resume()
    await until(lambda: life == ["opened", "closed", "opened"])
    operator.stop()
    await running
    assert life == ["opened", "closed"] * 2


async def test_sources_that_are_not_generators(websites: Any) -> None:
    @kopf.on.external(registry=websites.registry)  # type: ignore[type-var]
    async def shop(**_: Any) -> None: ...

    with pytest.raises(Exception, match="is not an asynchronous generator"):
        await kopf.operator(registry=websites.registry, clusterwide=True, standalone=True)


async def test_reconcilers_of_status_fields_see_changes_of_others_only(websites: Any) -> None:
    seen: list[tuple[Any, set[str]]] = []

    @websites.reconcile(field="status.phase")  # type: ignore[untyped-decorator]
    async def site(status: Any, triggers: Any, patch: Any, **_: Any) -> None:
        seen.append((status["phase"], {str(trigger) for trigger in triggers}))
        patch.status["phase"] = f"{status['phase']}."

    async def report(**status: Any) -> None:
        await websites.sandbox.patch(
            websites.kind, "one", {"status": status}, namespace="ns1", subresource="status"
        )

    async with websites.operating():
        await websites.apply("one")
        await report(phase="a")
        await until(lambda: len(seen) == 1)
        await quiet()
        await report(other="x")
        await quiet()
        await report(phase="b")
        await until(lambda: len(seen) == 2)
        await quiet()
    assert seen == [("a", {"appeared"}), ("b", {"changed"})]
