"""Loops: the operator's own writes call its handlers, and these handlers write again."""

import logging
from typing import Any

import pytest

from kopf_core.actions import errors
from kopf_core.actions.instruments import Instruments
from kopf_core.engines.records.holds import FREE_ROUNDS, MAX_DELAY, QUIET
from kopf_core.intents import decorators as on
from kopf_core.reactor.streams.work import DONE, Requeue

WARNING = (
    "The operator's own changes of the field {field!r} call the handler {handler!r} again and "
    "again, and the object is changed every time. The calls will be ever more rare."
)


class Looper:
    """The calls of one handler, and what it does each time."""

    def __init__(self, spine: Any) -> None:
        self.spine = spine
        self.calls: list[tuple[float, Any]] = []

    def __call__(self, value: Any) -> None:
        self.calls.append((self.spine.clock.monotonic(), value))

    @property
    def times(self) -> list[float]:
        return [round(at, 3) for at, _ in self.calls]

    @property
    def values(self) -> list[Any]:
        return [value for _, value in self.calls]

    async def settle(self) -> Any:
        """Make turns until there is nothing to do at once; each patch comes back in the stream."""
        for _ in range(10 * FREE_ROUNDS):
            before, result = len(self.spine.patches), await self.spine.turn()
            if len(self.spine.patches) > before:
                self.spine.see("MODIFIED")
            elif result is DONE or isinstance(result, Requeue):
                return result
        raise AssertionError("It never ends.")

    async def change(self, changes: Any) -> Any:
        """Others change the object."""
        self.spine.item.rest = DONE  # the queue does not wait if the object changes
        self.spine.change(changes)
        return await self.settle()

    async def wait(self) -> Any:
        """The time has come for which the object waits."""
        assert isinstance(self.spine.item.rest, Requeue)
        self.spine.clock.advance(self.spine.item.rest.at - self.spine.clock.monotonic())
        self.spine.item.rest = DONE
        return await self.settle()


class Rounds(Instruments):
    """Counts the rounds of endless loops, as the metrics do."""

    def __init__(self) -> None:
        self.handlers: list[str] = []

    def on_round(self, handler: Any) -> None:
        self.handlers.append(handler.id)


@pytest.fixture
def looper(spine: Any) -> Looper:
    return Looper(spine)


def count_in_spec(spine: Any, registry: Any, looper: Looper) -> str:
    @on.update("kopfexamples", id="fn", registry=registry)
    async def fn(spec: Any, patch: Any, **_: Any) -> None:
        looper(spec["n"])
        patch.spec["n"] = spec["n"] + 1

    return WARNING.format(field="spec.n", handler="fn")


def count_in_labels(spine: Any, registry: Any, looper: Looper) -> str:
    @on.update("kopfexamples", id="fn", registry=registry)
    async def fn(spec: Any, meta: Any, patch: Any, **_: Any) -> None:
        looper(spec["n"] + int(meta.get("labels", {}).get("n", "0")))
        patch.meta["labels"] = {"n": str(len(looper.calls))}

    return WARNING.format(field="metadata.labels.n", handler="fn")


def count_in_functions(spine: Any, registry: Any, looper: Looper) -> str:
    @on.update("kopfexamples", id="fn", registry=registry)
    async def fn(spec: Any, patch: Any, **_: Any) -> None:
        looper(spec["n"])

        def increment(body: Any) -> None:
            body["spec"]["n"] += 1

        patch.fns.append(increment)

    return WARNING.format(field="spec.n", handler="fn")


def count_in_status(spine: Any, registry: Any, looper: Looper) -> str:
    @on.field("kopfexamples", field="status.n", id="fn", registry=registry)
    async def fn(new: Any, patch: Any, **_: Any) -> None:
        looper(new)
        patch.status["n"] = (new or 0) + 1

    return WARNING.format(field="status.n", handler="fn/status.n")


def count_in_events(spine: Any, registry: Any, looper: Looper) -> str:
    @on.event("kopfexamples", id="fn", registry=registry)
    async def fn(status: Any, patch: Any, **_: Any) -> None:
        looper(status.get("n", 0))
        patch.status["n"] = status.get("n", 0) + 1

    return WARNING.format(field="status.n", handler="fn")


def count_in_results_of_events(spine: Any, registry: Any, looper: Looper) -> str:
    @on.event("kopfexamples", id="fn", registry=registry)
    async def fn(**_: Any) -> Any:
        looper(len(looper.calls))
        return len(looper.calls)

    return WARNING.format(field="status.fn", handler="fn")


LOOPS = [
    count_in_spec,
    count_in_labels,
    count_in_functions,
    count_in_status,
    count_in_events,
    count_in_results_of_events,
]


@pytest.mark.parametrize("count", LOOPS)
async def test_l1_rounds_of_own_writes_come_ever_later(
    spine: Any, registry: Any, looper: Looper, logged: Any, count: Any
) -> None:
    warning = count(spine, registry, looper)
    rounds = spine.reconciler._execution.panel.instruments = Rounds()
    spine.create(n=1)
    await looper.settle()
    looper.calls.clear()
    rounds.handlers.clear()
    held = len(spine.item.events)  # they go before the change
    await looper.change({"spec": {"n": 2}, "status": {"n": 2}})
    for _ in range(4):
        await looper.wait()
    times = looper.times
    assert times[-5:] == pytest.approx([0, 0.1, 0.3, 0.7, 1.5])
    assert times[:-4] == [0] * (held + 1 + FREE_ROUNDS)
    assert [text for text in logged(logging.WARNING) if "again and again" in text] == [warning]
    assert len(rounds.handlers) == len(times) - held - FREE_ROUNDS
    for _ in range(20):
        await looper.wait()
    assert looper.times[-1] - looper.times[-2] == MAX_DELAY
    assert len(rounds.handlers) == len(looper.times) - held - FREE_ROUNDS
    assert all(repr(handler) in warning for handler in rounds.handlers)


@pytest.mark.parametrize("count", LOOPS)
async def test_l1_changes_of_others_end_the_loop(
    spine: Any, registry: Any, looper: Looper, count: Any
) -> None:
    count(spine, registry, looper)
    spine.create(n=1)
    await looper.settle()
    await looper.change({"spec": {"n": 2}, "status": {"n": 2}})
    await looper.wait()
    looper.calls.clear()
    assert isinstance(await looper.change({"spec": {"n": 99}, "status": {"n": 99}}), Requeue)
    assert looper.times[:1] == [spine.clock.monotonic()]
    assert len(looper.calls) > FREE_ROUNDS


@pytest.mark.parametrize("count", LOOPS)
async def test_l1_quiet_loops_are_not_delayed(
    spine: Any, registry: Any, looper: Looper, logged: Any, count: Any, monkeypatch: Any
) -> None:
    """E.g. handlers that take long: their rounds do no harm."""
    count(spine, registry, looper)
    spine.create(n=1)
    await looper.settle()
    await looper.change({"spec": {"n": 2}, "status": {"n": 2}})
    spine.clock.advance(QUIET + MAX_DELAY)
    looper.calls.clear()
    spine.item.rest = DONE
    await looper.settle()
    assert len(looper.calls) >= FREE_ROUNDS


@pytest.mark.parametrize("count", LOOPS)
async def test_l1_deletions_do_not_wait_for_loops(
    spine: Any, registry: Any, looper: Looper, count: Any
) -> None:
    deleted = []

    @on.delete("kopfexamples", id="last", registry=registry)
    async def last(**_: Any) -> None:
        deleted.append(spine.clock.monotonic())

    count(spine, registry, looper)
    spine.create(n=1)
    await looper.settle()
    await looper.change({"spec": {"n": 2}, "status": {"n": 2}})
    await looper.change({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}})
    assert deleted == [0.0]


async def test_l1_many_steps_to_the_wanted_state_are_not_delayed(
    spine: Any, registry: Any, looper: Looper, logged: Any
) -> None:
    @on.field("kopfexamples", field="status.phase", id="fn", registry=registry)
    async def fn(new: Any, patch: Any, **_: Any) -> None:
        looper(new)
        if new < FREE_ROUNDS:
            patch.status["phase"] = new + 1

    spine.create(n=1)
    await looper.settle()
    for _ in range(5):
        assert await looper.change({"status": {"phase": 0}}) is DONE
    assert looper.values == [*range(FREE_ROUNDS + 1)] * 5
    assert set(looper.times) == {0}
    assert not logged(logging.WARNING)


async def test_l1_retries_are_not_rounds(
    spine: Any, registry: Any, looper: Looper, logged: Any
) -> None:
    @on.update("kopfexamples", id="fn", registry=registry)
    async def fn(patch: Any, retry: int, **_: Any) -> None:
        looper(retry)
        if retry < 2 * FREE_ROUNDS:
            patch.spec["attempts"] = retry
            raise errors.TemporaryError("later", delay=1)

    spine.create(n=1)
    await looper.settle()
    await looper.change({"spec": {"n": 2}})
    for _ in range(2 * FREE_ROUNDS):
        await looper.wait()
    assert looper.times == [*range(2 * FREE_ROUNDS + 1)]
    assert not [text for text in logged(logging.WARNING) if "again and again" in text]


async def test_l1_changes_by_others_amid_slow_handlers_are_not_rounds(
    spine: Any, registry: Any, looper: Looper, logged: Any
) -> None:
    """Our reply contains them, and so the stream never shows them apart from our own write."""

    @on.update("kopfexamples", id="fn", registry=registry)
    async def fn(spec: Any, patch: Any, **_: Any) -> None:
        looper(spec["n"])
        patch.meta["labels"] = {"seen": str(spec["n"])}
        if spec["n"] < 3 * FREE_ROUNDS:
            spine._merge({"spec": {"n": spec["n"] + 1}})

    spine.create(n=1)
    await looper.settle()
    assert await looper.change({"spec": {"n": 2}}) is DONE
    assert set(looper.values) == {*range(2, 3 * FREE_ROUNDS + 1)}
    assert not [text for text in logged(logging.WARNING) if "again and again" in text]


async def test_l1_handlers_that_only_watch_neither_hide_nor_make_loops(
    spine: Any, registry: Any, looper: Looper
) -> None:
    seen = []

    @on.event("kopfexamples", id="watch", registry=registry)
    async def watch(event: Any, **_: Any) -> None:
        seen.append(event["object"]["metadata"]["resourceVersion"])

    count_in_spec(spine, registry, looper)
    spine.create(n=1)
    await looper.settle()
    await looper.change({"spec": {"n": 2}})
    await looper.wait()
    assert looper.times[-1] == 0.1
    assert seen[-1] == spine.body["metadata"]["resourceVersion"]


async def test_l1_held_events_are_delivered_in_order(
    spine: Any, registry: Any, looper: Looper
) -> None:
    count_in_events(spine, registry, looper)
    spine.create(n=1)
    await looper.settle()
    (held,) = spine.item.events
    assert held["object"]["status"]["n"] == FREE_ROUNDS + 1
    looper.calls.clear()
    spine.see(
        "MODIFIED",
        {
            **spine.body,
            "status": {"n": 100},
            "metadata": {**spine.body["metadata"], "resourceVersion": "1000"},
        },
    )
    spine.item.rest = DONE
    await spine.turn()
    assert looper.values == [FREE_ROUNDS + 1, 100]


async def test_l1_retries_go_on_while_events_are_held(
    spine: Any, registry: Any, looper: Looper
) -> None:
    retries = []

    @on.create("kopfexamples", id="slow", registry=registry)
    async def slow(retry: int, **_: Any) -> None:
        retries.append(spine.clock.monotonic())
        raise errors.TemporaryError("later", delay=0.05)

    count_in_events(spine, registry, looper)
    spine.create(n=1)
    for _ in range(200):
        before = len(spine.patches)
        result = await spine.turn()
        if len(spine.patches) > before:
            spine.see("MODIFIED")
        elif isinstance(result, Requeue):
            if result.at > 0.2:
                break
            spine.clock.advance(result.at - spine.clock.monotonic())
            spine.item.rest = DONE
    assert len(retries) >= 3
    assert looper.times[-1] < 0.3
