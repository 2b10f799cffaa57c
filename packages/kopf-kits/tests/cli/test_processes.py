"""``kopf run --processes``: several processes work at once, really; some of them are killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kopf_kits.cli.gateways import Answer, join_probes
from kopf_kits.cli.groups import main
from kopf_kits.sandbox import Entry, SandboxThread

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals."),
]

ANNOTATION = "kopf.zalando.org/last-handled-configuration"
HANDLED = "{.metadata.annotations.kopf\\.zalando\\.org/last-handled-configuration}"

OPERATOR = """
import asyncio
import os
import sys
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_core.intents import decorators as on

on.login()(login_with_kubeconfig)

def tell(*words):
    os.write(1, " ".join(map(str, (os.getpid(), *words, chr(10)))).encode())  # lines are whole

@on.startup()
def startup(**_):
    tell("starts")

@on.cleanup()
def cleanup(**_):
    tell("ends")

@on.event("kopfexamples")
def known(name, **_):
    tell("knows", name)

@on.resume("kopfexamples")
@on.create("kopfexamples")
async def fn(name, reason, **_):
    tell("handles", name, reason)
"""


class Running:
    """A command line whose output is read as it comes: the process, the verb, the object."""

    def __init__(self, process: "subprocess.Popen[str]", path: Path) -> None:
        self.process = process
        self.path = path
        self.lines: list[list[str]] = []

    def read_until(self, check: Callable[[list[list[str]]], object]) -> None:
        """Read more lines until it is so."""
        assert self.process.stdout is not None
        while not check(self.lines):
            line = self.process.stdout.readline()
            assert line, f"Nothing more than {self.lines}: {self.path.read_text()}"
            self.lines.append(line.split())

    def get(self, verb: str) -> list[list[str]]:
        return [line for line in self.lines if line[1] == verb]

    def get_pids(self, verb: str) -> list[str]:
        return [line[0] for line in self.get(verb)]

    def read_pids(self, count: int) -> list[str]:
        """Of the processes that have started, in this order."""
        self.read_until(lambda _: len(self.get("starts")) >= count)
        return self.get_pids("starts")

    def read_names(self, names: set[str]) -> None:
        """Until all of the objects are handled."""
        self.read_until(lambda _: {name for _, _, name, *_ in self.get("handles")} >= names)

    def finish(self) -> int:
        assert self.process.stdout is not None
        self.lines += [line.split() for line in self.process.stdout]
        return self.process.wait(timeout=60)


@pytest.fixture
def cluster(crd_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    with SandboxThread() as sandbox:
        sandbox.apply(crd_path)
        monkeypatch.setenv("KUBECONFIG", str(sandbox.write_kubeconfig(tmp_path / "config")))
        yield sandbox


def create(cluster: SandboxThread, names: set[str]) -> None:
    for name in sorted(names):
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": name}}
        cluster.create(body, namespace="default")


@pytest.fixture
def running(tmp_path: Path) -> object:
    @contextmanager
    def run(count: int, text: str = OPERATOR, *args: str) -> Iterator[Running]:
        path, log = tmp_path / "handlers.py", tmp_path / "log"
        path.write_text(text)
        command = [sys.executable, "-m", "kopf_kits.cli", "run", "-A", "--processes", str(count)]
        command += args
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [*command, str(path)], stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        try:
            yield Running(process, log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=60)
            if process.stdout is not None:
                process.stdout.close()

    return run


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_o_processes_share_the_objects_and_exit_as_one_does(cluster, running, signum):
    old, new = {f"old-{i}" for i in range(10)}, {f"new-{i}" for i in range(10)}
    create(cluster, old)
    with running(2) as operator:
        pids = operator.read_pids(2)
        operator.read_names(old)
        create(cluster, new)
        operator.read_names(new)
        operator.process.send_signal(signum)
        assert operator.finish() == 0
    lines = operator.get("handles")
    assert {*operator.get_pids("handles")} == {*pids}
    assert sorted(name for _, _, name, _ in lines) == sorted(old | new)
    knowing = {(pid, name) for pid, _, name in operator.get("knows")}
    assert knowing == {(pid, name) for pid, _, name, _ in lines}
    assert sorted(operator.get_pids("ends")) == sorted(pids)
    assert "Traceback" not in operator.path.read_text()


def test_o_the_part_of_a_killed_process_is_taken_over_and_given_back(cluster, running):
    old, new = {f"old-{i}" for i in range(10)}, {f"new-{i}" for i in range(10)}
    create(cluster, old)
    with running(2) as operator:
        killed, survivor = operator.read_pids(2)
        operator.read_names(old)
        for name in old:  # or else, the killed process could not store that it has handled them
            cluster.wait("kopfexamples", name, namespace="default", jsonpath=HANDLED)
        orphans = {name for pid, _, name, _ in operator.get("handles") if pid == killed}
        os.kill(int(killed), signal.SIGKILL)
        *_, successor = operator.read_pids(3)

        def get_resumed(pid: str) -> set[str]:
            return {line[2] for line in operator.get("handles") if line[::3] == [pid, "resume"]}

        operator.read_until(lambda _: get_resumed(survivor) >= orphans)
        operator.read_until(lambda _: get_resumed(successor))
        create(cluster, new)
        operator.read_names(new)
        operator.process.send_signal(signal.SIGTERM)
        assert operator.finish() == 0
    assert get_resumed(survivor) == orphans
    created = [name for _, _, name, reason in operator.get("handles") if reason == "create"]
    assert sorted(created) == sorted(old | new)
    assert "was killed by SIGKILL" in operator.path.read_text()


RECONFIGURED = """
from kopf_kits.logs import configure
configure(log_format="%(levelname)s %(message)-90s.")
"""


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (OPERATOR, ["--log-format", "full"]),
        (OPERATOR, ["--log-format", "plain", "--no-log-prefix"]),
        (OPERATOR, ["--log-format", "json"]),
        (RECONFIGURED + OPERATOR, []),
    ],
    ids=["full", "plain", "json", "reconfigured"],
)
def test_q_the_lines_of_the_logs_name_the_process(cluster, running, text, options):
    names: set[str] = set()
    with running(2, text, *options) as operator:
        while len({*operator.get_pids("handles")}) < 2:  # the second process can start late
            new = {f"obj-{len(names) + i}" for i in range(10)}
            create(cluster, new)
            names |= new
            operator.read_names(names)
        operator.process.send_signal(signal.SIGTERM)
        assert operator.finish() == 0
    lines = [line for line in operator.path.read_text().splitlines() if "'fn' succeeded" in line]
    if "json" in options:
        numbers = [json.loads(line)["process"] for line in lines]
    else:
        numbers = [int(line.partition("[process ")[2].partition("] ")[0]) for line in lines]
    parts = Counter(operator.get_pids("handles"))
    assert sorted(Counter(numbers).values()) == sorted(parts.values())
    assert {*numbers} == {1, 2}


def test_o_all_processes_exit_when_one_of_them_does(running, cluster):
    text = OPERATOR + '    if name == "fatal": sys.exit(7)\n'
    with running(2, text) as operator:
        pids = operator.read_pids(2)
        create(cluster, {"fatal"})
        assert operator.finish() == 7
    assert sorted(operator.get_pids("ends")) == sorted(pids)


def test_o_processes_exit_when_their_supervisor_is_killed(running, cluster):
    create(cluster, {"one"})
    with running(2) as operator:
        pids = operator.read_pids(2)
        operator.read_names({"one"})
        operator.process.kill()
        operator.finish()  # it is the end of the output of all
    assert sorted(operator.get_pids("ends")) == sorted(pids)


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def wait_until_served(url: str) -> None:
    """The address is opened when the first process has started to serve."""
    parts = urllib.parse.urlsplit(url)
    while True:
        with socket.socket() as sock:
            if sock.connect_ex((parts.hostname, parts.port)) == 0:
                return


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


PROBES = """
@on.probe(id="pid")
def probe(**_):
    assert not os.path.exists(os.environ["SICK"] + str(os.getpid()))
    return "well"
"""


def read_counts(text: str) -> list[float]:
    return [
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("kopf_handler_seconds_count") and 'handler="fn"' in line
    ]


def test_o_all_processes_are_served_at_one_endpoint(cluster, running, port, tmp_path, monkeypatch):
    pytest.importorskip("prometheus_client")
    monkeypatch.setenv("SICK", str(tmp_path / "sick"))
    url, names = f"http://127.0.0.1:{port}", {f"obj-{i}" for i in range(10)}
    create(cluster, names)
    with running(2, OPERATOR + PROBES, "--serve", url) as operator:
        pids = operator.read_pids(2)
        operator.read_names(names)
        wait_until_served(url)
        while get(f"{url}/readyz") != (200, '{"unready": []}'):
            pass  # the lists are over soon after their last objects are handled
        while sum(counts := read_counts(text := get(f"{url}/metrics")[1])) < 10:
            pass  # a handler is counted soon after its last words
        assert (len(counts), sum(counts)) == (2, 10)
        assert text.count("# TYPE kopf_handler_seconds histogram") == 1
        assert {f'kopf_paused{{process="{number}"}} 0.0' in text for number in (1, 2)} == {True}
        (tmp_path / f"sick{pids[1]}").touch()
        status, text = get(f"{url}/livez")
        assert (status, "The probes have failed" in text) == (500, True)
        (tmp_path / f"sick{pids[1]}").unlink()
        os.kill(int(pids[0]), signal.SIGKILL)
        operator.read_until(lambda _: len(operator.get("starts")) >= 3)
        operator.process.send_signal(signal.SIGTERM)
        assert operator.finish() == 0


FAILURE = """
@on.update("kopfexamples")
def fails(name, **_):
    raise ValueError(f"The error of {name}")

@on.startup()
def guard(settings, **_):
    settings.serving.token = "s3cr3t"
    settings.execution.backoff = 999
"""


def test_o_one_status_shows_what_all_processes_do(cluster, running, port):
    url, names = f"http://127.0.0.1:{port}", {f"obj-{i}" for i in range(10)}
    right = {"Authorization": "Bearer s3cr3t"}
    create(cluster, names)
    with running(2, OPERATOR + FAILURE, "--status", url) as operator:
        operator.read_pids(2)
        operator.read_names(names)
        owners = {name: pid for pid, _, name, *_ in operator.get("handles")}
        for name in names:
            cluster.wait("kopfexamples", name, namespace="default", jsonpath=HANDLED)
            patch(cluster, name, "changed")

        def get_status() -> dict[str, Any]:
            return dict(json.loads(get(f"{url}/status.json", **right)[1]))

        wait_until_served(url)
        while len((status := get_status())["retries"]) < 10 or status["unready"]:
            pass  # it can be a second old
        assert status["pending_retries"] == 10
        assert {row["name"] for row in status["retries"]} == names
        places = {(row["process"], owners[row["name"]]) for row in status["retries"]}
        assert len(places) == 2  # each process shows its own objects
        assert {row["message"] for row in status["retries"]} == {f"The error of {n}" for n in names}
        assert {row["process"] for row in status["errors"]} == {1, 2}
        assert {(row["process"], row["shards"]) for row in status["processes"]} == {
            (1, 32),
            (2, 32),
        }
        assert "shards" not in status
        code, page = get(f"{url}/", **right)
        assert code == 200
        assert "<th>process</th><th>kind</th>" in page
        assert all(f"The error of {name}" in page for name in names)
        assert get(f"{url}/status.json")[0] == 401
        assert get(f"{url}/status.json", Host="evil.example", **right)[0] == 403
        os.kill(int(owners["obj-0"]), signal.SIGKILL)
        while len(status := get_status()["processes"]) == 2:
            pass
        (missing,) = {1, 2} - {row["process"] for row in status}
        while get_status()["unready"] != []:
            pass
        assert missing in {row["process"] for row in get_status()["retries"]}
        operator.process.send_signal(signal.SIGTERM)
        assert operator.finish() == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "example.com"])
def test_o_the_status_of_processes_is_shown_only_to_those_who_may_see_it(running, cluster, host):
    with running(2, OPERATOR, "--status", f"http://{host}:1") as operator:
        assert operator.finish() == 1
    assert "The status is not to be served" in operator.path.read_text()


def test_o_all_processes_exit_if_their_address_is_taken(running, cluster, port):
    url = f"http://127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)), running(2, OPERATOR, "-L", url) as operator:
        assert operator.finish() == 1
    log = operator.path.read_text()
    assert f"Error: Cannot serve the probes at {url}: address already in use" in log
    assert "Traceback" not in log


def test_o_probes_are_as_bad_as_the_worst_of_processes():
    answers = [
        Answer(200, '{"a": 1}'),
        Answer(503, '{"unready": ["x", "y"]}'),
        Answer(503, '{"unready": ["y", "z"]}'),
    ]
    assert join_probes(answers)[:2] == (503, '{"unready": ["x", "y", "z"]}')
    assert join_probes(answers[:1])[:2] == (200, '{"a": 1}')
    assert join_probes([])[:2] == (200, "{}")


WEBHOOKS = """
from kopf_kits.webhooks import WebhookServer

@on.startup()
def configure(settings, **_):
    settings.admission.managed = "hooks.kopf.dev"
    settings.admission.server = WebhookServer(addr="127.0.0.1")

@on.validate("kopfexamples")
def check(name, **_):
    tell("reviews", name)
"""

CONFIGURATION = "validatingwebhookconfigurations", "hooks.kopf.dev"


def get_webhook_url(cluster: SandboxThread, former: str = "") -> str:
    """Where the webhook is served now, when it is not served there anymore."""

    def find_url(body: dict[str, Any]) -> str:
        return str(body["webhooks"][0]["clientConfig"]["url"]) if body.get("webhooks") else ""

    return find_url(cluster.wait(*CONFIGURATION, lambda body: find_url(body) not in ("", former)))


def test_o_one_of_the_processes_serves_the_webhooks_and_its_next_life_does(
    cluster, running, cryptography, monkeypatch
):
    monkeypatch.setenv("POD_ID", "pod-1")
    old, new = {f"old-{i}" for i in range(10)}, {f"new-{i}" for i in range(10)}
    with running(2, OPERATOR + WEBHOOKS) as operator:
        operator.read_pids(2)
        url = get_webhook_url(cluster)
        create(cluster, old)
        operator.read_names(old)
        (server,) = {*operator.get_pids("reviews")}
        os.kill(int(server), signal.SIGKILL)
        *_, successor = operator.read_pids(3)
        get_webhook_url(cluster, url)
        create(cluster, new)
        operator.read_names(new)
        assert {*operator.get_pids("reviews")} == {server, successor}
        operator.process.send_signal(signal.SIGTERM)
        assert operator.finish() == 0
    assert {name for _, _, name in operator.get("reviews")} == old | new
    writes = [e.json["webhooks"] for e in cluster.journal if is_written(e, CONFIGURATION[0])]
    assert [len(webhooks) for webhooks in writes] == [1, 1]  # once for each life of the server
    assert not cluster.get(*CONFIGURATION).get("webhooks")


def is_written(entry: Entry, plural: str) -> bool:
    return f"/{plural}/" in entry.path and "apply" in entry.content_type


SLOW = """
@on.update("kopfexamples")
async def slow(name, spec, **_):
    tell("begins", name)
    if spec["a"] == "exit":
        sys.exit(7)
    while not os.path.exists(os.environ["GATE"]):
        await asyncio.sleep(0.01)
"""


HAPPENINGS = """
import asyncio
from kopf_core.actions.happenings import Happening, trigger

@on.reconcile("kopfexamples", when=lambda name, **_: name.startswith("obj-"))
async def passes(name, triggers, **_):
    tell("passes", name, *sorted(str(one).replace(" ", "") for one in triggers))

@on.create("kopfexamples", id="bell", when=lambda name, **_: name.startswith("bell"))
async def bell(name, namespace, **_):
    for i in range(10):
        trigger("kopfexamples", f"obj-{i}", namespace, reason=name)

@on.external()
async def source(**_):
    tell("listens", "-")
    while not os.path.exists(os.environ["GATE"]):
        await asyncio.sleep(0.01)
    for i in range(10):
        yield Happening("kopfexamples.kopf.dev", f"obj-{i}", reason="source")
    tell("listened", "-")
    await asyncio.Event().wait()
"""


def test_q_happenings_reach_the_objects_of_all_processes(cluster, running, tmp_path, monkeypatch):
    gate = tmp_path / "gate"
    monkeypatch.setenv("GATE", str(gate))
    names = {f"obj-{i}" for i in range(10)}
    create(cluster, names)
    with running(2, OPERATOR + HAPPENINGS) as operator:
        pids = operator.read_pids(2)
        operator.read_names(names)

        def get_passes(trigger: str) -> list[tuple[str, str]]:
            return [(pid, name) for pid, _, name, *why in operator.get("passes") if trigger in why]

        def read_passes(trigger: str) -> dict[str, str]:
            operator.read_until(lambda _: {name for _, name in get_passes(trigger)} >= names)
            return {name: pid for pid, name in get_passes(trigger)}

        owners = read_passes("appeared")
        assert {*owners.values()} == {*pids}
        create(cluster, {"bell"})
        assert read_passes("external:bell") == owners
        gate.touch()
        assert read_passes("external:source") == owners
        operator.read_until(lambda _: operator.get("listened"))
        (listener,) = operator.get_pids("listens")  # one for all
        os.kill(int(listener), signal.SIGKILL)
        operator.read_until(lambda _: len(operator.get("listened")) == 2)
        operator.process.send_signal(signal.SIGTERM)
        assert operator.finish() == 0
    assert len(get_passes("external:bell")) == len(names)


@pytest.mark.parametrize("is_asked", [True, False])
def test_o_webhooks_are_served_until_the_other_processes_have_ended(
    cluster, running, cryptography, monkeypatch, tmp_path, is_asked
):
    """The last handlers write to their objects. For that, the API needs the answers of webhooks."""
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    names, late = {f"obj-{i}" for i in range(10)}, {f"late-{i}" for i in range(10)}
    with running(2, OPERATOR + WEBHOOKS + SLOW, "--verbose") as operator:
        operator.read_pids(2)
        get_webhook_url(cluster)
        create(cluster, names)
        operator.read_names(names)
        (server,) = {*operator.get_pids("reviews")}
        owners = {name: pid for pid, _, name, *_ in operator.get("handles")}
        foreign, own = (
            next(name for name in sorted(names) if (owners[name] == server) == is_own)
            for is_own in (False, True)
        )
        for name in names:
            cluster.wait("kopfexamples", name, namespace="default", jsonpath=HANDLED)
        patch(cluster, foreign, "slow")
        operator.read_until(lambda _: operator.get("begins"))
        if is_asked:
            operator.process.send_signal(signal.SIGTERM)
        else:
            patch(cluster, own, "exit")
        while "Streaming tasks are stopped" not in operator.path.read_text():
            pass  # it is of the server: the other process still works
        create(cluster, late)
        reviewed = len(operator.get("reviews"))
        (tmp_path / "gate").touch()
        assert operator.finish() == (0 if is_asked else 7)
    assert [pid == server for pid in operator.get_pids("ends")] == [False, True]
    assert {name for _, _, name in operator.get("reviews")} == names | late
    assert foreign in [name for _, _, name in operator.get("reviews")[reviewed:]]
    body = cluster.get("kopfexamples", foreign, namespace="default")
    assert '"a":"slow"' in body["metadata"]["annotations"][ANNOTATION]


def patch(cluster: SandboxThread, name: str, value: str) -> None:
    cluster.patch("kopfexamples", name, {"spec": {"a": value}}, namespace="default")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ('settings.leasing.name = "x"', "neither leases, nor shards, nor peering"),
        ('settings.sharding.name = "x"', "neither leases, nor shards, nor peering"),
        ('settings.sharding.ring = "x"', "nor a ring with several processes"),
        ("settings.peering.mandatory = True", "neither leases, nor shards, nor peering"),
    ],
)
def test_o_what_several_processes_cannot_do_is_refused(running, cluster, code, text):
    lines = OPERATOR.replace("def startup(**_):\n", f"def startup(settings, **_):\n    {code}\n")
    with running(2, lines) as operator:
        assert operator.finish() == 1
    log = operator.path.read_text()
    assert text in log
    assert "Traceback" not in log, log


@pytest.mark.parametrize(
    "options",
    [["--lease=x"], ["--shards=x"], ["--ring=x"], ["--peering=x"], ["--reload"], ["--once"]],
    ids=str,
)
def test_o_what_does_not_go_with_processes_is_refused(options):
    result = CliRunner().invoke(main, ["run", "-A", "--processes=2", *options])
    assert result.exit_code == 2
    name = options[0].partition("=")[0]
    assert f"Use either --processes or {name}, not both." in result.output
