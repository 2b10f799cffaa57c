"""Starting of operators, as far as it needs no cluster."""

import asyncio
import gc
import inspect
import pydoc
import threading
import warnings

import pytest

from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.engines.activities import ActivityError
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.exiting import AbandonedError
from kopf_core.reactor.life.operator import Operator, OperatorOptions
from kopf_core.reactor.process.operator_arguments import OperatorArguments
from kopf_core.reactor.process.running import operator, run, run_tasks, spawn_tasks


async def start_and_stop(**options) -> None:
    stop = asyncio.Event()
    stop.set()
    vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
    await run_tasks(
        await spawn_tasks(registry=OperatorRegistry(), vault=vault, stop_flag=stop, **options)
    )


@pytest.mark.docs("scopes")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [FutureWarning]),
        ({"clusterwide": True}, []),
        ({"namespaces": ["ns"]}, []),
        ({"namespace": "ns"}, [DeprecationWarning]),
    ],
)
async def test_k44_scopes_are_to_be_chosen(recwarn, options, expected):
    warnings.simplefilter("always")
    await start_and_stop(**options)
    assert [seen.category for seen in recwarn] == expected


@pytest.mark.docs("scopes")
async def test_k44_namespaces_are_given_in_one_way():
    with pytest.raises(TypeError, match=r"Either namespaces= or namespace= .* Got both"):
        await start_and_stop(namespace="one", namespaces=["two"])


@pytest.mark.parametrize("fn", [run, operator, spawn_tasks])
def test_k44_options_are_shown_by_help(fn):
    names = set(inspect.signature(fn).parameters)
    assert names == {*OperatorArguments.__annotations__} | ({"loop"} if fn is run else set())
    assert "liveness_endpoint: str | None = None" in pydoc.render_doc(fn, renderer=pydoc.plaintext)


@pytest.mark.docs("scopes")
async def test_scopes_exclude_each_other():
    with pytest.raises(TypeError, match="either cluster-wide or namespaced"):
        await start_and_stop(clusterwide=True, namespaces=["ns"])


async def test_unknown_options_are_refused_by_name():
    with pytest.raises(TypeError, match="unexpected keyword argument 'namespce'"):
        await start_and_stop(namespce="ns")


async def test_operators_are_not_run_in_handlers():
    registry, stop = OperatorRegistry(), asyncio.Event()
    seen = []

    @on.startup(registry=registry)
    def nest(**_):
        with pytest.raises(RuntimeError) as info:
            run(clusterwide=True)
        seen.append(str(info.value))
        stop.set()

    vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
    await operator(registry=registry, vault=vault, stop_flag=stop, clusterwide=True)
    assert seen == ["kopf.run() is called in a handler: there is an operator already."]


def test_other_collectors_of_garbage_are_left_alone(monkeypatch):
    """As of PyPy: they have no thresholds."""
    monkeypatch.delattr(gc, "get_threshold", raising=False)
    monkeypatch.delattr(gc, "set_threshold", raising=False)
    stop = threading.Event()
    stop.set()
    vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
    run(registry=OperatorRegistry(), vault=vault, stop_flag=stop, clusterwide=True)


class Scene:
    """An operator with nothing to serve, but with handlers of its own life."""

    def __init__(self) -> None:
        self.registry = OperatorRegistry()
        self.events: list[str] = []
        self.begun = asyncio.Event()
        vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
        self.operator = Operator(
            OperatorOptions(registry=self.registry, vault=vault, namespaces=["ns"])
        )

    def add(self, decorator, error: Exception | None = None) -> None:
        async def fn(**_):
            self.events.append(decorator.__name__)
            self.begun.set()
            if error is not None:
                raise error
            await asyncio.Event().wait()

        decorator(registry=self.registry)(fn)

    async def run_until_begun(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self.operator.run())
        await self.begun.wait()
        self.begun.clear()
        return task


@pytest.mark.docs("startup")
@pytest.mark.parametrize("error", [None, Exception("not yet")], ids=["slow", "failing"])
async def test_f1_startup_is_interrupted_by_stopping(caplog, error):
    scene = Scene()
    scene.add(on.startup, error)
    task = await scene.run_until_begun()
    scene.operator.stop()
    await task
    assert scene.events == ["startup"]
    assert any("startup activity is interrupted" in text for text in caplog.messages)


@pytest.mark.parametrize("error", [None, Exception("not yet")], ids=["slow", "failing"])
async def test_f1_cleanup_is_interrupted_only_by_aborting(monkeypatch, error):
    monkeypatch.setattr("kopf_core.reactor.life.exiting.HASTE", 0.01)
    scene = Scene()
    scene.add(on.startup)
    scene.add(on.cleanup, error)
    task = await scene.run_until_begun()
    scene.operator.stop()
    await scene.begun.wait()
    scene.operator.stop()
    assert not task.done()
    scene.operator.abort()
    with pytest.raises(AbandonedError if error is None else ActivityError, match="cleanup"):
        await task
    assert scene.events == ["startup", "cleanup"]


async def test_f1_startup_is_interrupted_by_the_flag():
    scene, stop = Scene(), asyncio.Event()
    scene.add(on.startup)
    vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
    tasks = await spawn_tasks(
        registry=scene.registry, vault=vault, stop_flag=stop, namespaces=["ns"]
    )
    await scene.begun.wait()
    stop.set()
    await run_tasks(tasks)
    assert scene.events == ["startup"]


async def test_k44_spawned_tasks_have_names():
    scene, stop = Scene(), asyncio.Event()
    vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
    (task,) = await spawn_tasks(
        registry=scene.registry, vault=vault, stop_flag=stop, namespaces=["ns"]
    )
    assert task.get_name() == "kopf-operator"
    stop.set()
    await run_tasks([task])


async def test_r3_repeated_cancellations_do_not_leave_the_operator_running():
    """AnyIO repeats them until the task ends; the cleanup goes on to its end nevertheless."""
    scene, release = Scene(), asyncio.Event()
    scene.add(on.startup)

    @on.cleanup(registry=scene.registry)
    async def cleanup(**_):
        scene.events.append("cleanup")
        await release.wait()
        scene.events.append("cleaned")

    others = asyncio.all_tasks()
    vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
    task = asyncio.create_task(operator(registry=scene.registry, vault=vault, namespaces=["ns"]))
    await scene.begun.wait()
    for _ in range(100):
        task.cancel()
        await asyncio.sleep(0)
    while "cleanup" not in scene.events:
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    release.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert scene.events == ["startup", "cleanup", "cleaned"]
    assert asyncio.all_tasks() == others


async def test_f3_embedded_operators_touch_no_foreign_tasks():
    scene, stop = Scene(), asyncio.Event()
    tasks = []

    @on.startup(registry=scene.registry)
    async def startup(**_):
        tasks.append(asyncio.create_task(asyncio.sleep(1000)))
        stop.set()

    vault = Vault({"x": ConnectionInfo(server="http://127.0.0.1:1")})
    await operator(registry=scene.registry, vault=vault, namespaces=["ns"], stop_flag=stop)
    assert not tasks[0].done()
    assert not tasks[0].cancelling()
    tasks[0].cancel()
