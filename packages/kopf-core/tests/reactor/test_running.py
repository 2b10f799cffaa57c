"""Starting of operators, as far as it needs no cluster."""
import asyncio
import inspect

import pytest

from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.running import OperatorArguments, run_tasks, spawn_tasks


async def start_and_stop(**options) -> None:
    stop = asyncio.Event()
    stop.set()
    vault = Vault({'x': ConnectionInfo(server='http://127.0.0.1:1')})
    await run_tasks(await spawn_tasks(
        registry=OperatorRegistry(), vault=vault, stop_flag=stop, **options))


@pytest.mark.docs('scopes')
@pytest.mark.parametrize(('options', 'expected'), [
    ({}, 1), ({'clusterwide': True}, 0), ({'namespaces': ['ns']}, 0), ({'namespace': 'ns'}, 0),
])
async def test_scopes_are_to_be_chosen(caplog, options, expected):
    await start_and_stop(**options)
    warnings = [text for text in caplog.messages if "All namespaces are served" in text]
    assert len(warnings) == expected


@pytest.mark.docs('scopes')
async def test_scopes_exclude_each_other():
    with pytest.raises(TypeError, match="either cluster-wide or namespaced"):
        await start_and_stop(clusterwide=True, namespaces=['ns'])


def test_options_are_the_same_in_all_forms():
    expected = inspect.signature(spawn_tasks).parameters.keys()
    assert OperatorArguments.__annotations__.keys() == expected
