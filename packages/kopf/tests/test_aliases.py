"""The old paths of what operators used to import from inside of the predecessor."""

import asyncio
import importlib
import subprocess
import sys
import warnings

import pytest

import kopf
from kopf._aliases import MODULES

# Seen in operators: the old module, the name, and where it is now.
SEEN = [
    ("kopf._cogs.structs.bodies", "Body", "kopf.Body"),
    ("kopf._cogs.structs.bodies", "RawBody", "kopf.RawBody"),
    ("kopf._cogs.structs.diffs", "Diff", "kopf.Diff"),
    ("kopf._cogs.structs.diffs", "diff", "kopf_cogs.structs.diffs.diff"),
    ("kopf._cogs.structs.patches", "Patch", "kopf.Patch"),
    ("kopf._cogs.structs.references", "Resource", "kopf.Resource"),
    ("kopf._cogs.structs.references", "Selector", "kopf_cogs.structs.selectors.Selector"),
    ("kopf._cogs.structs.dicts", "MappingView", "kopf_cogs.structs.dicts.MappingView"),
    ("kopf._cogs.configs.configuration", "OperatorSettings", "kopf.OperatorSettings"),
    ("kopf._cogs.helpers.typedefs", "Logger", "kopf.Logger"),
    ("kopf._core.actions.execution", "Logger", "kopf.Logger"),
    ("kopf._core.actions.execution", "PermanentError", "kopf.PermanentError"),
    ("kopf._core.intents.causes", "Reason", "kopf.Reason"),
    ("kopf._core.intents.causes", "ChangingCause", "kopf_core.intents.causes.ChangingCause"),
    ("kopf._core.intents.callbacks", "ChangingFn", "kopf_core.intents.callbacks.ChangingFn"),
    ("kopf._core.intents.callbacks", "not_", "kopf.not_"),
    ("kopf._core.intents.registries", "OperatorRegistry", "kopf.OperatorRegistry"),
    ("kopf._core.intents.registries", "SmartOperatorRegistry", "kopf.OperatorRegistry"),
    ("kopf._core.intents.piggybacking", "login_via_client", "kopf.login_via_client"),
    ("kopf._core.reactor.running", "spawn_tasks", "kopf.spawn_tasks"),
    ("kopf._kits.runner", "KopfRunner", "kopf.testing.KopfRunner"),
    ("kopf._kits.hierarchies", "adopt", "kopf.adopt"),
]


def get_by_path(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("module", "name", "place"), SEEN)
def test_r29_old_names_are_the_new_ones_with_a_warning(module: str, name: str, place: str) -> None:
    namespace: dict[str, object] = {}
    with pytest.warns(
        DeprecationWarning, match=f"{name} was never public; use {place}\\.$"
    ) as seen:
        exec(f"from {module} import {name}", namespace)
    assert namespace[name] is get_by_path(place)
    assert seen[0].filename == "<string>"


def test_r29_old_modules_can_be_imported_in_all_ways() -> None:
    code = (
        "import kopf._cogs.structs.bodies as a\n"
        "from kopf._cogs.structs import bodies as b\n"
        "from kopf._cogs import structs\n"
        "import kopf\n"
        "import kopf._core.reactor.running\n"
        "assert a is b is structs.bodies is kopf._cogs.structs.bodies\n"
        "assert kopf._core.reactor.running\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize("name", ["cause_var", "handler_var"])
def test_r29_insides_stay_out_with_a_clear_message(name: str) -> None:
    with pytest.raises(ImportError, match=f"{name} is not there anymore: .* keyword arguments"):
        exec(f"from kopf._core.actions.execution import {name}", {})


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from kopf._core.engines import peering", "'peering' from 'kopf._core.engines'"),
        ("import kopf._core.engines.peering", "'peering' from 'kopf._core.engines'"),
        ("from kopf._core.engines.peering import Peer", "'peering' from 'kopf._core.engines'"),
        ("from kopf._core import nosuch", "'nosuch' from 'kopf._core'"),
        (
            "from kopf._core.actions.execution import Logger, Outcome",
            "'Outcome' from 'kopf._core.actions.execution'",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:kopf._core.actions.execution.Logger was never public")
def test_s2_private_names_with_no_public_ones_are_told_of(code: str, name: str) -> None:
    with pytest.raises(ImportError) as info:
        exec(code, {})
    assert str(info.value).startswith(
        f"cannot import name {name}: it was never public, and there is no public name for it; "
        "see https://"
    )


def test_s2_absent_attributes_are_told_of() -> None:
    module = importlib.import_module("kopf._core.engines")
    with pytest.raises(AttributeError, match="no 'peering': it was never public"):
        _ = module.peering


def test_s2_other_absent_modules_are_told_as_usual() -> None:
    importlib.import_module("kopf._core")
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'kopf\._nosuch'$"):
        importlib.import_module("kopf._nosuch")


def test_r29_absent_names_are_told_as_usual() -> None:
    module = importlib.import_module("kopf._cogs.structs.diffs")
    assert not hasattr(module, "nosuch")
    with pytest.raises(ImportError, match="cannot import name 'nosuch'"):
        exec("from kopf._cogs.structs.diffs import nosuch", {})
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("kopf._cogs.structs.nosuch")


@pytest.mark.parametrize("module", sorted(MODULES))
def test_r29_new_modules_exist(module: str) -> None:
    importlib.import_module(f"kopf.{module}")
    for place in MODULES[module]:
        importlib.import_module(place)


def test_r29_nothing_is_loaded_before_it_is_asked_for() -> None:
    code = (
        "import sys, kopf._core.reactor.running, kopf._cogs.structs.bodies\n"
        "print(*[name for name in sys.modules if name.startswith(('kopf_', 'aiohttp'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    assert done.stdout.strip() == b""


def test_r29_old_names_are_not_public() -> None:
    assert not {"_cogs", "_core", "_kits"} & set(kopf.__all__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.import_module("kopf._core.intents.registries")


NEEDED = [
    ("kopf._core.engines.posting", "event_queue_var", "kopf_core.actions.context.operator_var"),
    ("kopf._cogs.helpers.loaders", "preload", "kopf_kits.loading.preload"),
    ("kopf._core.engines.indexing", "OperatorIndexers", "kopf_core.intents.indices.Indices"),
    ("kopf._core.engines.indexing", "OperatorIndices", "types.MappingProxyType"),
    ("kopf._core.intents.handlers", "TimerHandler", "kopf_core.intents.handlers.TimerHandler"),
    (
        "kopf._core.intents.handlers",
        "WebhookHandler",
        "kopf_core.intents.webhooks.WebhookHandler",
    ),
]


@pytest.mark.parametrize(("module", "name", "place"), NEEDED)
def test_k41_names_that_operators_import(module: str, name: str, place: str) -> None:
    test_r29_old_names_are_the_new_ones_with_a_warning(module, name, place)


@pytest.mark.filterwarnings("ignore:kopf._core.intents.handlers.TimerHandler was never public")
def test_k41_handlers_are_appended_to_the_former_parts_of_registries() -> None:
    from kopf._core.intents.handlers import TimerHandler  # type: ignore[import-not-found]

    async def fn(**_: object) -> None:
        pass

    registry = kopf.OperatorRegistry()
    timer = TimerHandler(
        id="timer",
        fn=fn,
        param=None,
        errors=None,
        timeout=None,
        retries=None,
        backoff=None,
        selector=None,
        labels=None,
        annotations=None,
        when=None,
        field=None,
        value=None,
        requires_finalizer=True,
        initial_delay=None,
        sharp=None,
        idle=None,
        interval=5,
    )
    with pytest.warns(DeprecationWarning, match="_spawning was never public; append handlers to"):
        registry._spawning.append(timer)
    assert list(registry.resource_handlers) == [timer]
    with pytest.raises(AttributeError, match="has no attribute '_nosuch'"):
        _ = registry._nosuch


@pytest.mark.filterwarnings("ignore:kopf._core.engines.indexing.* was never public")
async def test_k41_indices_of_embedded_operators_are_read_from_outside() -> None:
    from kopf._core.engines.indexing import (  # type: ignore[import-not-found]
        OperatorIndexers,
        OperatorIndices,
    )

    registry, indexers = kopf.OperatorRegistry(), OperatorIndexers()
    indices = OperatorIndices(indexers)
    seen: list[object] = []

    @kopf.index("kopfexamples", id="by_name", registry=registry)
    async def by_name(**_: object) -> None:
        pass

    @kopf.on.startup(registry=registry)
    async def look(**_: object) -> None:
        seen.extend(indices)
        stop.set()

    stop = asyncio.Event()
    await kopf.operator(
        registry=registry, indexers=indexers, stop_flag=stop, namespaces=["default"]
    )
    assert seen == ["by_name"]
