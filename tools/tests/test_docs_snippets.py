"""The documentation does not lie: its code works, its tables list what there really is.

Each block of Python in the guides, the references, and `README.md` is executed with a registry of
its own, and so are its startup handlers. All the other handlers are driven by objects in
`e2e/docs`. What can be told of a block before it: `tools/snippets.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import prometheus_client
import pytest
import snippet_params
import snippets

import kopf
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_core.engines.memories import ObjectMemory
from kopf_core.intents import causes
from kopf_core.intents.handlers import ActivityHandler
from kopf_core.intents.stoppers import AsyncDaemonStopperChecker
from kopf_kits.cli.groups import main

ROOT = Path(__file__).resolve().parents[2]
PROPERTIES = {"execution": ("executor", "max_workers")}
CODE = re.compile(r"`([^`]+)`")


@pytest.fixture
def registry() -> Iterator[kopf.OperatorRegistry]:
    with snippet_params.fresh_registry() as registry:
        yield registry


@pytest.mark.parametrize("block", snippet_params.list_blocks())
async def test_code(
    block: snippets.Block,
    registry: kopf.OperatorRegistry,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    snippet_params.place_files(block, tmp_path, monkeypatch)
    monkeypatch.setenv("STATUS_TOKEN", "a-token-for-the-status-page")
    module = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    await asyncio.to_thread(exec, compile(block.code, "example.py", "exec"), module.__dict__)
    settings = OperatorSettings()
    for handler in get_startup_handlers(registry):
        result = handler.fn(
            settings=settings, memo=kopf.Memo(), logger=logging.getLogger(), param=handler.param
        )
        if handler.is_async:
            await result
    assert_nothing_invented(settings)


def get_startup_handlers(registry: kopf.OperatorRegistry) -> list[ActivityHandler]:
    return registry.get_activity_handlers(causes.Activity.STARTUP)


def get_groups(settings: OperatorSettings) -> list[dataclasses.Field[Any]]:
    fields = dataclasses.fields(settings)
    return [field for field in fields if dataclasses.is_dataclass(getattr(settings, field.name))]


def assert_nothing_invented(settings: OperatorSettings) -> None:
    """Any attribute can be set, so the misspelled ones are not noticed otherwise."""
    for group in get_groups(settings):
        values = getattr(settings, group.name)
        known = {field.name for field in dataclasses.fields(values)}
        assert vars(values).keys() <= known, f"There are no such settings in {group.name}."


@pytest.mark.parametrize("name", ["crd.yaml", "obj.yaml"])
def test_files_of_the_tutorial_are_those_of_the_examples(name: str) -> None:
    content = (ROOT / "examples" / name).read_text("utf-8")
    assert f"```yaml\n{content}```" in (ROOT / "docs" / "tutorial.md").read_text("utf-8")


def test_all_settings_are_documented_with_their_defaults() -> None:
    documented = dict(read_rows("configuration.md", prefix="settings."))
    settings = OperatorSettings()
    existing = {
        f"settings.{group.name}.{name}": getattr(getattr(settings, group.name), name)
        for group in get_groups(settings)
        for name in get_setting_names(group.name, getattr(settings, group.name))
    }
    assert documented.keys() == existing.keys()
    for name, cells in documented.items():
        found = CODE.findall(cells[-1])
        if found:
            expected = eval(found[0], {"kopf": kopf, "logging": logging})
            actual = existing[name]
            assert type(actual) is type(expected) if is_storage(actual) else actual == expected, (
                name
            )
        else:
            assert name == "settings.execution.executor", f"There is no default for {name}."


def get_setting_names(group: str, values: Any) -> list[str]:
    names = [field.name for field in dataclasses.fields(values) if field.name[0] != "_"]
    return [*names, *PROPERTIES.get(group, ())]


def is_storage(value: Any) -> bool:
    return isinstance(value, kopf.ProgressStorage | kopf.DiffBaseStorage)


def test_all_arguments_are_documented_for_all_kinds_of_handlers() -> None:
    table = {
        name: [bool(cell.strip()) for cell in cells]
        for name, cells in read_rows("arguments.md", columns=7)
    }
    retrying = {"param", "retry", "started", "runtime", "dryrun", "cluster"}
    kinds = [cause.kwargs.keys() | retrying for cause in make_causes()]
    for name in set().union(*kinds):
        assert table.pop(name, None) == [name in kwargs for kwargs in kinds], name
    assert not table, "There are no such arguments."


def make_causes() -> list[causes.Cause]:
    """In the order of the columns of the table in the documentation."""
    settings, memo = OperatorSettings(), kopf.Memo()
    common: dict[str, Any] = {
        "resource": Resource("kopf.dev", "v1", "kopfexamples"),
        "body": kopf.Body({}),
        "patch": kopf.Patch(),
        "settings": settings,
        "record": ObjectMemory(memo, is_listed=False),
        "indices": {},
    }
    change: dict[str, Any] = {"old": None, "new": None, "diff": kopf.Diff(()), "marks": None}
    activity = causes.Activity.STARTUP
    stopper = object.__new__(AsyncDaemonStopperChecker)
    return [
        causes.ChangingCause(reason=kopf.Reason.CREATE, initial=False, **change, **common),
        causes.WatchingCause(event={"type": None, "object": {}}, **common),
        causes.IndexingCause(**common),
        causes.TimerCause(scheduled=None, stopper=stopper, **common),
        causes.ReconcilingCause(children={}, related={}, triggers=frozenset(), **common),
        causes.ActivityCause(
            activity=activity,
            settings=settings,
            logger=logging.getLogger(),
            memo=memo,
            indices={},
        ),
    ]


@pytest.mark.parametrize("name", ["run", "sandbox"])
def test_all_options_of_commands_are_documented(name: str) -> None:
    assert isinstance(main, click.Group)
    text = re.sub("```.*?```", "", (ROOT / "docs" / "cli.md").read_text("utf-8"), flags=re.DOTALL)
    documented = {option for cell in CODE.findall(text) for option in re.findall(r"-[-\w]+", cell)}
    command = main.get_command(click.Context(main), name)
    assert command is not None
    for param in command.params:
        if isinstance(param, click.Option):
            missing = {*param.opts, *param.secondary_opts} - documented
            assert not missing, f"Not documented: {missing}"


def read_rows(
    page: str, *, prefix: str = "", columns: int | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Rows of the tables: the name in the first cell, and all the other cells."""
    for line in (ROOT / "docs" / page).read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("| `") or (columns is not None and len(cells) != columns):
            continue
        for name in CODE.findall(cells[0]):
            if name.startswith(prefix):
                yield name, cells[1:]


def test_s9_same_metrics_can_be_defined_by_several_blocks() -> None:
    for _ in range(2):
        with snippet_params.fresh_registry():
            prometheus_client.Counter("rotations_of_this_test", "How many of them.")
