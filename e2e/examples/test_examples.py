"""Every example is run as a user would run it: as a process, with objects coming and going."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from e2e.clusters import Cluster
from kopf_cogs.clients.errors import APIConflictError, APIError, APINotFoundError
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings

ROOT = pathlib.Path(__file__).resolve().parents[2] / "examples"
KEX = "/apis/kopf.dev/v1/namespaces/{}/kopfexamples"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
CHANGES = "(?:create|update|delete|field|resume|configmap)"
"""What the names of functions in the examples begin with, if they handle changes, not watch."""

LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"
PATIENCE = 120.0
"""In seconds; it is only reached when a test fails."""


@dataclass(frozen=True)
class Story:
    """What is seen in the log of an example after each of the changes; regular expressions."""

    started: tuple[str, ...] = ("watch-stream for kopfexamples",)
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    status: dict[str, Any] = field(default_factory=dict)
    events: frozenset[tuple[str, str]] = frozenset()
    """The types and reasons of Kubernetes events that are there after the creation."""

    absent: tuple[str, ...] = ()
    """What is never in the log."""

    tracebacks: bool = False
    """Whether errors with tracebacks are what the example is about."""


STORIES = {
    "01-minimal": Story(
        created=(r"Creation is processed: 1 succeeded",),
        updated=(r"Updating is processed: 1 succeeded",),
        deleted=(r"Deletion is processed: 1 succeeded", r"really deleted"),
        status={"create_fn": {"message": "hello world"}},
        events=frozenset({("Normal", "Greeting")}),
    ),
    "02-children": Story(
        # The pod is either streamed or listed, whichever of its watch and its creation is first.
        created=(r"Creation is processed: 1 succeeded", r"Pod kopf-example-1-\S+: (ADDED|None)")
    ),
    "03-exceptions": Story(
        created=(
            r"'instant_failure_with_traceback' failed with an exception and will stop",
            r"'ignored_failure_with_traceback' failed .* and will ignore it",
            r"Creation is processed: \d succeeded; [1-9] failed",
        ),
        tracebacks=True,
    ),
    "04-events": Story(
        created=(r"Creation is processed: 1 succeeded",),
        events=frozenset(
            (type, "SomeReason") for type in ("SomeType", "Normal", "Warning", "Error")
        ),
    ),
    "05-handlers": Story(
        created=(
            r"^CREATED 1st",
            r"^CREATED or RESUMED 2nd",
            r"^FIELD CHANGED: None -> value",
            r"Creation is processed: 3 succeeded; 0 failed",
        ),
        updated=(
            r"^UPDATED",
            r"^FIELD CHANGED: value -> changed",
            r"Updating is processed: 2 succeeded; 0 failed",
        ),
        deleted=(
            r"^DELETED 1st",
            r"^DELETED 2nd",
            r"Deletion is processed: 2 succeeded; 0 failed",
            r"really deleted",
        ),
        absent=(r"^RESUMED",),
    ),
    "06-peering": Story(  # with no peers: what they do to each other is another story
        created=(r"^Created: kopf-example-1$", r"Creation is processed: 1 succeeded")
    ),
    "07-subhandlers": Story(
        created=(
            r"'create_fn/item1' succeeded",
            r"'create_fn/item2' succeeded",
            r"Creation is processed: 1 succeeded; 0 failed",
        ),
        status={f"create_fn/item{n}": f"done with item{n}" for n in (1, 2)},
    ),
    "08-watching": Story(
        created=(r"^Event: (ADDED|None) for kopf-example-1",),
        updated=(r"^Event: MODIFIED for kopf-example-1",),
        deleted=(r"^Event: DELETED for kopf-example-1",),
    ),
    "09-testing": Story(
        created=(r"Creation is processed: 1 succeeded",),
        deleted=(r"Deletion is processed: 1 succeeded",),
    ),
    "11-filtering": Story(
        created=(
            r"Label satisfied",
            r"Labels present and absent",
            r"Annotation satisfied by call",
            r"Callbacks satisfied",
            r"Field value satisfied",
            r"Creation is processed: 5 succeeded",
        ),
        updated=(r"Field change satisfied\.",),
        absent=(r"Label not satisfied", r"Field change satisfied by callback"),
    ),
    "13-hooks": Story(
        started=(r"Starting retried", r"Logging in", r"watch-stream for kopfexamples"),
        created=(r"Creation is processed: 1 succeeded",),
        ended=(r"Cleaning up", r"Activity 'cleanup_fn' succ"),
    ),
    "14-daemons": Story(
        created=(
            r"=> Ping from an async daemon: field='value'",
            r"=> Ping from a sync daemon: field='value', retry=0",
        ),
        updated=(r"=> Ping from an async daemon: field='changed'",),
        deleted=(r"=> Stopped: .*RESOURCE_DELETED",),
        absent=(r"=> Restarting",),
    ),
    "15-timers": Story(
        created=(r"Every second: field='value'", r"Timer 'every_2s_sharp' succeeded"),
        updated=(r"Every second: field='changed'",),
    ),
    "16-indexing": Story(created=(r"known examples: \['kopf-example-1'\]",)),
    "17-admission": Story(
        started=(r"Reconfiguring the validating webhook", r"Reconfiguring the mutating webhook"),
        created=(r"It is created for 1m", r"Creation is processed: 1 succeeded"),
        ended=(r"Cleaning up the admission webhook example\.kopf\.dev",),
    ),
    "21-triggers": Story(
        created=(
            r"The phase is Started",
            r"A look because of a message",
            r"Creation is processed: 1 succeeded; 0 failed",
        ),
        status={"phase": "Started"},
        absent=(r"The backup for",),
    ),
    "99-all-at-once": Story(
        created=(
            r"First time is a warm-up",
            r"'create_fn/item2' succeeded",
            r"Tick 1$",
            r"The daemon has started",
            r"Creation is processed: 2 succeeded; 0 failed",
        ),
        updated=(r"Updating is processed: 2 succeeded; 0 failed",),
        deleted=(r"The daemon is stopping",),
        ended=(r"Activity 'cleanup_fn' succeeded",),
        status={
            "create_fn": {"message": "one of 1 with the same field"},
            "create_fn/item1": "item1 is handled",
            "create_fn/item2": "item2 is handled",
            "field": {"new": "value"},
        },
    ),
}


class Process:
    """An operator in a process of its own, and what it has logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._fresh = 0
        self._news = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._news:
                self.lines.append(line.decode().rstrip())
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()

    async def see(self, *patterns: str) -> None:
        """Wait for the lines, in any order, since the previous milestone."""
        start = self._fresh
        for pattern in patterns:
            try:
                async with asyncio.timeout(PATIENCE), self._news:
                    await self._news.wait_for(
                        lambda p=pattern: any(re.search(p, ln) for ln in self.lines[start:])
                    )
            except TimeoutError:
                log = "\n".join(self.lines)
                pytest.fail(f"There is no {pattern!r} in the log:\n{log}")
        self._fresh = len(self.lines)

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
            await self._reader
        return code


@contextlib.asynccontextmanager
async def running(
    path: pathlib.Path, namespace: str, cluster: Cluster, *options: str
) -> AsyncIterator[Process]:
    command = [sys.executable, "-m", "kopf", "run", "--verbose", *(options or ["--standalone"]),
               "--log-format=plain", "-n", namespace, str(path)]  # fmt: skip
    process = Process(
        await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig_path), "PYTHONUNBUFFERED": "1"},
        )
    )
    try:
        yield process
    finally:
        if process.process.returncode is None:
            process.process.kill()
            await process.process.wait()


@pytest.fixture
async def client(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig_path))
    credentials = login_with_kubeconfig(settings=OperatorSettings())
    assert credentials is not None
    async with Client(credentials) as client:
        await ensure_definition(client)
        yield client


@pytest.fixture
async def _peerings(client: Client) -> AsyncIterator[None]:
    """The kinds of peering: other operators would notice them, so they go in the end."""
    url = "/apis/kopf.dev/v1/kopfpeerings"
    await ensure_definition(client, ROOT / "peering.yaml", url)
    yield
    for plural in ("kopfpeerings", "clusterkopfpeerings"):
        await client.delete(f"{CRDS}/{plural}.kopf.dev")
        await until_gone(client, f"{CRDS}/{plural}.kopf.dev")


async def ensure_definition(
    client: Client, path: pathlib.Path = ROOT / "crd.yaml", url: str = KEX.format("default")
) -> None:
    for document in yaml.safe_load_all(path.read_text()):  # noqa: ASYNC240
        if document["kind"] == "CustomResourceDefinition":
            with contextlib.suppress(APIConflictError):
                await client.post(CRDS, document)
    await until(lambda: client.get(url))


async def until(attempt: Any) -> Any:
    """Repeat the request until it succeeds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await attempt()
            except APIError:
                await asyncio.sleep(0.1)


async def until_stored(client: Client, url: str, name: str) -> None:
    """Wait until the creation is not only handled, but is remembered on the object as well.

    Changes that come in between are handled as such, but the stories are simpler without them.
    """
    if "@kopf.on.create" not in (ROOT / name / "example.py").read_text():
        return
    async with asyncio.timeout(PATIENCE):
        while True:
            if LAST_HANDLED in ((await client.get(url))["metadata"].get("annotations") or {}):
                return
            await asyncio.sleep(0.05)


async def until_gone(client: Client, url: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.get(url)
            except APINotFoundError:
                return
            await asyncio.sleep(0.1)


async def create_namespace(client: Client, namespace: str) -> None:
    await client.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    with contextlib.suppress(APIConflictError):  # pods need it; there can be nobody to make it
        await client.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}}
        )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STORIES)
async def test_example(name: str, cluster: Cluster, client: Client) -> None:
    story, namespace = STORIES[name], f"example-{name}-{os.getpid()}"
    await create_namespace(client, namespace)
    url = KEX.format(namespace)
    obj = yaml.safe_load((ROOT / "obj.yaml").read_text())
    one = f"{url}/{obj['metadata']['name']}"
    async with running(ROOT / name / "example.py", namespace, cluster) as process:
        await process.see(*story.started)
        await client.post(url, obj)
        await process.see(*story.created)
        await check_object(client, one, namespace, story)
        await until_stored(client, one, name)
        await client.patch(one, {"spec": {"field": "changed"}}, content_type=MERGE)
        await process.see(*story.updated)
        await client.delete(one)
        await process.see(*story.deleted)
        await until_gone(client, one)
        code = await process.stop()
    await client.delete(f"/api/v1/namespaces/{namespace}")
    check_log(process.lines, story)
    assert code == 0


@pytest.mark.timeout(600)
async def test_embedded_example(cluster: Cluster, client: Client) -> None:
    """It is an application of its own, which stops by itself."""
    process = Process(
        await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "12-embedded" / "example.py"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig_path), "PYTHONUNBUFFERED": "1"},
        )
    )
    await process.see("Do the main job", "Stopping the operator")
    async with asyncio.timeout(PATIENCE):
        assert await process.process.wait() == 0


@pytest.mark.timeout(600)
async def test_clusters_example(cluster: Cluster, client: Client, tmp_path: pathlib.Path) -> None:
    """Two names of one cluster: the second is added later, and the first is removed then."""
    namespace = f"example-22-{os.getpid()}"
    await create_namespace(client, namespace)
    url = KEX.format(namespace)
    home, work = tmp_path / "home.yaml", tmp_path / "work.yaml"
    shutil.copy(cluster.kubeconfig_path, home)
    process = Process(
        await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "22-clusters" / "example.py"),
            str(tmp_path),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    )
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "spec": {}}
    await client.post(url, {**body, "metadata": {"name": "one"}})
    await process.see("Created in home: one", r"\[home\] .*Creation is processed: 1 succ")
    os.unlink(home)
    await process.see("Cluster home is not served anymore")
    shutil.copy(cluster.kubeconfig_path, work)
    await process.see("Cluster work is served from now on")
    await client.post(url, {**body, "metadata": {"name": "two"}})
    await process.see("Created in work: two", r"\[work\] .*Creation is processed: 1 succ")
    code = await process.stop()
    await client.delete(f"/api/v1/namespaces/{namespace}")
    assert code == 0


@pytest.mark.timeout(600)
async def test_builtins_example(cluster: Cluster, client: Client) -> None:
    """It handles pods and config maps instead of custom resources."""
    namespace = f"example-10-{os.getpid()}"
    await create_namespace(client, namespace)
    pods, maps = (f"/api/v1/namespaces/{namespace}/{plural}" for plural in ("pods", "configmaps"))
    pod = {
        "metadata": {"name": "victim-1"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    async with running(ROOT / "10-builtins" / "example.py", namespace, cluster) as process:
        await process.see("watch-stream for pods.v1", "watch-stream for configmaps.v1")
        await client.post(pods, {**pod, "metadata": {"name": "innocent-1"}})
        await client.post(pods, pod)
        await process.see(f"The pod {namespace}/victim-1 is found", "victim-1 would be killed now")
        await client.post(maps, {"metadata": {"name": "cm1"}, "data": {"a": "b"}})
        await client.patch(
            f"{maps}/cm1", {"metadata": {"labels": {"somelabel": "x"}}}, content_type=MERGE
        )
        await process.see("The config map cm1 has the keys: a", "Creation is processed: 1 succ")
        await client.delete(f"{pods}/victim-1?gracePeriodSeconds=0")
        await process.see(r"'pod_in_sight' succeeded")
        code = await process.stop()
    await client.delete(f"/api/v1/namespaces/{namespace}")
    check_log(process.lines, Story())
    assert code == 0
    assert not [line for line in process.lines if "innocent-1 " in line]
    assert len([line for line in process.lines if "has the keys" in line]) == 1


@pytest.mark.timeout(600)
async def test_website_example(cluster: Cluster, client: Client) -> None:
    """Children are made, kept right, rolled out, and go with their owner; with nothing in vain."""
    namespace, folder = f"example-18-{os.getpid()}", ROOT / "18-website"
    await create_namespace(client, namespace)
    await ensure_definition(client, folder / "crd.yaml", "/apis/example.com/v1/websites")
    site = yaml.safe_load((folder / "obj.yaml").read_text())
    site["metadata"]["namespace"] = namespace
    sites = f"/apis/example.com/v1/namespaces/{namespace}/websites"
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/hello"
    pages = f"/api/v1/namespaces/{namespace}/configmaps/hello"
    async with running(folder / "example.py", namespace, cluster) as process:
        await client.post(sites, site)
        await process.see(f"Applied ConfigMap {namespace}/hello", "Applied Deployment")
        first = await until(lambda: client.get(deployment))
        await client.patch(pages, {"data": {"index.html": "hacked"}}, content_type=MERGE)
        await process.see(f"Applied ConfigMap {namespace}/hello: data")
        await client.delete(deployment)
        await process.see(f"Applied Deployment {namespace}/hello\\.")
        spec = {"spec": {"pages": {"index.html": "new"}, "replicas": 3}}
        await client.patch(f"{sites}/hello", spec, content_type=MERGE)
        await process.see(f"Applied Deployment {namespace}/hello: ")
        second = await until(lambda: client.get(deployment))
        status = (await client.get(f"{sites}/hello"))["status"]
        applied = len([line for line in process.lines if "Applied" in line])
        await client.delete(f"{sites}/hello")
        await until_gone(client, deployment)
        await until_gone(client, pages)
        code = await process.stop()
    assert code == 0
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert second["spec"]["replicas"] == 3
    assert status["conditions"][0]["type"] == "Ready"
    assert applied == 6  # two at first, one and one repaired, two rolled out
    check_log(process.lines, Story())


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_peerings")
async def test_f10_peering_example(cluster: Cluster, client: Client) -> None:
    """As it is told in its text: the second operator takes over, then gives it all back."""
    namespace, path = f"example-06-peerings-{os.getpid()}", ROOT / "06-peering" / "example.py"
    await create_namespace(client, namespace)
    peerings = f"/apis/kopf.dev/v1/namespaces/{namespace}/kopfpeerings"
    peering = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}}
    await client.post(peerings, peering)
    url, obj = KEX.format(namespace), yaml.safe_load((ROOT / "obj.yaml").read_text())

    async def create(name: str) -> str:
        await client.post(url, {**obj, "metadata": {"name": name}})
        return f"Created: {name}"  # with no end of the line: logs of other threads can come before

    async with running(path, namespace, cluster, "--peering=default") as deployed:
        await deployed.see(await create("one"))
        async with running(path, namespace, cluster, "--peering=default", "--dev") as debugged:
            await deployed.see(r"Pausing operations in favour of .* \(priority 666\)")
            await debugged.see("watch-stream for kopfexamples")
            await debugged.see(await create("two"))
            assert len((await client.get(f"{peerings}/default"))["status"]) == 2
            await create("three")
            await debugged.see("Created: three")
            assert await debugged.stop() == 0
        await deployed.see("Resuming operations")
        await deployed.see(await create("four"))
        assert await deployed.stop() == 0
    status = (await client.get(f"{peerings}/default")).get("status")
    await client.delete(f"/api/v1/namespaces/{namespace}")
    assert not status
    handled = [
        re.findall(r"Created: (one|two|three|four)", "\n".join(process.lines))
        for process in (deployed, debugged)
    ]
    assert handled == [["one", "four"], ["two", "three"]]
    assert not [line for line in deployed.lines + debugged.lines if "Traceback" in line]


@pytest.mark.timeout(600)
async def test_secret_example(cluster: Cluster, client: Client) -> None:
    """Nothing runs with no secret; new ones are rolled out."""
    namespace, folder = f"example-19-{os.getpid()}", ROOT / "19-secret"
    await create_namespace(client, namespace)
    await ensure_definition(client, folder / "crd.yaml", "/apis/example.com/v1/workers")
    secret, worker = yaml.safe_load_all((folder / "obj.yaml").read_text())
    for obj in (secret, worker):
        obj["metadata"]["namespace"] = namespace
    workers = f"/apis/example.com/v1/namespaces/{namespace}/workers"
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/mailer"
    async with running(folder / "example.py", namespace, cluster) as process:
        await client.post(workers, worker)
        status = await until_status(client, f"{workers}/mailer")
        await client.post(secrets, secret)
        await process.see(f"Applied Deployment {namespace}/mailer\\.")
        first = await until(lambda: client.get(deployment))
        password = {"stringData": {"PASSWORD": "new"}}
        await client.patch(f"{secrets}/smtp", password, content_type=MERGE)
        await process.see(f"Applied Deployment {namespace}/mailer: ")
        second = await client.get(deployment)
        await client.delete(f"{workers}/mailer")
        await until_gone(client, deployment)
        code = await process.stop()
    assert code == 0
    assert status["conditions"][0]["reason"] == "NoSecret"
    assert first["spec"]["template"]["metadata"] != second["spec"]["template"]["metadata"]
    check_log(process.lines, Story())


async def until_status(client: Client, url: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            status = (await client.get(url)).get("status")
            if status:
                return status
            await asyncio.sleep(0.1)


def test_all_examples_have_their_stories() -> None:
    others = {
        "10-builtins",
        "12-embedded",
        "18-website",
        "19-secret",
        "20-typed-website",
        "22-clusters",
        "layers",
    }
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    assert folders - {"__pycache__"} == STORIES.keys() | others


def test_n6_typed_website_is_at_most_60_lines_with_its_definition() -> None:
    folder = ROOT / "20-typed-website"
    lines = (folder / "example.py").read_text("utf-8").splitlines()
    assert len(lines) <= 60
    assert all(len(line) <= 100 for line in lines)
    assert [path.name for path in folder.glob("*.y*ml")] == ["obj.yaml"]
    page = (ROOT.parent / "docs" / "models.md").read_text("utf-8")
    assert f"A whole operator, {len(lines)} lines with its definition" in page
    command = [sys.executable, "-m", "kopf", "crds", "example.py"]
    text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    [made] = yaml.safe_load_all(text)
    written = yaml.safe_load((ROOT / "18-website" / "crd.yaml").read_text("utf-8"))
    for key in ("plural", "kind", "singular", "shortNames"):
        assert made["spec"]["names"][key] == written["spec"]["names"][key]
    (ours,), (theirs,) = made["spec"]["versions"], written["spec"]["versions"]
    assert ours["subresources"] == theirs["subresources"]
    schemas = [one["schema"]["openAPIV3Schema"]["properties"]["spec"] for one in (ours, theirs)]
    assert schemas[0]["properties"].keys() == schemas[1]["properties"].keys()
    assert schemas[0]["required"] == schemas[1]["required"]


async def check_object(client: Client, url: str, namespace: str, story: Story) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            status = (await client.get(url)).get("status") or {}
            events = await client.get(f"/api/v1/namespaces/{namespace}/events")
            found = {(event["type"], event["reason"]) for event in events["items"]}
            if all(status.get(k) == v for k, v in story.status.items()) and story.events <= found:
                return
            await asyncio.sleep(0.1)


def check_log(lines: list[str], story: Story) -> None:
    log = "\n".join(lines)
    assert story.tracebacks or "Traceback" not in log, log
    for pattern in story.ended:
        assert re.search(pattern, log, re.MULTILINE), log
    for pattern in story.absent:
        assert not re.search(pattern, log, re.MULTILINE), log
    # There is one creation, one change, and one deletion; only what watches is called repeatedly.
    successes = Counter(re.findall(rf"Handler '({CHANGES}_[^']*)' succeeded", log))
    doubles = {id: n for id, n in successes.items() if n > (2 if id.startswith("field_") else 1)}
    assert not doubles, log
    cycles = Counter(re.findall(r"(Creation|Updating|Deletion) is processed", log))
    assert all(count == 1 for count in cycles.values()), log


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("*/test_*.py")))
def test_the_tests_of_examples_pass(name: str, request: pytest.FixtureRequest) -> None:
    """They are run in their folders, as people do who have copied them."""
    if request.config.getoption("--cluster") != "emulator":
        pytest.skip("they bring a sandbox of their own")
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    command = [sys.executable, "-m", "pytest", *options]
    process = subprocess.run(command, cwd=ROOT / name, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
