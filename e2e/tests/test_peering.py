"""Operators that see each other, as processes: of this generation, and of the previous one.

At no time do two of them handle one object, and never do all of them stay paused.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
from collections.abc import AsyncIterator
from typing import Any, Self

import aiohttp
import pytest
import yaml

from e2e.compat.engines import Engine, get_ours, get_predecessor
from e2e.tests.harness import CRDS, World, get_essence

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
PEERINGS = "/apis/kopf.dev/v1/namespaces/{}/kopfpeerings"
LIFETIME = 6
PATIENCE = 120.0

pytestmark = pytest.mark.long  # it lives through the lifetimes of real records

SCRIPT = """
import asyncio, datetime, os, time

if os.environ["SKEW"] != "0":
    class Skewed(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + datetime.timedelta(seconds=float(os.environ["SKEW"]))
    datetime.datetime = Skewed

import kopf

def note(*args):
    with open(os.environ["NOTES"], "a") as file:
        file.write(" ".join(map(str, args)) + "\\n")

@kopf.on.startup()
def configure(settings, **_):
    settings.peering.lifetime = int(os.environ["LIFETIME"])
    settings.posting.enabled = False

@kopf.on.create("e2e.kopf.dev", "kexes")
@kopf.on.update("e2e.kopf.dev", "kexes")
async def handle(name, spec, **_):
    note("begin", os.environ["POD_ID"], name, spec["n"], time.monotonic())
    await asyncio.sleep(0.05)
    note("end", os.environ["POD_ID"], name, spec["n"], time.monotonic())
"""


@dataclasses.dataclass(frozen=True)
class Span:
    """One run of the handler: by whom, of which state of which object, and when."""

    who: str
    name: str
    n: int
    begin: float
    end: float


class Process:
    """An operator as a process: ``async with Process(...) as process``."""

    def __init__(
        self, world: World, folder: pathlib.Path, engine: Engine, who: str, **options: Any
    ):
        self.who = who
        self.lines: list[str] = []
        self._command = [*engine.command, "-n", world.namespace, "--verbose"]
        self._command += [f"--priority={options.get('priority', 0)}", str(folder / "op.py")]
        self._env = {
            **os.environ,
            "KUBECONFIG": str(world.kubeconfig),
            "PYTHONUNBUFFERED": "1",
            "POD_ID": who,
            "SKEW": str(options.get("skew", 0)),
            "LIFETIME": str(LIFETIME),
            "NOTES": str(folder / "notes"),
        }
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=2**24,
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, type: object, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reader
        if type is not None:
            print(f"The log of {self.who}:", *self.lines, sep="\n")  # it is shown for failed tests

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip())
            self._news.set()

    async def until_logged(self, pattern: str, *, after: int = 0) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not any(re.search(pattern, line) for line in self.lines[after:]):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            log = "\n".join(self.lines)
            raise AssertionError(f"{self.who} has not logged {pattern!r}:\n{log}") from None

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        self._process.terminate()
        async with asyncio.timeout(PATIENCE):
            await self._process.wait()


class Stage:
    """A namespace with a peering object, some objects that change, and what was handled of them."""

    def __init__(self, world: World, folder: pathlib.Path) -> None:
        self.world = world
        self.world.patience = PATIENCE
        self.folder = folder
        self.url = PEERINGS.format(world.namespace)
        (folder / "op.py").write_text(SCRIPT)
        (folder / "notes").touch()
        self._counts = dict.fromkeys(("a", "b", "c"), 0)

    def operator(self, engine: Engine, who: str, **options: Any) -> Process:
        return Process(self.world, self.folder, engine, who, **options)

    async def setup(self) -> None:
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": {"name": "default"}}
        await self.world.request("POST", self.url, body)
        for name in self._counts:
            await self.world.create({"n": 0}, name)

    async def change(self) -> None:
        """Change all the objects."""
        for name in self._counts:
            self._counts[name] += 1
            await self.world.patch({"spec": {"n": self._counts[name]}}, name)

    @contextlib.asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Change the objects all the time."""

        is_over = False

        async def run() -> None:
            while not is_over:
                await self.change()
                await asyncio.sleep(0.1)  # it is the rate, nothing is awaited here

        task = asyncio.create_task(run())
        try:
            yield
        finally:
            is_over = True  # it is not cancelled: what is abandoned can be done after what is next
            await task

    async def until_handled(self, who: str) -> None:
        """Wait until the newest states are handled, and by whom they should be."""
        await self.change()
        for name, n in self._counts.items():
            await self.world.until(
                lambda obj, n=n: (get_essence(obj) or {}).get("spec") == {"n": n}, name
            )
        for name, n in self._counts.items():
            assert {span.who for span in self.spans if (span.name, span.n) == (name, n)} == {who}

    async def records(self) -> dict[str, Any]:
        body = await self.world.request("GET", f"{self.url}/default")
        return body.get("status") or {}

    async def until_recorded(self, *who: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                if {*who} == (await self.records()).keys():
                    return
                await asyncio.sleep(0.1)

    @property
    def spans(self) -> list[Span]:
        """What is handled so far, or is being handled: that ends never, as far as it is known."""
        begun: dict[tuple[str, str, int], float] = {}
        spans = []
        for line in (self.folder / "notes").read_text().splitlines():
            what, who, name, n, time = line.split()
            if what == "begin":
                begun[who, name, int(n)] = float(time)
            else:
                start = begun.pop((who, name, int(n)))
                spans.append(Span(who, name, int(n), start, float(time)))
        return spans + [Span(*key, start, start) for key, start in begun.items()]

    def check(self) -> None:
        """At no time do two operators handle one object."""
        spans = sorted(self.spans, key=lambda span: span.begin)
        for one in spans:
            for two in spans:
                if one.who != two.who and one.name == two.name:
                    assert two.end < one.begin or one.end < two.begin, (one, two)


@pytest.fixture(scope="module")
def theirs() -> Engine:
    return get_predecessor()


@pytest.fixture
def engines(theirs: Engine) -> dict[str, Engine]:
    return {"ours": get_ours(), "theirs": theirs}


@pytest.fixture
async def stage(world: World, tmp_path: pathlib.Path) -> AsyncIterator[Stage]:
    definitions = [
        item
        for item in yaml.safe_load_all((EXAMPLES / "peering.yaml").read_text())
        if item["kind"] == "CustomResourceDefinition" and item["spec"]["scope"] == "Namespaced"
    ]
    stage = Stage(world, tmp_path)
    async with asyncio.timeout(PATIENCE):
        while True:
            for definition in definitions:
                # It is there on a shared server, or its deletion by other tests is not over.
                with contextlib.suppress(AssertionError):
                    await world.request("POST", CRDS, definition)
            # Real servers answer with a plain text until the definition is served.
            with contextlib.suppress(AssertionError, aiohttp.ContentTypeError):
                await stage.setup()
                break
            await asyncio.sleep(0.1)
    try:
        yield stage
        stage.check()
    finally:
        for definition in definitions:
            name = definition["metadata"]["name"]
            await world.request("DELETE", f"{CRDS}/{name}")
            await _until_absent(world, f"{CRDS}/{name}")


async def _until_absent(world: World, path: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await world.request("GET", path)
            except AssertionError:
                return
            await asyncio.sleep(0.1)


PAIRS = [
    pytest.param(pair, id="-under-".join(pair))
    for pair in (("ours", "ours"), ("ours", "theirs"), ("theirs", "ours"))
]
"""Who is paused, and in whose favour."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pair", PAIRS)
async def test_f10_switching_over_by_priority(stage, engines, pair):
    low, high = (engines[name] for name in pair)
    async with stage.operator(low, "low") as one:
        await stage.until_handled("low")
        # The previous generation does not wait for others: so nothing happens while it joins.
        load = stage.load() if pair[1] == "ours" else contextlib.nullcontext()
        async with load, stage.operator(high, "high", priority=5) as two:
            await one.until_logged("Pausing operations in favour")
            await two.until_logged("watch-stream for kexes")
        async with stage.operator(high, "high", priority=5) as two:
            await stage.until_recorded("low", "high")
            await two.until_logged("watch-stream for kexes")
            await stage.until_handled("high")
            async with stage.load():
                await two.stop()
        await one.until_logged("Resuming operations")
        await stage.until_handled("low")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pair", PAIRS)
async def test_f8_killed_operators_are_outlived(stage, engines, pair):
    low, high = (engines[name] for name in pair)
    async with stage.operator(high, "high", priority=5) as two:
        await stage.until_handled("high")
        async with stage.operator(low, "low") as one:
            await one.until_logged("in favour of")
            async with stage.load():
                await two.kill()
                await one.until_logged("Resuming operations")
            await stage.until_handled("low")
            await stage.until_recorded("low")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pair", PAIRS)
async def test_freezing_and_resuming(stage, engines, pair):
    """Operators of each generation are frozen by people with tools of each."""
    operator, tool = (engines[name] for name in pair)
    scope = ["-n", stage.world.namespace, "--peering=default"]
    async with stage.operator(operator, "op", priority=1) as one:
        await stage.until_handled("op")
        await _call(stage, tool, "freeze", *scope, "--priority=2", "--lifetime=60", "-m", "why")
        await one.until_logged("in favour of")
        await asyncio.sleep(1)  # some handlers were running, and were given the time
        count = len(stage.spans)
        await stage.change()
        await asyncio.sleep(1)  # nothing can be waited for, as nothing happens
        assert len(stage.spans) == count
        await _call(stage, tool, "resume", *scope)
        await stage.until_handled("op")


async def _call(stage: Stage, tool: Engine, *args: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *tool.command[:-1],
        *args,
        env={**os.environ, "KUBECONFIG": str(stage.world.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("pair", "skews"),
    [
        pytest.param(("ours", "ours"), (0, 300), id="ours-under-early-ours"),
        pytest.param(("ours", "ours"), (0, -300), id="ours-under-late-ours"),
        pytest.param(("ours", "theirs"), (0, 300), id="ours-under-early-theirs"),
        pytest.param(("ours", "theirs"), (0, -300), id="ours-under-late-theirs"),
        pytest.param(("theirs", "ours"), (0, -300), id="theirs-under-late-ours"),
        pytest.param(("theirs", "ours"), (0, 300), id="theirs-under-early-ours"),
    ],
)
async def test_f8_skewed_clocks(stage, engines, pair, skews):
    low, high = (engines[name] for name in pair)
    async with stage.operator(high, "high", priority=5, skew=skews[1]) as two:
        await stage.until_handled("high")
        async with stage.operator(low, "low", skew=skews[0]) as one:
            await stage.until_recorded("low", "high")
            await one.until_logged("in favour of")
            if pair[0] == "theirs":
                await asyncio.sleep(
                    1
                )  # it removes records of late clocks until these follow its own
            async with stage.load():
                for _ in range(2):  # it is about the time that passes
                    await asyncio.sleep(LIFETIME)
                    await stage.until_recorded("low", "high")
            assert {span.who for span in stage.spans} == {"high"}
            if pair[0] == "ours":
                await two.kill()
            else:
                await two.stop()  # otherwise, it is waited for until its clock says so
            await one.until_logged("Resuming operations")
            await stage.until_handled("low")


@pytest.mark.timeout(600)
async def test_f11_stopped_processes_look_around_first(stage, engines):
    ours = engines["ours"]
    async with stage.operator(ours, "high", priority=5) as two:
        await stage.until_handled("high")
        async with stage.operator(ours, "low") as one:
            await one.until_logged("in favour of")
            two.send(signal.SIGSTOP)
            async with stage.load():
                await one.until_logged("Resuming operations")
                await asyncio.sleep(1)  # so that there is something to be fought for
                mark, other = len(one.lines), len(two.lines)
                two.send(signal.SIGCONT)
                await two.until_logged("was not renewed in time", after=other)
                await one.until_logged("in favour of", after=mark)
                await two.until_logged("Resuming operations", after=other)
            await stage.until_handled("high")


@pytest.mark.timeout(600)
async def test_f9_equal_priorities_freeze_until_one_is_left(stage, engines):
    ours = engines["ours"]
    async with stage.operator(ours, "one") as one:
        await stage.until_handled("one")
        async with stage.operator(ours, "two") as two:
            for process in (one, two):
                await process.until_logged("with the same priority")
            await one.stop()
            await stage.until_handled("two")


@pytest.mark.timeout(600)
async def test_f8_junk_stops_nobody(stage, engines):
    junk = {"text": "x", "list": [1], "bad": {"lifetime": "x", "lastseen": "garbage"}}
    merge = "application/merge-patch+json"
    await stage.world.request("PATCH", f"{stage.url}/default", {"status": junk}, merge)
    async with stage.operator(engines["ours"], "op") as one:
        await stage.until_handled("op")
        await one.until_logged("Senseless records are ignored .* 'bad', 'list', 'text'")
