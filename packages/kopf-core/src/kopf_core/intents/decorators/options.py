"""The options of the decorators: a dictionary for each kind of handlers, made of common parts.

Type checkers and editors take the names, types, and requirements from here; so do the runtime
signatures (see :mod:`.signatures`). All options are optional, unless marked as required.
"""

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Required, TypedDict

from kopf_cogs.structs.dicts import FieldSpec
from kopf_cogs.structs.selectors import Marker, Selector
from kopf_core.actions.bases import AnyBackoff
from kopf_core.actions.errors import ErrorsMode
from kopf_core.intents.crons import MissedRuns
from kopf_core.intents.filters import MetaFilter, ValueFilter, WhenFn
from kopf_core.intents.registries import OperatorRegistry

SelectorArg = str | Marker | type[Any] | Callable[..., bool] | None
"""The positional argument for resources: any of their names, a marker, a function, or a class
with ``@kopf.resource``.
"""

KindArg = str | type[Any] | Selector
"""One kind of objects, in any notation of its name, or a class with ``@kopf.resource``."""

# --- Parts ---


class SelectorOptions(TypedDict, total=False):
    """The resources to handle; see :class:`kopf_cogs.structs.selectors.Selector`."""

    group: str | None
    """The API group, e.g. ``apps``; empty for the core group."""

    version: str | None
    """The API version, e.g. ``v1``; by default, the preferred one."""

    kind: str | Marker | None
    """The kind as it is in manifests, e.g. ``Deployment``."""

    plural: str | Marker | None
    """The plural name, e.g. ``deployments``."""

    singular: str | Marker | None
    """The singular name, e.g. ``deployment``."""

    shortcut: str | Marker | None
    """One of the short names, e.g. ``deploy``."""

    category: str | Marker | None
    """The category that the kinds are in, e.g. ``all``."""


class HandlerOptions(TypedDict, total=False):
    """The options of every handler."""

    id: str | None
    """The identity of the handler on the object; by default, the name of the function."""

    param: Any
    """An arbitrary value, passed to the function as it is."""


class RetryOptions(TypedDict, total=False):
    """The options for failures."""

    errors: ErrorsMode | None
    """How to treat arbitrary exceptions; by default, they are temporary."""

    timeout: float | None
    """For how long to retry, in seconds since the first attempt; by default, for ever."""

    retries: int | None
    """How many attempts to make in total; by default, any number of them."""

    backoff: AnyBackoff | None
    """Seconds between attempts, or a function of the attempt's number, counted from zero,
    e.g. :class:`kopf.ExponentialBackoff`. By default, ``settings.execution.default_backoff``."""


class MetaOptions(TypedDict, total=False):
    """The filters of objects: all of them must match."""

    labels: MetaFilter | None
    """The expected labels: literals, ``kopf.PRESENT``, ``kopf.ABSENT``, or functions."""

    annotations: MetaFilter | None
    """The expected annotations, in the same way."""

    when: WhenFn | None
    """A function of the keyword arguments of the handler."""


class FieldOptions(TypedDict, total=False):
    """The filters of objects by one of their fields."""

    field: FieldSpec
    """The field to look at: ``"spec.field"``, or ``("spec", "field")``. Handlers of changes
    see ``old``, ``new``, ``diff`` of this field only.
    """

    value: ValueFilter
    """The expected value: a literal, ``kopf.PRESENT``, ``kopf.ABSENT``, or a function."""


class FormOptions(TypedDict, total=False):
    """The part of the objects that Kopf watches."""

    metadata_only: bool
    """Whether the metadata is enough for the handler and its filters. If it is enough for all
    handlers of the resource, Kopf watches only the metadata of its objects."""


class TransitionOptions(TypedDict, total=False):
    """The filters of changes of the field. They exclude ``value``."""

    old: ValueFilter
    """The expected value before the change."""

    new: ValueFilter
    """The expected value after the change."""


class RegistryOptions(TypedDict, total=False):
    """The place of the handler."""

    registry: OperatorRegistry | None
    """By default, the registry of this process: :func:`kopf.get_default_registry`."""


class SpawningOptions(TypedDict, total=False):
    """The start of background work."""

    initial_delay: float | Callable[..., float] | None
    """Seconds before the first call, or a function of the keyword arguments."""


# --- Kinds of handlers ---


class ActivityOptions(HandlerOptions, RetryOptions, RegistryOptions):
    """The options of ``@kopf.on.startup/cleanup/login/probe``."""


class SourceOptions(HandlerOptions, RegistryOptions, total=False):
    """The options of ``@kopf.on.external``."""

    errors: ErrorsMode | None
    """How to treat arbitrary exceptions; by default, they are temporary."""

    backoff: AnyBackoff | None
    """Seconds between attempts, or a function of the number of attempts since the last yield."""


class EventOptions(
    SelectorOptions, HandlerOptions, MetaOptions, FieldOptions, FormOptions, RegistryOptions
):
    """The options of ``@kopf.on.event``: it is never retried."""


class ResourceOptions(
    SelectorOptions,
    HandlerOptions,
    RetryOptions,
    MetaOptions,
    FieldOptions,
    FormOptions,
    RegistryOptions,
):
    """The options of ``@kopf.on.create``, ``@kopf.index``, and a part of the options below."""


class ResumeOptions(ResourceOptions, total=False):
    """The options of ``@kopf.on.resume``."""

    deleted: bool | None
    """Whether to call it for the objects that are being deleted; by default, it is not."""


class UpdateOptions(ResourceOptions, TransitionOptions):
    """The options of ``@kopf.on.update``."""


class DeleteOptions(ResourceOptions, total=False):
    """The options of ``@kopf.on.delete``."""

    optional: bool | None
    """Whether the object can vanish before it is handled; by default, it cannot."""


class FieldChangeOptions(
    SelectorOptions,
    HandlerOptions,
    RetryOptions,
    MetaOptions,
    TransitionOptions,
    FormOptions,
    RegistryOptions,
    total=False,
):
    """The options of ``@kopf.on.field``."""

    field: Required[FieldSpec]
    """The field to be watched for changes: ``"spec.field"``, or ``("spec", "field")``."""

    value: ValueFilter
    """The expected value, before the change or after it."""


class DaemonOptions(ResourceOptions, SpawningOptions, total=False):
    """The options of ``@kopf.daemon``: times of its exit, in seconds."""

    cancellation_backoff: float | None
    """How long to wait after the request to exit until it is cancelled."""

    cancellation_timeout: float | None
    """How long to wait after the cancellation until it is abandoned; by default, for ever."""

    cancellation_polling: float | None
    """How often to log that the daemon is still awaited."""


class TimerOptions(ResourceOptions, SpawningOptions, total=False):
    """The options of ``@kopf.timer``; the times are in seconds."""

    interval: float | None
    """From the end of a call to the start of the next one; without it, there is one call."""

    sharp: bool | None
    """Whether the interval is from start to start."""

    idle: float | None
    """For how long the object must stay unchanged before a call."""

    schedule: str | None
    """Instead of an interval: the times of calls by the calendar, as in crontab."""

    timezone: str | datetime.tzinfo | None
    """The time zone of the schedule, e.g. ``"Europe/Berlin"``; by default, UTC."""

    missed: MissedRuns | None
    """The missed runs of the schedule to make up for, e.g. after the operator was down:
    ``"none"`` (the default), ``"one"`` instead of all of them, or ``"all"``."""

    jitter: float | None
    """The largest delay of the runs, in seconds: each object has its own delay."""


class ReconcileOptions(
    SelectorOptions,
    HandlerOptions,
    RetryOptions,
    MetaOptions,
    FieldOptions,
    RegistryOptions,
    total=False,
):
    """The options of ``@kopf.reconcile``; the times are in seconds."""

    owns: Iterable[KindArg]
    """The kinds of objects that it makes: they are watched, and belong to the primary object."""

    related: Mapping[KindArg, FieldSpec | Callable[..., Any]]
    """The kinds of objects that it depends on, each with a way to find the objects.

    The way is a field of the primary object with their names, e.g. ``"spec.secretName"``, or
    the name of an index. Or it is a function that gets a related object and returns the names
    of the primary objects."""

    every: float | None
    """How often to call it without any changes; by default, never."""

    limit: int | None
    """For how many objects it can work at the same time; by default, for any number."""

    cooldown: float | None
    """The least time between two calls for one object; by default, none."""

    prune: bool
    """Whether to delete the objects that it made earlier, and does not want anymore (by
    default).
    """

    force: bool
    """Whether to take over fields that others have set (by default), or to fail."""


class RegisterOptions(HandlerOptions, RetryOptions, MetaOptions):
    """The options of ``kopf.register()``."""


class SubhandlerOptions(RegisterOptions, FieldOptions, TransitionOptions):
    """The options of ``@kopf.subhandler``."""
