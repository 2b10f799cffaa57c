"""``kopf handlers``: the handlers in files and modules, without a cluster."""

from __future__ import annotations

import dataclasses
import inspect as introspection
import json
import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.duty.looking import tell
from kopf_kits.cli.duty.options import configure_output, output_option

if TYPE_CHECKING:
    from kopf_cogs.structs.selectors import Selector
    from kopf_core.actions.bases import BaseHandler

FILTERS = ("labels", "annotations", "field", "value", "old", "new", "when")
OPTIONS = (
    "errors",
    "timeout",
    "retries",
    "backoff",
    "initial_delay",
    "interval",
    "idle",
    "sharp",
    "cancellation_backoff",
    "cancellation_timeout",
    "cancellation_polling",
    "every",
    "limit",
    "cooldown",
    "subresource",
    "source",
    "target",
)
LISTS = ("operations", "owns", "related")
SHOWN = ("operations", "subresource", "source", "target", "schedule", "interval", "idle", "every")
"""The options that narrow or time the calls of a handler: the table shows them after filters."""


@click.command()
@click.option("-m", "--module", "modules", multiple=True, help="Import a module (repeatable).")
@click.option("-v", "--verbose", is_flag=True, help="Show also the tracebacks of users' code.")
@click.option(
    "--color/--no-color",
    default=None,
    help="Use colours or not. The default: in terminals, unless NO_COLOR is set.",
)
@output_option
@click.argument("paths", nargs=-1)
@click.make_pass_decorator(CLIControls, ensure=True)
def handlers(
    controls: CLIControls,
    /,
    paths: Collection[str],
    modules: Collection[str],
    verbose: bool,
    color: bool | None,
    output: str,
) -> None:
    """Show the handlers that are declared in files and modules. No cluster is needed."""
    from kopf_core.intents.registries import get_default_registry, set_default_registry
    from kopf_kits.loading import preload

    if not paths and not modules:
        raise click.UsageError("Name a file or a module with handlers.")
    configure_output(verbose=verbose, debug=False, color=color)
    if controls.registry is not None:
        set_default_registry(controls.registry)
    preload(paths=paths, modules=modules)
    registry = get_default_registry()
    items = [describe(handler) for handler in (*registry.handlers, *registry.conversions)]
    if output == "json":
        tell(json.dumps({"items": items}, indent=2))
    elif items:
        _show_table(items)
    else:
        click.echo("No handlers are declared there.", err=True)


def describe(handler: BaseHandler) -> dict[str, Any]:
    """The handler for scripts: the names are stable, the values are as they look in the code."""
    selector = getattr(handler, "selector", None)
    kind = getattr(handler, "kind", None)  # conversions have it instead of a selector
    return {
        "id": str(handler.id),
        "type": get_type(handler),
        "resource": kind if selector is None else show_selector(selector),
        "filters": _collect(handler, FILTERS),
        "options": _collect(handler, OPTIONS) | dict(_collect_lists(handler)),
        "function": show_function(handler.fn),
        "place": show_place(handler.fn),
    }


def get_type(handler: BaseHandler) -> str:
    """The decorator that makes such handlers, without ``kopf.``."""
    from kopf_core.intents import handlers as kinds
    from kopf_core.intents.conversions import ConversionHandler
    from kopf_core.intents.webhooks import WebhookHandler, WebhookType

    match handler:
        case kinds.ActivityHandler():
            name = handler.activity.value
            return f"on.{'login' if name == 'authentication' else name}"
        case WebhookHandler():
            return "on.validate" if handler.type is WebhookType.VALIDATING else "on.mutate"
        case kinds.ChangingHandler():
            if handler.initial:
                return "on.resume"
            return "on.field" if handler.reason is None else f"on.{handler.reason.value}"
    names: Mapping[type, str] = {
        kinds.WatchingHandler: "on.event",
        kinds.IndexingHandler: "index",
        kinds.DaemonHandler: "daemon",
        kinds.TimerHandler: "timer",
        kinds.ReconcilingHandler: "reconcile",
        ConversionHandler: "on.convert",
    }
    return names.get(type(handler), type(handler).__name__)


def show_selector(selector: Selector) -> str:
    """The selector as in ``kubectl``: the name with the group and the version, if specified."""
    values = {
        f.name: getattr(selector, f.name)
        for f in dataclasses.fields(selector)
        if f.name not in ("group", "version") and getattr(selector, f.name) is not None
    }
    shown = ",".join(
        show_option(value) if key in ("any_name", "plural", "kind") else f"{key}={value}"
        for key, value in values.items()
    )
    where = [part for part in (selector.version, selector.group) if part]
    return ".".join([shown or "everything", *where])


def _collect(handler: BaseHandler, names: Collection[str]) -> dict[str, Any]:
    values = {name: getattr(handler, name, None) for name in names}
    return {name: show_option(value) for name, value in values.items() if value is not None}


def _collect_lists(handler: BaseHandler) -> Iterator[tuple[str, str]]:
    for name in LISTS:
        if items := getattr(handler, name, None):
            yield name, ", ".join(map(_show_item, items))
    if cron := getattr(handler, "cron", None):
        yield "schedule", str(cron)


def _show_item(item: Any) -> str:
    from kopf_cogs.structs.selectors import Selector

    return show_selector(item) if isinstance(item, Selector) else str(item)


def show_option(value: Any) -> str:
    """A value of an option in a few words."""
    if isinstance(value, tuple):
        return ".".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={show_option(val)}" for key, val in value.items())
    if name := getattr(value, "name", None):
        return str(name)
    return show_function(value) if callable(value) else str(value)


def show_function(fn: Any) -> str:
    """The name of the function; the name of its type if the function has no name."""
    inner = introspection.unwrap(fn) if callable(fn) else fn
    return str(getattr(inner, "__qualname__", None) or type(fn).__name__)


def show_place(fn: Any) -> str | None:
    """The file and the line; ``None`` if they are not known."""
    code = getattr(introspection.unwrap(fn), "__code__", None)
    if code is None:
        return None
    path = os.path.abspath(code.co_filename)
    inside = path.startswith(os.getcwd() + os.sep)
    return f"{os.path.relpath(path) if inside else path}:{code.co_firstlineno}"


def _show_table(items: Collection[Mapping[str, Any]]) -> None:
    from kopf_kits.cli.duty.tables import Cell, Column, get_width, render

    columns = [
        Column("RESOURCE", 12),
        Column("TYPE"),
        Column("ID", 16),
        Column("FILTERS AND TIMES", 10),
    ]
    rows = [
        [
            Cell(item["resource"] or ""),
            Cell(item["type"]),
            Cell(item["id"]),
            Cell("; ".join(f"{key}: {value}" for key, value in _get_conditions(item))),
        ]
        for item in items
    ]
    for line in render(columns, rows, get_width()):
        tell(line)


def _get_conditions(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from item["filters"].items()
    yield from ((key, item["options"][key]) for key in SHOWN if key in item["options"])
