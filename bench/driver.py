"""One run: a fresh server, a fresh operator, the steps of a scenario, and what it took."""

from __future__ import annotations

import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.cells import Cells
from bench.config import HERE, Config
from bench.engines import Engine
from bench.processes import Child, Usage
from bench.scenarios import Scenario, Step
from bench.yardstick import measure_yardstick
from kopf_kits.certificates import Authority

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: bench
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
clusters: [{{name: bench, cluster: {{server: "{server}"{trust}}}}}]
users: [{{name: bench, user: {{token: bench}}}}]
"""


class RunFailed(Exception):
    """The operator has exited, or has not done in time what was expected of it."""


@dataclass(slots=True)
class Measurement:
    """What one run took, from the first measured step until the CPU went idle."""

    scenario: str
    engine: str
    size: int
    cpu: float = 0.0  # seconds
    wall: float = 0.0  # seconds, till the last call
    ready_cpu: float = 0.0  # seconds, for the start until the first list is asked for
    ready_rss: int = 0  # bytes, at that time
    rss: int = 0  # bytes, the growth
    peak: int = 0  # bytes, the growth of the high-water mark
    calls: int = 0
    instructions: int = 0  # only when counted, see the module for them
    requests: dict[str, int] = field(default_factory=dict)
    left: int = 0  # objects on the server in the end
    yardstick: float = 0.0  # seconds for a fixed work around the run: how slow the machine was
    latencies: list[float] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    error: str = ""

    @property
    def cpu_per_unit(self) -> float:
        """Microseconds."""
        return self.cpu / self.size * 1e6

    def latency(self, percent: int) -> float:
        """Microseconds."""
        return statistics.quantiles(self.latencies, n=100)[percent - 1] * 1e6


class Run:
    """The server and the operator under load, while they live."""

    def __init__(
        self, config: Config, scenario: Scenario, engine: Engine, size: int, *, prepare: str = ""
    ) -> None:
        self.config, self.scenario, self.engine, self.size = config, scenario, engine, size
        self.prepare = prepare
        self.stack = ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        self.log_path = self.folder / "operator.log"

    def __enter__(self) -> Run:
        with self.stack:
            self.cells = Cells.make(self.folder / "cells")
            self.context = self.make_certificates() if self.config.is_tls_on else None
            self.server = self.start_server()
            if self.prepare:
                self.control(self.prepare, self.size)
            self.control("gate")
            self.operator = self.start_operator()
            self.wait(lambda: self.control("stats")["gated"] > 0, "listing", poll=0.1)
            self.wait_until_quiet()
            self.ready = self.operator.usage()
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def make_certificates(self) -> ssl.SSLContext:
        """Make the certificates of the server and of its authority, for this run only."""
        authority = Authority("bench")
        pair = authority.issue("bench", hostnames=["127.0.0.1"])
        (self.folder / "server.pem").write_bytes(pair.certificate + pair.key)
        (self.folder / "ca.pem").write_bytes(authority.pair.certificate)
        return ssl.create_default_context(cafile=str(self.folder / "ca.pem"))

    def start_server(self) -> str:
        scenario = self.scenario
        scheme, tls = "http", []
        if self.context is not None:
            scheme, tls = "https", ["--certificate", str(self.folder / "server.pem")]
        objects = self.size if scenario.objects is None else scenario.objects
        log = self.stack.enter_context((self.folder / "server.log").open("wb"))
        child = Child(
            [sys.executable, "-m", "bench.loadserver", "--objects", str(objects), *tls],
            env=os.environ | {"BENCH_CELLS": str(self.folder / "cells")},
            core=self.config.server_core,
            log=log,
            cwd=HERE.parent,
            stdout=subprocess.PIPE,
        )
        self.stack.callback(child.stop)
        self.server_process = child
        assert child.process.stdout is not None
        self.stack.enter_context(child.process.stdout)
        return f"{scheme}://127.0.0.1:{int(child.process.stdout.readline())}"

    def start_operator(self) -> Child:
        kubeconfig = self.folder / "kubeconfig"
        trust, env = "", {}
        if self.context is not None:
            trust = f", certificate-authority: {self.folder}/ca.pem"
            env = {"BENCH_CA": str(self.folder / "ca.pem")}
        kubeconfig.write_text(KUBECONFIG.format(server=self.server, trust=trust))
        env |= self.engine.environ(self.scenario) | {
            "KUBECONFIG": str(kubeconfig),
            "BENCH_CELLS": str(self.folder / "cells"),
            "BENCH_FACTS": str(self.folder / "facts"),
        }
        log = self.stack.enter_context(self.log_path.open("wb"))
        command = self.engine.command(self.scenario, self.server)
        core = self.config.operator_core
        child = Child(command, env=env, core=core, log=log, cwd=self.folder)
        self.stack.callback(child.stop, self.config.patience)
        return child

    def control(self, command: str, count: int = 0, pid: int = 0) -> dict[str, int]:
        url = f"{self.server}/_bench/{command}?n={count}&pid={pid}"
        with urllib.request.urlopen(url, timeout=60, context=self.context) as response:
            stats: dict[str, int] = json.load(response)
        return stats

    def wait(self, condition: Callable[[], bool], what: str, poll: float) -> None:
        deadline = time.monotonic() + self.config.deadline
        while not condition():
            if not self.operator.is_alive:
                raise RunFailed(f"exited before {what}: {self.last_words()}")
            if time.monotonic() > deadline:
                raise RunFailed(f"no {what} in {self.config.deadline:.0f} s: {self.last_words()}")
            time.sleep(poll)

    def last_words(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return lines[-1][:200] if lines else "no output"

    def wait_until_quiet(self) -> None:
        """Until both sides want no CPU for some time: whatever they were doing, it is done."""
        cpu, since = 0.0, time.monotonic()
        both = (self.operator, self.server_process)

        def is_quiet() -> bool:
            nonlocal cpu, since
            now = sum(child.cpu for child in both)
            if now - cpu > 0.004 or any(child.is_waiting_for_cpu for child in both):
                cpu, since = now, time.monotonic()
            return time.monotonic() - since > self.config.quiet

        self.wait(is_quiet, "silence", poll=self.config.poll)

    def perform(self, step: Step) -> float:
        """Do the step, wait for what it must lead to; return the time till the last call."""
        if step.trigger == "window":
            self.cells.forget_latencies()
            time.sleep(self.config.window)
            return self.config.window
        started = time.monotonic()
        expected = self.cells.calls + step.calls * self.size
        self.control(step.trigger, self.size)
        what = f"{step.calls * self.size} calls"
        self.wait(lambda: self.cells.calls >= expected, what, poll=self.config.poll)
        wall = time.monotonic() - started
        self.wait_until_settled()
        return wall

    def wait_until_settled(self) -> None:
        if not self.scenario.is_ticking:  # there, it is never quiet
            self.wait_until_quiet()
            self.wait(lambda: self.control("stats")["running"] == 0, "load", poll=0.1)
            self.wait_until_quiet()
        else:
            self.wait_until_unrequested()
            expected = self.cells.calls + self.size
            what = "one more call for every object"
            self.wait(lambda: self.cells.calls >= expected, what, poll=self.config.poll)

    def wait_until_unrequested(self) -> None:
        """Until the operator asks the server for nothing, e.g. all its finalizers are set."""
        seen: dict[str, int] = {}

        def is_silent() -> bool:
            nonlocal seen
            before, seen = seen, self.control("stats")
            return seen == before

        self.wait(is_silent, "silence of the server", poll=self.config.silence)


def measure(config: Config, scenario: Scenario, engine: Engine, size: int) -> Measurement:
    """Run it once; a failure is a result too."""
    result = Measurement(scenario.name, engine.name, size)
    before = measure_yardstick(config.operator_core)
    try:
        with Run(config, scenario, engine, size) as run:
            for step in scenario.prepare:
                run.perform(step)
            usage, calls, stats = run.operator.usage(), run.cells.calls, run.control("stats")
            result.wall = sum(run.perform(step) for step in scenario.measured)
            record(result, run, usage, stats)
            result.calls = run.cells.calls - calls
            if scenario.is_latency or scenario.is_ticking:
                result.latencies = run.cells.latencies()
    except RunFailed as exc:
        result.error = str(exc)
    result.yardstick = (before + measure_yardstick(config.operator_core)) / 2
    return result


def record(result: Measurement, run: Run, before: Usage, stats: dict[str, int]) -> None:
    result.ready_cpu, result.ready_rss = run.ready.cpu, run.ready.rss
    after, now = run.operator.usage(), run.control("stats")
    result.cpu = after.cpu - before.cpu
    result.rss = after.rss - before.rss
    result.peak = after.peak - before.peak
    result.left = now["objects"]
    result.requests = {
        key: value - stats.get(key, 0)
        for key, value in now.items()
        if value != stats.get(key, 0) and key not in ("objects", "gated", "running", "watchers")
    }
    facts = run.folder / "facts"
    if facts.exists():
        result.facts = json.loads(facts.read_text())
