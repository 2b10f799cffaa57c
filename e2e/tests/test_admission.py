"""Admission webhooks called by API servers: what is denied, amended, warned of, or let through."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.tests.harness import CRDS, GROUP, PATIENCE, Answer, World
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_core.engines.admission import AdmissionSetupError
from kopf_core.intents import decorators as on
from kopf_core.intents.webhooks import AdmissionError
from kopf_core.reactor.life.operator import Operator
from kopf_core.reactor.process.running import operator as run_operator
from kopf_kits.webhooks import WebhookServer

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
MERGE = "application/merge-patch+json"
DRY = "?dryRun=All"


class Hooks:
    """The webhooks of one test: they are for its namespace only, and are known to be called."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.managed = f"{world.namespace}.kopf.dev"
        world.settings.admission.managed = self.managed
        world.settings.admission.server = WebhookServer(addr="127.0.0.1")
        self.probed: set[str] = set()

    def declare(self, decorator: Any, plural: str = "", **options: Any) -> Any:
        labels = {"kubernetes.io/metadata.name": self.world.namespace}
        return decorator(
            f"{plural or self.world.plural}.{GROUP}",
            registry=self.world.registry,
            **{"namespace_selector": labels} | options,
        )

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Operator]:
        """Run the operator; it takes a while for API servers to know of the webhooks."""
        self.declare_probes()
        async with self.world.operator() as operator:
            await self.until_called()
            yield operator

    def declare_probes(self) -> None:
        for decorator in (on.validate, on.mutate):
            key = decorator.__name__
            fn = lambda key=key, **_: self.probed.add(key)  # noqa: E731
            self.declare(decorator, "subs", id=f"probe-{key}")(fn)

    async def until_called(self) -> None:
        self.probed.clear()
        body = self.world.make(name="probe") | {"kind": "Sub"}
        path = self.world.path(plural="subs") + DRY
        async with asyncio.timeout(PATIENCE):
            while self.probed != {"validate", "mutate"}:
                await self.world.attempt("POST", path, body)
                await asyncio.sleep(0.05)  # nobody tells when an API server has noticed them

    async def create(self, spec: Any = None, *, dry: bool = False, **fields: Any) -> Answer:
        body = self.world.make(spec, **fields)
        return await self.world.attempt("POST", self.world.path() + (DRY if dry else ""), body)

    async def patch(self, patch: Any, sub: str = "", plural: str = "") -> Answer:
        path = self.world.path("obj", plural or None) + (f"/{sub}" if sub else "")
        return await self.world.attempt("PATCH", path, patch, MERGE)

    # --- Configurations ---

    def url(self, type: str = "validating") -> str:
        return f"{CONFIGURATIONS.format(type)}/{self.managed}"

    async def configure(self, patch: Any, type: str = "validating") -> Any:
        return await self.world.request("PATCH", self.url(type), patch, MERGE)

    async def until_answered(self, status: int) -> Answer:
        """Try to create an object until it is answered so."""
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await self.create(dry=True)
                if answer.status == status:
                    return answer
                await asyncio.sleep(0.05)

    async def until_configured(self, check: Any, type: str = "validating") -> Any:
        answer = None
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    answer = await self.world.attempt("GET", self.url(type))
                    if answer.status == 200 and check(answer.body):
                        return answer.body
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"The configuration is not as expected: {answer}") from None


def get_names(body: Any) -> list[str]:
    return [webhook["name"] for webhook in body.get("webhooks") or ()]


@pytest.fixture
async def hooks(world: World) -> AsyncIterator[Hooks]:
    hooks = Hooks(world)
    yield hooks
    for type in ("validating", "mutating"):
        await world.attempt("DELETE", hooks.url(type))


def deny(message: str, code: int = 500) -> None:
    raise AdmissionError(message, code=code)


# --- Judging ---


@pytest.mark.docs("admission/errors")
async def test_validating_webhooks_deny_with_codes_and_messages(hooks: Hooks) -> None:
    @hooks.declare(on.validate, id="check")
    def check(spec: Any, **_: Any) -> None:
        if spec.get("n", 0) > 10:
            deny("Too many!", code=422)
        if spec.get("n", 0) < 0:
            raise ValueError("Too few!")

    async with hooks.serving():
        refused = await hooks.create({"n": 11})
        broken = await hooks.create({"n": -1})
        accepted = await hooks.create({"n": 10})
        changed = await hooks.patch({"spec": {"n": 12}})
    name = f'admission webhook "check.{hooks.managed}" denied the request'
    assert (refused.status, refused.body["message"]) == (422, f"{name}: Too many!")
    assert (broken.status, broken.body["message"]) == (500, f"{name}: Too few!")
    assert accepted.status == 201
    assert changed.status == 422


@pytest.mark.docs("admission/mutating")
async def test_g6_mutating_webhooks_amend_objects(hooks: Hooks) -> None:
    @hooks.declare(on.mutate)
    async def amend(patch: Any, **_: Any) -> None:
        patch.spec["added"] = {"a": 1}
        patch.spec["removed"] = None
        patch.meta.labels["e2e.kopf.dev/a~b".replace("~", "_")] = "x"
        patch.meta.annotations["e2e.kopf.dev/a"] = "y"
        patch.fns.append(lambda body: body["spec"]["items"].append(3))

    async with hooks.serving():
        answer = await hooks.create({"removed": 1, "kept": None, "items": [1, 2]})
    assert answer.status == 201, answer
    assert answer.body["spec"] == {"added": {"a": 1}, "kept": None, "items": [1, 2, 3]}
    assert answer.body["metadata"]["labels"] == {"e2e.kopf.dev/a_b": "x"}
    assert answer.body["metadata"]["annotations"] == {"e2e.kopf.dev/a": "y"}


@pytest.mark.docs("admission/warnings")
async def test_warnings_are_shown(hooks: Hooks) -> None:
    @hooks.declare(on.validate)
    def warn(warnings: list[str], **_: Any) -> None:
        warnings.append("Beware!")

    async with hooks.serving():
        answer = await hooks.create()
    assert (answer.status, answer.warnings) == (201, ["Beware!"])


@pytest.mark.docs("admission/dryrun")
async def test_dry_runs_are_told_apart(hooks: Hooks) -> None:
    seen: list[bool] = []

    @hooks.declare(on.validate, side_effects=True)
    def check(dryrun: bool, **_: Any) -> None:
        seen.append(dryrun)

    async with hooks.serving():
        await hooks.create(dry=True)
        await hooks.create()
    assert seen == [True, False]


@pytest.mark.docs("admission/subresources")
async def test_subresources_are_judged_apart(hooks: Hooks) -> None:
    hooks.world.plural = "scalables"
    seen: list[Any] = []
    for sub in (None, "status", "scale", "*"):
        fn = lambda subresource, sub=sub, **_: seen.append((sub, subresource))  # noqa: E731
        hooks.declare(on.validate, id=f"sub-{sub}".replace("*", "any"), subresource=sub)(fn)

    @hooks.declare(on.validate, subresource="scale", operation="UPDATE")
    def limit(spec: Any, **_: Any) -> None:
        if spec["replicas"] > 3:
            deny("Too many!", code=400)

    async with hooks.serving():
        await hooks.create({"replicas": 1})
        assert sorted(map(str, seen)) == ["('*', None)", "(None, None)"]
        seen.clear()
        assert (await hooks.patch({"status": {"replicas": 1}}, "status")).status == 200
        assert sorted(seen) == [("*", "status"), ("status", "status")]
        seen.clear()
        assert (await hooks.patch({"spec": {"replicas": 2}}, "scale")).status == 200
        assert sorted(seen) == [("*", "scale"), ("scale", "scale")]
        assert (await hooks.patch({"spec": {"replicas": 4}}, "scale")).status == 400


async def test_deletions_are_judged(hooks: Hooks) -> None:
    @hooks.declare(on.validate, operation="DELETE")
    def protect(labels: Any, **_: Any) -> None:
        if labels.get("protected"):
            deny("It is protected.", code=403)

    async with hooks.serving():
        await hooks.create(metadata={"labels": {"protected": "yes"}})
        path = hooks.world.path("obj")
        assert (await hooks.world.attempt("DELETE", path)).status == 403
        await hooks.patch({"metadata": {"labels": {"protected": None}}})
        assert (await hooks.world.attempt("DELETE", path)).status == 200


@pytest.mark.docs("admission/options")
async def test_several_decorators_are_for_several_operations(hooks: Hooks) -> None:
    seen: list[Any] = []

    @hooks.declare(on.validate, operation="CREATE", param="one")
    @hooks.declare(on.validate, operation="UPDATE", param="two")
    def check(param: str, operation: str, **_: Any) -> None:
        seen.append((param, operation))

    async with hooks.serving():
        await hooks.create()
        await hooks.patch({"spec": {"n": 1}})
    assert seen == [("one", "CREATE"), ("two", "UPDATE")]


@pytest.mark.docs("admission/options")
@pytest.mark.parametrize(("ignored", "status"), [(True, 201), (False, 500)])
async def test_unreachable_webhooks_are_ignored_if_so_declared(
    hooks: Hooks, ignored: bool, status: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]

    async def nobody(_: Any) -> Any:
        yield {"url": f"https://127.0.0.1:{port}"}
        await asyncio.Event().wait()

    hooks.world.settings.admission.server = nobody
    hooks.declare(on.validate, id="x", ignore_failures=ignored)(lambda **_: None)
    async with hooks.world.operator():
        await hooks.until_configured(get_names)
        answer = await hooks.until_answered(status)
    if not ignored:
        assert f'failed calling webhook "x.{hooks.managed}"' in answer.body["message"]


@pytest.mark.docs("admission/options")
async def test_requests_are_selected_by_the_server(hooks: Hooks) -> None:
    seen: list[str] = []

    def declare(id: str, **options: Any) -> None:
        hooks.declare(on.validate, id=id, **options)(lambda **_: seen.append(id))

    conditions = {"big": "object.spec.n > 5", "not-dry": "request.operation == 'CREATE'"}
    declare("labels", labels={"l": "v"})
    declare("namespaces", namespace_selector={"kubernetes.io/metadata.name": "nosuch"})
    declare("conditions", match_conditions=conditions)
    async with hooks.serving():
        await hooks.create({"n": 1}, dry=True)
        assert seen == []
        await hooks.create({"n": 6}, dry=True)
        assert seen == ["conditions"]
        await hooks.create({"n": 1}, dry=True, metadata={"labels": {"l": "v"}})
        assert seen == ["conditions", "labels"]


async def test_handled_objects_are_judged_by_the_same_operator(hooks: Hooks) -> None:
    users: set[str] = set()

    @hooks.declare(on.mutate, operation="CREATE")
    def default(spec: Any, patch: Any, **_: Any) -> None:
        patch.spec.setdefault("n", 5)

    @hooks.declare(on.validate)
    def check(spec: Any, userinfo: Any, memo: Any, **_: Any) -> None:
        users.add(userinfo["username"])
        if "n" not in spec:
            deny("There is no n.")

    @on.create(GROUP, "kexes", id="made", registry=hooks.world.registry)
    async def made(spec: Any, **_: Any) -> dict[str, Any]:
        return {"n": spec["n"]}

    async with hooks.serving():
        assert (await hooks.create()).status == 201
        obj = await hooks.world.until_handled()
        assert obj["status"]["made"] == {"n": 5}
        await hooks.world.delete()
        await hooks.world.until_gone()
    assert users


# --- Configurations ---


@pytest.mark.docs("admission/managed")
async def test_configurations_appear_and_go(hooks: Hooks) -> None:
    hooks.declare(on.validate, id="plain")(lambda **_: None)
    hooks.declare(on.validate, id="stays", persistent=True)(lambda **_: None)
    async with hooks.serving():
        body = await hooks.until_configured(get_names)
        assert get_names(body) == [
            f"{id}.{hooks.managed}" for id in ("plain", "stays", "probe-validate")
        ]
    body = await hooks.world.request("GET", hooks.url())
    assert get_names(body) == [f"stays.{hooks.managed}"]
    body = await hooks.world.request("GET", hooks.url("mutating"))
    assert get_names(body) == []
    assert (await hooks.create()).status == 500  # nobody judges it now, but somebody has to


@pytest.mark.docs("admission/managed")
async def test_foreign_parts_of_configurations_are_kept(hooks: Hooks) -> None:
    foreign = {
        "name": "other.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"no": "such"}},
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": hooks.managed, "labels": {"my": "label"}},
        "webhooks": [foreign],
    }
    await hooks.world.request("POST", CONFIGURATIONS.format("validating"), body)
    hooks.declare(on.validate, id="plain")(lambda **_: None)
    async with hooks.serving():
        body = await hooks.until_configured(lambda body: len(get_names(body)) == 3)
        assert get_names(body)[0] == "other.example.com"
        assert body["metadata"]["labels"] == {"my": "label"}
        await hooks.world.request("PATCH", hooks.url(), {"metadata": {"labels": {"a": "b"}}}, MERGE)
    body = await hooks.world.request("GET", hooks.url())
    assert get_names(body) == ["other.example.com"]
    assert body["metadata"]["labels"] == {"my": "label", "a": "b"}


@pytest.mark.docs("admission/managed")
async def test_configurations_are_restored(hooks: Hooks) -> None:
    hooks.declare(on.validate, id="plain")(lambda **_: None)
    names = [f"plain.{hooks.managed}", f"probe-validate.{hooks.managed}"]
    async with hooks.serving():
        await hooks.world.request("DELETE", hooks.url())
        await hooks.until_configured(lambda body: get_names(body) == names)
        await hooks.configure({"webhooks": []})
        await hooks.until_configured(lambda body: get_names(body) == names)
        webhooks = (await hooks.world.request("GET", hooks.url()))["webhooks"]
        webhooks[0]["failurePolicy"] = "Ignore"
        webhooks[0]["rules"] = []
        await hooks.configure({"webhooks": webhooks})
        body = await hooks.until_configured(lambda b: b["webhooks"][0]["failurePolicy"] == "Fail")
        assert body["webhooks"][0]["rules"][0]["resources"] == ["kexes"]
        await hooks.until_called()


@pytest.mark.docs("admission/managed")
async def test_leftovers_of_the_previous_generations_are_removed(hooks: Hooks) -> None:
    old = {
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"no": "such"}},
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": hooks.managed},
        "webhooks": [
            {"name": f"gone.{hooks.managed}", **old},
            {"name": f"plain.{hooks.managed}", **old},
            {"name": f"gone2.{hooks.managed}", **old},
        ],
    }
    await hooks.world.request("POST", CONFIGURATIONS.format("validating"), body)
    hooks.declare(on.validate, id="plain")(lambda **_: None)
    names = [f"plain.{hooks.managed}", f"probe-validate.{hooks.managed}"]
    async with hooks.serving():
        body = await hooks.until_configured(lambda body: sorted(get_names(body)) == names)
    body = await hooks.world.request("GET", hooks.url())
    assert get_names(body) == []


@pytest.mark.docs("admission/managed")
async def test_configurations_follow_resources(hooks: Hooks) -> None:
    plural = f"late{hooks.world.namespace.partition('-')[2]}s"
    name = f"{plural}.{GROUP}"
    hooks.declare(on.validate, plural, id="late")(lambda **_: None)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    async with hooks.serving():
        late = f"late.{hooks.managed}"
        assert late not in get_names(await hooks.world.request("GET", hooks.url()))
        await hooks.world.request("POST", CRDS, definition)
        await hooks.until_configured(lambda body: late in get_names(body))
        await hooks.world.request("DELETE", f"{CRDS}/{name}")
        await hooks.until_configured(lambda body: late not in get_names(body))


async def test_two_operators_can_share_a_configuration(hooks: Hooks) -> None:
    hooks.declare(on.validate, id="one")(lambda **_: None)
    other = World(
        hooks.world.url,
        hooks.world.namespace,
        hooks.world.kubeconfig,
    )
    other.settings.admission.managed = hooks.managed
    other.settings.admission.server = WebhookServer(addr="127.0.0.1")
    on.validate(GROUP, "kexes", id="two", registry=other.registry)(lambda **_: None)
    ids = ("one", "two", "probe-validate")
    try:
        async with hooks.serving():
            async with other.operator():
                await hooks.until_configured(lambda body: len(get_names(body)) == len(ids))
            await hooks.until_configured(lambda body: len(get_names(body)) == 2)
    finally:
        await other.close()


class Service:
    """What is in front of replicas: their connections go on when they are not ready anymore."""

    def __init__(self, folder: pathlib.Path) -> None:
        certificate, key = WebhookServer.build_certificate(["127.0.0.1"])
        self.certfile, self.pkeyfile = folder / "tls.crt", folder / "tls.key"
        self.certfile.write_bytes(certificate + b"\n" + key)
        self.pkeyfile.write_bytes(key)
        self.ports: dict[str, int] = {}
        """Of those replicas that are ready, by their names."""

        self.port = 0
        self._count = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        yield
        server.close()

    def make_server(self, name: str) -> Any:
        """A webhook server of one replica, which tells the address of the service."""
        server = WebhookServer(addr="127.0.0.1", certfile=self.certfile, pkeyfile=self.pkeyfile)

        async def serve(fn: Any) -> AsyncIterator[Any]:
            async with contextlib.aclosing(server(fn)) as configs:
                async for config in configs:
                    self.ports[name] = int(config["url"].rpartition(":")[-1])
                    yield {**config, "url": f"https://127.0.0.1:{self.port}"}

        return serve

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        ports = [*self.ports.values()]
        there, back = await asyncio.open_connection("127.0.0.1", ports[self._count % len(ports)])
        await asyncio.gather(_pipe(reader, back), _pipe(there, writer), return_exceptions=True)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def test_k13_a_replica_that_leaves_does_not_open_admission(
    hooks: Hooks, tmp_path: pathlib.Path
) -> None:
    """Under load, everything is judged and amended, and nothing valid is refused."""
    wrong: list[Answer] = []
    answered = asyncio.Semaphore(0)

    @hooks.declare(on.validate, id="check")
    def check(spec: Any, **_: Any) -> None:
        if spec.get("n", 0) > 10:
            deny("Too many!", code=422)

    @hooks.declare(on.mutate, id="amend")
    def amend(patch: Any, **_: Any) -> None:
        patch.spec["amended"] = True

    async def load(n: int) -> None:
        while True:
            answer = await hooks.create({"n": n}, dry=True)
            is_right = (
                answer.status == 422
                if n > 10
                else answer.status == 201 and answer.body["spec"].get("amended")
            )
            if not is_right:
                wrong.append(answer)
            answered.release()

    hooks.declare_probes()
    service = Service(tmp_path)
    hooks.world.settings.admission.server = service.make_server("one")
    other = World(hooks.world.url, hooks.world.namespace, hooks.world.kubeconfig)
    other.registry = hooks.world.registry
    other.settings.admission.managed = hooks.managed
    other.settings.admission.server = service.make_server("two")
    async with service.serving(), contextlib.AsyncExitStack() as first:
        async with other.operator(hooks.world.registry):
            await first.enter_async_context(hooks.world.operator())
            await hooks.until_called()
            for type in ("validating", "mutating"):
                await hooks.until_configured(lambda body: len(get_marks(body)) == 2, type)
            tasks = [asyncio.create_task(load(n)) for n in (1, 99) * 4]
            for _ in range(100):
                await answered.acquire()
            del service.ports["one"]
            await first.aclose()
            for _ in range(100):
                await answered.acquire()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert wrong == []
            body = await hooks.until_configured(get_names)
            assert len(get_marks(body)) == 1
        body = await hooks.until_configured(lambda body: not get_names(body))
        assert not get_marks(body)
    await other.close()


def get_marks(body: Any) -> Any:
    return body["metadata"].get("annotations") or {}


@pytest.mark.parametrize("case", ["no time is left", "the second signal"])
async def test_k13_webhooks_are_removed_however_little_time_there_is(
    hooks: Hooks, case: str
) -> None:
    """Otherwise, the API refuses all changes afterwards: there is nobody to check them."""
    async with hooks.serving() as operator:
        for type in ("validating", "mutating"):
            await hooks.until_configured(get_names, type)
        if case == "no time is left":  # it was all spent on a handler that hangs
            operator.exit.get_left_for_work = lambda: 0.0  # type: ignore[method-assign]
        else:
            operator.exit.hastened.set()
    for type in ("validating", "mutating"):
        body = await hooks.until_configured(lambda body: not get_names(body), type)
        assert not get_marks(body)


# --- Exits and certificates ---


async def test_g3_requests_in_work_are_answered_before_the_exit(hooks: Hooks) -> None:
    started, proceed = asyncio.Event(), asyncio.Event()

    @hooks.declare(on.validate, id="slow")
    async def slow(warnings: list[str], **_: Any) -> None:
        started.set()
        await proceed.wait()
        warnings.append("done")

    async with hooks.world.operator() as operator:
        await hooks.until_configured(get_names)
        async with asyncio.timeout(PATIENCE):
            while not started.is_set():
                pending = asyncio.create_task(hooks.create(dry=True))
                await asyncio.wait([pending], timeout=0.1)
        operator.stop()
        await hooks.until_configured(lambda body: not get_names(body))
        proceed.set()
        answer = await pending
    assert (answer.status, answer.warnings) == (201, ["done"])


async def test_g4_certificates_are_swapped_under_load(hooks: Hooks, tmp_path: Any) -> None:
    certfile, pkeyfile = tmp_path / "cert.pem", tmp_path / "key.pem"

    def renew() -> None:
        certificate, key = WebhookServer.build_certificate(["127.0.0.1"])
        pkeyfile.write_bytes(key)
        certfile.write_bytes(certificate)

    renew()
    server = WebhookServer(
        addr="127.0.0.1", certfile=certfile, pkeyfile=pkeyfile, cafile=certfile,
        file_check_interval=8,  # the half is for the new certificate to be trusted
    )  # fmt: skip
    hooks.world.settings.admission.server = server
    hooks.declare(on.validate, id="x")(lambda warnings, **_: warnings.append("judged"))
    async with hooks.serving():
        url = (await hooks.until_configured(get_names))["webhooks"][0]["clientConfig"]["url"]
        address = ("127.0.0.1", int(url.split(":")[2].split("/")[0]))
        before = await asyncio.to_thread(ssl.get_server_certificate, address)
        stop = asyncio.Event()

        async def load() -> list[Answer]:
            answers = []
            while not stop.is_set():
                answers.append(await hooks.create(dry=True))
            return answers

        loads = [asyncio.create_task(load()) for _ in range(3)]
        renew()
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(ssl.get_server_certificate, address) == before:
                await hooks.create(dry=True)
        for _ in range(20):
            await hooks.create(dry=True)
        stop.set()
        answers = [answer for answers in await asyncio.gather(*loads) for answer in answers]
    assert {(answer.status, *answer.warnings) for answer in answers} == {(201, "judged")}


# --- Refusals ---


@pytest.mark.docs("admission/servers")
async def test_webhooks_with_no_server_are_refused_at_once(hooks: Hooks) -> None:
    hooks.world.settings.admission.server = None
    hooks.declare(on.validate, id="x")(lambda **_: None)
    with pytest.raises(AdmissionSetupError, match=r"settings\.admission\.server"):
        async with hooks.world.operator():
            pass


async def test_exited_servers_end_the_operator(hooks: Hooks) -> None:
    async def server(_: Any) -> Any:
        yield {"url": "https://127.0.0.1:1"}

    hooks.world.settings.admission.server = server
    hooks.declare(on.validate, id="x", ignore_failures=True)(lambda **_: None)
    on.login(registry=hooks.world.registry)(login_with_kubeconfig)
    with pytest.raises(AdmissionSetupError, match="has exited unexpectedly"):
        async with asyncio.timeout(PATIENCE):
            await run_operator(
                registry=hooks.world.registry,
                settings=hooks.world.settings,
                namespaces=[hooks.world.namespace],
            )


# --- Servers of users ---


class CustomServer:
    """A class with a server inside, and what has become of it."""

    def __init__(self) -> None:
        self.inner = WebhookServer(addr="127.0.0.1")
        self.log: list[str] = []

    async def __call__(self, fn: Any) -> AsyncIterator[Any]:
        try:
            async for config in self.inner(fn):
                yield config
        finally:
            self.log.append("closed")


class ManagedServer(CustomServer):
    async def __aenter__(self) -> Any:
        self.log.append("entered")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("exited")


class FactoryOfServers(ManagedServer):
    async def __aenter__(self) -> Any:
        self.log.append("entered")
        return super().__call__

    def __call__(self, _: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("It is not me who serves.")


@pytest.mark.docs("admission/servers")
@pytest.mark.parametrize(
    ("cls", "is_function", "log"),
    [
        (CustomServer, True, ["closed"]),
        (CustomServer, False, ["closed"]),
        (ManagedServer, False, ["entered", "closed", "exited"]),
        (FactoryOfServers, False, ["entered", "closed", "exited"]),
    ],
    ids=["generator", "class", "context-manager", "factory"],
)
async def test_servers_of_users_are_served_and_closed(
    hooks: Hooks, cls: type[CustomServer], is_function: bool, log: list[str]
) -> None:
    server = cls()
    hooks.world.settings.admission.server = server.__call__ if is_function else server
    hooks.declare(on.validate, id="x")(lambda warnings, **_: warnings.append("judged"))
    async with hooks.serving():
        assert (await hooks.create(dry=True)).warnings == ["judged"]
        assert "closed" not in server.log
    assert server.log == log


@pytest.mark.docs("admission/servers")
async def test_addresses_that_change_are_reconfigured(hooks: Hooks) -> None:
    move, moved = asyncio.Event(), "https://127.0.0.1:1/moved"

    async def server(fn: Any) -> AsyncIterator[Any]:
        async for config in WebhookServer(addr="127.0.0.1")(fn):
            yield config
            await move.wait()
            yield {**config, "url": moved}

    hooks.world.settings.admission.server = server
    hooks.declare(on.validate, id="x", ignore_failures=True)(lambda **_: None)
    async with hooks.serving():
        move.set()
        for type in ("validating", "mutating"):
            await hooks.until_configured(
                lambda body: (
                    {w["clientConfig"]["url"].rpartition("/")[0] for w in body["webhooks"]}
                    == {moved}
                ),
                type,
            )
