"""Configurations of webhooks in a local API server: what is refused, polled, and retried."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from idleness import quiet, until

from kopf_cogs.aiokits.clocks import Clock, FakeClock, SystemClock
from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_cogs.structs.resources import VALIDATING_WEBHOOK
from kopf_core.engines.admission import ConfigurationError, keeping, managing
from kopf_core.engines.admission.managing import HANDOVER_TIME, ConfigurationKeeper
from kopf_core.engines.admission.replica_marks import LIFETIME, ReplicaMarks
from kopf_core.intents.webhooks import WebhookType

NAME = "auto.kopf.dev"
URL = VALIDATING_WEBHOOK.get_url(name=NAME)
PATIENCE = 90.0
GROUP = "admissionregistration.k8s.io"
DENIAL = (
    'User "me" cannot {} resource "validatingwebhookconfigurations" '
    f'in API group "{GROUP}" at the cluster scope'
)


def make_webhook(id: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": f"{id}.{NAME}",
        "clientConfig": {"url": "https://127.0.0.1:1/x"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def make_keeper(
    client: Client, identity: str, clock: Clock, manager: str = "kopf-1"
) -> ConfigurationKeeper:
    return ConfigurationKeeper(
        client,
        WebhookType.VALIDATING,
        VALIDATING_WEBHOOK,
        name=NAME,
        manager=manager,
        replica_marks=ReplicaMarks(manager, identity, clock),
    )


class Served:
    """The configuration as it is in the cluster."""

    def __init__(self, sandbox: Any, client: Client) -> None:
        self.sandbox = sandbox
        self.client = client

    async def get(self) -> Any:
        return await self.client.get(URL)

    async def until(self, *ids: str) -> None:
        async def are_there() -> bool:
            with contextlib.suppress(Exception):
                names = [webhook["name"] for webhook in (await self.get())["webhooks"]]
                return names == [f"{id}.{NAME}" for id in ids]
            return False

        await until(are_there)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "POLLING_INTERVAL", 0.02)
    monkeypatch.setattr(keeping, "RETRY", 0.01)
    monkeypatch.setattr(managing, "CONFLICT_DELAY", 0.0)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    sandboxes = pytest.importorskip("kopf_kits.sandbox")
    async with (
        sandboxes.Sandbox() as sandbox,
        Client(ConnectionInfo(server=sandbox.url)) as client,
    ):
        yield Served(sandbox, client)


@pytest.fixture
async def keeper(served: Served, settings: OperatorSettings) -> AsyncIterator[ConfigurationKeeper]:
    settings.networking.error_backoffs = []
    async with Client(ConnectionInfo(server=served.sandbox.url), settings) as client:
        yield make_keeper(client, "me", SystemClock())


@pytest.fixture
def keep(keeper: ConfigurationKeeper) -> Callable[..., Any]:
    """Keep these webhooks in the cluster; the errors are raised in the end."""

    @contextlib.asynccontextmanager
    async def keep(*ids: str) -> AsyncIterator[None]:
        keeper.want([make_webhook(id) for id in ids])
        task = asyncio.create_task(keeper.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    return keep


@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_b4_forbidden_configurations_are_told_once_until_permitted(
    served, keep, logged, verb
):
    fault = served.sandbox.faults.fail(403, method="PATCH", path=URL, message=DENIAL.format(verb))
    async with keep("x"):
        async with asyncio.timeout(PATIENCE):
            await served.sandbox.journal.wait("PATCH", URL, count=5)
        fault.release()
        await served.until("x")
    (warning,) = logged(logging.WARNING)
    assert warning.startswith(f"The validating webhook configuration '{NAME}' is not set up: 403")
    assert DENIAL.format(verb) in warning
    verbs = {"create": "create, patch", "patch": "patch, create"}[verb]
    assert f'Add this rule to the role of the operator: {{apiGroups: ["{GROUP}"]' in warning
    assert f"verbs: [{verbs}]}}. Will retry. Grant the permissions, or do not set" in warning


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_k13_one_error_at_the_exit_does_not_leave_the_webhooks(
    served, keep, keeper, settings, code
):
    settings.networking.error_backoffs = [0]
    async with keep("x"):
        await served.until("x")
        served.sandbox.faults.fail(code, method="PATCH", path=URL, times=1)
        await keeper.release([])
    await served.until()


async def test_k13_conflicts_at_the_exit_do_not_leave_the_webhooks(served, keep, keeper):
    """The server gives up a merge patch if others change the object all the time."""
    async with keep("x"):
        await served.until("x")
        served.sandbox.faults.fail(409, method="PATCH", path=URL, times=7)
        await keeper.release([])
    await served.until()


async def test_b4_forbidden_configurations_do_not_disturb_the_exit(served, keep, keeper, logged):
    served.sandbox.faults.fail(403, method="PATCH", path=URL, message=DENIAL.format("patch"))
    async with keep("x"):
        async with asyncio.timeout(PATIENCE):
            await served.sandbox.journal.wait("PATCH", URL, count=3)
        await keeper.release([])
    assert len(logged(logging.WARNING)) == 1  # it was told already, and is not an error


@pytest.mark.parametrize("status", [409, 429, 500, 503])
async def test_temporary_failures_are_retried(served, keep, logged, status):
    fault = served.sandbox.faults.fail(status, method="PATCH", path=URL)
    async with keep("x"):
        async with asyncio.timeout(PATIENCE):
            await served.sandbox.journal.wait("PATCH", URL, count=3 + 2 * managing.MAX_CONFLICTS)
        fault.release()
        await served.until("x")
    assert len({*logged(logging.WARNING)}) == 1


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_impossible_configurations_end_the_operator(served, keeper, status):
    served.sandbox.faults.fail(status, method="PATCH", path=URL, message="It makes no sense.")
    keeper.want([make_webhook("x")])
    with pytest.raises(ConfigurationError, match=f"is not set up: {status}.*makes no sense"):
        async with asyncio.timeout(PATIENCE):
            await keeper.run()


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_changes_are_found_by_polling_if_they_cannot_be_watched(
    served, keep, logged, is_deleted
):
    listing = VALIDATING_WEBHOOK.get_url()
    served.sandbox.faults.fail(403, method="GET", path=listing, message=DENIAL.format("list"))
    async with keep("x"):
        await served.until("x")
        if is_deleted:
            await served.client.delete(URL)
        else:
            await served.client.patch(
                URL, {"webhooks": []}, content_type="application/merge-patch+json"
            )
        await served.until("x")
    assert not logged(logging.WARNING)
    assert len(logged(logging.INFO)) == 1


async def test_deletions_before_the_first_list_are_noticed(served, keep):
    def is_list(call: Any) -> bool:
        return call.method == "GET" and "limit" in call.query and call.query["limit"] != "1"

    held = served.sandbox.faults.hang(path=VALIDATING_WEBHOOK.get_url(), match=is_list)
    async with keep("x"):
        await served.until("x")
        await served.client.delete(URL)
        held.release()
        await served.until("x")


@pytest.mark.parametrize("status", [403, 404])
async def test_changes_are_noticed_again_after_the_kind_could_not_be_listed(served, keep, status):
    def is_list(call: Any) -> bool:
        return call.method == "GET" and "limit" in call.query and call.query["limit"] != "1"

    listing = VALIDATING_WEBHOOK.get_url()
    fault = served.sandbox.faults.fail(status, path=listing, match=is_list)
    async with keep("x"):
        await served.until("x")
        async with asyncio.timeout(PATIENCE):
            await served.sandbox.journal.wait("GET", listing, count=3)
        fault.release()
        await served.client.delete(URL)
        await served.until("x")


async def test_polling_changes_nothing_if_all_is_well(served, keep):
    listing = VALIDATING_WEBHOOK.get_url()
    served.sandbox.faults.fail(403, method="GET", path=listing, message=DENIAL.format("list"))
    async with keep("x"):
        await served.until("x")
        before = await served.get()
        async with asyncio.timeout(PATIENCE):
            await served.sandbox.journal.wait("PATCH", URL, count=6)
        assert await served.get() == before


# --- Replicas ---


@contextlib.asynccontextmanager
async def running(
    keeper: ConfigurationKeeper, *ids: str, **fields: Any
) -> AsyncIterator[ConfigurationKeeper]:
    keeper.want([make_webhook(id, **fields) for id in ids])
    task = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until_served(served: Served, check: Callable[[Any], bool]) -> None:
    """Wait until the configuration is as expected."""

    async def is_expected() -> bool:
        with contextlib.suppress(APINotFoundError):
            return check(await served.get())
        return False

    await until(is_expected)


async def until_marked(served: Served, count: int) -> None:
    await until_served(served, lambda body: len(body["metadata"].get("annotations") or {}) == count)


def read_replicas(body: Any) -> set[str]:
    annotations = body["metadata"].get("annotations") or {}
    return {json.loads(value)["replica"] for value in annotations.values()}


def read_times(body: Any) -> set[str]:
    annotations = body["metadata"].get("annotations") or {}
    return {json.loads(value)["seen"] for value in annotations.values()}


async def test_k13_the_last_replica_cleans_up(served):
    """In between, the webhooks are there all the time: nothing touches them."""
    clock = SystemClock()
    one, two = make_keeper(served.client, "one", clock), make_keeper(served.client, "two", clock)
    async with running(one, "x"), running(two, "x"):
        await until_marked(served, 2)
        before = (await served.get())["metadata"]["generation"]
        assert await one.release([]) == HANDOVER_TIME
        body = await served.get()
        assert [webhook["name"] for webhook in body["webhooks"]] == [f"x.{NAME}"]
        assert body["metadata"]["generation"] == before
        assert len(body["metadata"]["annotations"]) == 1
        assert 0 < await two.release([]) < HANDOVER_TIME
        body = await served.get()
        assert not body.get("webhooks")
        assert not body["metadata"].get("annotations")


async def test_k13_of_replicas_that_leave_at_once_the_last_one_cleans_up(served):
    clock = SystemClock()
    keepers = [make_keeper(served.client, f"replica-{n}", clock) for n in range(5)]
    async with contextlib.AsyncExitStack() as stack:
        for keeper in keepers:
            await stack.enter_async_context(running(keeper, "x"))
        await until_marked(served, 5)
        delays = await asyncio.gather(*(keeper.release([]) for keeper in keepers))
    assert sorted(delays)[0] < HANDOVER_TIME
    assert not (await served.get()).get("webhooks")


async def test_k13_marks_of_killed_replicas_expire(served, settings):
    clock = FakeClock()
    killed, alive = (make_keeper(served.client, id, clock) for id in ("killed", "alive"))
    async with running(killed, "x"):
        await until_marked(served, 1)
    clock.advance(LIFETIME)
    async with running(alive, "x"):
        await until_served(served, lambda body: read_replicas(body) == {"alive"})
        await alive.release([])
    assert not (await served.get()).get("webhooks")


async def test_k13_marks_of_living_replicas_are_renewed(served):
    clock = FakeClock()
    one, two = (make_keeper(served.client, id, clock) for id in ("one", "two"))
    async with running(one, "x"), running(two, "x"):
        await until_marked(served, 2)
        for _ in range(5):
            clock.advance(LIFETIME / 3)
            await until_served(served, lambda body: read_times(body) == {clock.now().isoformat()})
        assert await one.release([]) == HANDOVER_TIME


@pytest.fixture
def _calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is repeated in the lifetime of the test unless it is done at once."""
    monkeypatch.setattr(keeping, "POLLING_INTERVAL", 3600.0)
    monkeypatch.setattr(keeping, "RETRY", 3600.0)


ELSEWHERE = {"url": "https://127.0.0.1:2/x"}


@pytest.mark.usefixtures("_calm")
async def test_k13_replicas_with_different_addresses_do_not_restore_for_ever(served, logged):
    """Each puts its own address there: so, the others put theirs back, and so on."""
    one, two = (make_keeper(served.client, id, SystemClock()) for id in ("one", "two"))
    async with running(one, "x"), running(two, "x", clientConfig=ELSEWHERE):
        await until(lambda: logged(logging.WARNING))
        await quiet()
        generation = (await served.get())["metadata"]["generation"]
        two.want([make_webhook("y")])  # what is wanted anew, is there at once
        await until_served(served, lambda body: f"y.{NAME}" in str(body["webhooks"]))
    assert generation <= 10
    for warning in logged(logging.WARNING):
        assert warning.startswith(f"The validating webhook configuration '{NAME}' is changed by")
        assert warning.partition(" certificates: ")[2].startswith(("one.", "two."))


async def test_k13_what_others_leave_alone_is_restored_in_the_end(served):
    one, two = (make_keeper(served.client, id, SystemClock()) for id in ("one", "two"))
    async with running(one, "x"):
        async with running(two, "x", clientConfig=ELSEWHERE):
            await until_served(served, lambda body: body["metadata"].get("generation", 0) > 6)
        await until_served(served, lambda body: ELSEWHERE["url"] not in str(body["webhooks"]))


async def test_k13_other_operators_are_not_replicas(served):
    """Theirs stay, ours go, though they share the configuration by mistake."""
    clock = SystemClock()
    one = make_keeper(served.client, "one", clock, "kopf-1")
    two = make_keeper(served.client, "two", clock, "kopf-2")
    async with running(one, "x", "both"), running(two, "y", "both"):
        await until_served(served, lambda body: len(body.get("webhooks") or ()) == 3)
        await one.release([])
        names = {webhook["name"] for webhook in (await served.get())["webhooks"]}
    assert names == {f"y.{NAME}", f"both.{NAME}"}
