"""Preflight: checks for mistakes of the authors, just before the operator serves.

Mistakes with which the operator cannot work are errors. Probable mistakes are warnings.
"""

import dataclasses
import inspect
import re
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import Executor
from typing import Any

from kopf_cogs.configs.settings import LeasingSettings, OperatorSettings, ShardingSettings
from kopf_cogs.helpers.similar import find_similar
from kopf_cogs.structs.label_selectors import is_label_selector
from kopf_core.actions.bases import BaseHandler, Fn
from kopf_core.actions.loggers import AnyLogger
from kopf_core.intents.arguments import accepts_anything, find_missing, get_arguments
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import (
    ChangingHandler,
    ReconcilingHandler,
    ResourceHandler,
    SourceHandler,
    SpawningHandler,
)
from kopf_core.intents.registries import OperatorRegistry, deduplicate, identify_fn
from kopf_core.reactor.object.warnings import locate

OBJECT_NAME = re.compile(
    r"(?!.{254})LABEL(\.LABEL)*".replace("LABEL", "[a-z0-9]([-a-z0-9]*[a-z0-9])?")
)
"""The names that the API permits for objects of most kinds, such as Leases."""

MAX_LABEL = 63
"""How long the value of a label can be, and also its name without the prefix."""


class SettingsError(Exception):
    """With these settings, nothing would ever be handled."""

    expected = True


class SignatureError(Exception):
    """Some handlers can never work: they want unknown arguments, or are never run."""

    expected = True


def check_registry(
    registry: OperatorRegistry, logger: AnyLogger, *, is_one_cluster: bool = True
) -> None:
    """Warn of probable mistakes in the handlers.

    Raises :class:`SignatureError` for handlers of which every call would fail or do nothing.
    """
    activities = [h for activity in Activity for h in registry.get_activity_handlers(activity)]
    if not (activities or registry.resource_handlers or registry.conversions):
        logger.warning("There are no handlers, so there is nothing to do.")
    handlers: list[BaseHandler] = deduplicate([*activities, *registry.resource_handlers])
    for handler in handlers:
        for title, fn in _list_functions(handler):
            if not accepts_anything(fn):
                logger.warning(
                    f"{title} must accept any keyword arguments: add **kwargs to {locate(fn)}."
                )
    for warning in (*_find_doubles(registry), *_find_strange_relations(registry)):
        logger.warning(warning)
    absent = frozenset({"cluster"} if is_one_cluster else ())
    mistakes = [line for one in handlers for line in _find_mistakes(one, registry, absent)]
    if mistakes:
        raise SignatureError(" ".join(mistakes))


def _list_functions(handler: BaseHandler) -> Iterator[tuple[str, Fn]]:
    """All functions of users that are called for the handler, including its filters."""
    yield f"{handler}", handler.fn
    if not isinstance(handler, ResourceHandler):
        return
    filters: dict[str, Any] = {"when=": handler.when, "value=": handler.value}
    if isinstance(handler, ChangingHandler):
        filters |= {"old=": handler.old, "new=": handler.new}
    for option in ("labels", "annotations"):
        criteria = getattr(handler, option) or {}
        filters |= {f"{option}= for {name!r}": value for name, value in criteria.items()}
    for option, value in filters.items():
        if inspect.isroutine(value):
            yield f"{option} of {handler}", value


def _find_doubles(registry: OperatorRegistry) -> Iterator[str]:
    """The handlers that are never called: of several daemons, timers, or reconcilers with one id,
    only the first is called.

    With different filters, they can be for different objects. Handlers of changes are checked when
    they are called.
    """
    seen: dict[Any, ResourceHandler] = {}
    for handler in registry.resource_handlers:
        if not isinstance(handler, SpawningHandler | ReconcilingHandler):
            continue
        one = seen.setdefault((handler.selector, handler.id), handler)
        if identify_fn(one.fn) != identify_fn(handler.fn) and _get_filters(one) == _get_filters(
            handler
        ):
            yield (
                f"Two different functions are registered as {one.id!r}, and only the first of "
                f"them is called: {locate(one.fn)} and {locate(handler.fn)}. "
                f"Use the id= option for one of them."
            )


def _get_filters(handler: ResourceHandler) -> tuple[Any, ...]:
    options = (handler.labels, handler.annotations, handler.field, handler.value, handler.when)
    return (isinstance(handler, ReconcilingHandler), *options)


def _find_strange_relations(registry: OperatorRegistry) -> Iterator[str]:
    """Relations that are neither names of indices nor likely fields: these have no underscores."""
    for name in sorted({*registry.related_names} - {*registry.index_ids}):
        close = find_similar(name, registry.index_ids)
        if close or "_" in name:
            hint = f" Did you mean {close!r}?" if close else ""
            yield f"There is no index {name!r} for related=, so it is taken as a field.{hint}"


def _find_mistakes(
    handler: BaseHandler, registry: OperatorRegistry, absent: Collection[str]
) -> Iterator[str]:
    known = get_arguments(type(handler))
    if not known:
        return  # this is not our handler
    given = known.difference(absent) | {*registry.index_ids}
    for name in find_missing(handler.fn, given):
        hint = _suggest(name, given)
        yield f"{handler} is never given {name!r}, see {locate(handler.fn)}.{hint}"
    if isinstance(handler, SourceHandler):
        if not inspect.isasyncgenfunction(handler.fn):
            yield f"{handler} is not an asynchronous generator, see {locate(handler.fn)}."
    elif not isinstance(handler, ReconcilingHandler) and _is_generator(handler.fn):
        yield (
            f"{handler} has a yield, so its code would never run, see {locate(handler.fn)}: "
            f"use return; only @kopf.reconcile functions yield."
        )


def _suggest(name: str, known: Collection[str]) -> str:
    if name == "self":
        return " Decorate functions, not methods; or decorate the methods of existing objects."
    if name == "cluster" and name not in known:
        return " It is given only if there are several clusters: write cluster=None."
    if name in known:
        return " Arguments are given by their names: remove the `/` that is after it."
    close = find_similar(name, known)
    return f" Did you mean {close!r}?" if close else ""


def _is_generator(fn: Fn) -> bool:
    return inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)


def check_settings(settings: OperatorSettings, logger: AnyLogger) -> None:
    """Warn of misspelled settings. Raises :class:`SettingsError` for impossible values."""
    for section, name, suggestion in _find_unknown(settings):
        hint = f" Did you mean {suggestion!r}?" if suggestion else ""
        logger.warning(f"There is no such setting: {section}.{name}.{hint}")
    _check_leasing(settings)
    _check_sharding(settings)
    selector = settings.scanning.namespace_selector
    if selector is not None and not is_label_selector(selector):
        raise SettingsError(
            f"settings.scanning.namespace_selector must be a label selector such as "
            f"'tenant in (a, b)', not {selector!r}."
        )
    for name in ("finalizer", "progress_storage", "diffbase_storage"):
        value = getattr(settings.persistence, name)
        if value is None or value == "":
            raise SettingsError(f"settings.persistence.{name} must be set; it is {value!r}.")
    if settings.execution.is_customized and _has_processes(settings.execution.executor):
        raise SettingsError(
            "settings.execution.executor must be of threads, not of processes: "
            "what is passed to handlers cannot be passed to processes."
        )


def check_sharing(settings: OperatorSettings) -> None:
    """Prepare to be one of several processes, or raise :class:`SettingsError` if it cannot be."""
    others = (settings.leasing.name, settings.sharding.name, settings.sharding.ring)
    if any(name is not None for name in others) or settings.peering.mandatory:
        raise SettingsError(
            "Use neither leases, nor shards, nor peering, nor a ring with several processes."
        )
    settings.peering.standalone = True  # this one must not wait for the other processes


def _check_leasing(settings: OperatorSettings) -> None:
    leasing, peering = settings.leasing, settings.peering
    if leasing.name is None:
        return
    if peering.mandatory:
        raise SettingsError(
            "Use either peering or leases, not both: they are two ways to choose who works."
        )
    _check_name("leasing.name", leasing.name)
    peering.standalone = True
    _check_times("leasing", leasing)


def _check_sharding(settings: OperatorSettings) -> None:
    sharding, peering = settings.sharding, settings.peering
    if sharding.name is None and sharding.ring is None:
        return
    if sharding.name is not None and sharding.ring is not None:
        raise SettingsError("Use either shards or a ring, not both: each says who works on what.")
    if peering.mandatory or settings.leasing.name is not None:
        way = "shards" if sharding.ring is None else "a ring"
        raise SettingsError(
            f"Use {way} with neither peering nor a lease: with {way}, all replicas work at once."
        )
    field, kind = ("name", "Leases") if sharding.ring is None else ("ring", "rings")
    name = getattr(sharding, field)
    _check_name(f"sharding.{field}", name, kind)
    if len(name) > MAX_LABEL:
        raise SettingsError(
            f"settings.sharding.{field} is a part of labels: at most {MAX_LABEL} characters, "
            f"not {name!r}."
        )
    peering.standalone = True
    _check_times("sharding", sharding)


def _check_name(title: str, name: str, kind: str = "Leases") -> None:
    if not OBJECT_NAME.fullmatch(name):
        raise SettingsError(
            f"settings.{title} must be a name of {kind} in Kubernetes, such as "
            f"'my-operator', not {name!r}."
        )


def _check_times(title: str, group: LeasingSettings | ShardingSettings) -> None:
    if not 0 < 1.2 * group.retry_period < group.renew_deadline < group.duration:
        raise SettingsError(
            f"settings.{title} must have retry_period < renew_deadline < duration; these are "
            f"{group.retry_period!r}, {group.renew_deadline!r}, {group.duration!r}."
        )


def _find_unknown(settings: OperatorSettings) -> Iterator[tuple[str, str, str | None]]:
    sections: dict[str, Any] = {"settings": settings}
    sections |= {
        f"settings.{field.name}": getattr(settings, field.name)
        for field in dataclasses.fields(settings)
    }
    for title, section in sections.items():
        if not dataclasses.is_dataclass(section):
            continue  # users have replaced it
        names = {field.name for field in dataclasses.fields(section)}
        properties = {n for n, value in vars(type(section)).items() if isinstance(value, property)}
        for name in vars(section).keys() - names:
            yield title, name, find_similar(name, [n for n in names | properties if n[0] != "_"])


def _has_processes(executor: Executor) -> bool:
    module = sys.modules.get("concurrent.futures.process")  # its import is slow
    return module is not None and isinstance(executor, module.ProcessPoolExecutor)
