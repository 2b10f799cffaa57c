"""The options that the commands for people on duty have in common."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kopf_cogs.clients import unanswered
from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.targets import clusters_options, target_options

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings
    from kopf_core.reactor.process.errands import Access

F = TypeVar("F", bound=Callable[..., Any])

BACKOFFS = (0.5, 1.0)
"""In seconds: people do not wait for the cluster for as long as operators do."""

TIMEOUT = 30.0

PATIENCE = 5.0
"""In seconds: some requests are given up after 15 seconds, and people look at an empty screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection of objects by the user."""

    kind: str | None
    """Any of the names of the kind; ``None`` for all kinds."""

    names: tuple[str, ...] = ()
    """If there are none, then all objects with these labels and fields."""

    namespace: str | None = None
    """``None`` for the namespace of the current context."""

    clusterwide: bool = False
    labels: str | None = None
    fields: str | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether the user has selected objects by their labels or fields."""
        return bool(self.labels or self.fields)


def access_options(fn: F) -> F:
    """Add the options to reach the marks in a cluster; the command gets them as ``access``."""
    return target_options(_access_options(fn))


def clusters_access_options(fn: F) -> F:
    """Add the same options for several clusters; the command gets their names as ``clusters``."""
    return clusters_options(_access_options(fn))


def _access_options(fn: F) -> F:
    for option in reversed(
        [
            click.option(
                "--operator",
                metavar="NAME",
                envvar="KOPF_OPERATOR",
                help="The settings.name of the operator.",
            ),
            click.option(
                "--prefix", help="The prefix of annotations, if the operator has its own."
            ),
            click.option("--finalizer", help="The finalizer of the operator, if it has its own."),
        ]
    ):
        fn = option(fn)
    return _visit_options(fn)


def visit_options(fn: F) -> F:
    """Add the options to reach the cluster; the command gets them as ``access``."""
    return target_options(_visit_options(fn))


def _visit_options(fn: F) -> F:
    @click.option("-v", "--verbose", is_flag=True, help="Show the details of the work.")
    @click.option("-d", "--debug", is_flag=True, help="Also show asyncio and the API traffic.")
    @click.option(
        "--color/--no-color",
        default=None,
        help="Use colours or not. The default: in terminals, unless NO_COLOR is set.",
    )
    @click.make_pass_decorator(CLIControls, ensure=True)
    @functools.wraps(fn)
    def wrapper(
        controls: CLIControls,
        /,
        verbose: bool,
        debug: bool,
        color: bool | None,
        operator: str | None = None,
        prefix: str | None = None,
        finalizer: str | None = None,
        **kwargs: Any,
    ) -> Any:
        configure_output(verbose=verbose, debug=debug, color=color)
        settings = controls.settings or make_settings(operator, prefix, finalizer)
        return fn(access=make_access(controls, settings), **kwargs)

    return wrapper  # type: ignore[return-value]


def configure_output(*, verbose: bool, debug: bool, color: bool | None) -> None:
    """Log only that the API is silent, unless the user wants more; set the colours.

    The commands themselves tell of their failures, in one line.
    """
    from kopf_kits.logs import LogFormat, OperatorStreamHandler, configure, is_colourful

    configure(
        verbose=verbose,
        debug=debug,
        log_format=LogFormat.FULL if verbose or debug else LogFormat.PLAIN,
        log_color=color,
    )
    if not verbose and not debug:
        for handler in logging.getLogger().handlers:
            if isinstance(handler, OperatorStreamHandler):
                handler.addFilter(_is_about_silence)
    click.get_current_context().color = is_colourful(sys.stdout) if color is None else color


def _is_about_silence(record: logging.LogRecord) -> bool:
    return record.module == unanswered.__name__.rpartition(".")[2]


def make_settings(
    operator: str | None, prefix: str | None, finalizer: str | None
) -> OperatorSettings:
    """The settings of the operator, as far as they concern the marks on objects.

    They include the marks in the status. Raises :class:`click.UsageError` if they are wrong.
    """
    from kopf_cogs.configs.checks import SettingError
    from kopf_cogs.configs.diffbase import (
        AnnotationsDiffBaseStorage,
        MultiDiffBaseStorage,
        StatusDiffBaseStorage,
    )
    from kopf_cogs.configs.progress import SmartProgressStorage
    from kopf_cogs.configs.settings import OperatorSettings

    try:
        settings = OperatorSettings(name=operator)
    except SettingError as e:
        raise click.UsageError(str(e)) from e
    prefix = prefix or operator or "kopf.zalando.org"
    settings.persistence.progress_storage = SmartProgressStorage(prefix=prefix)
    settings.persistence.diffbase_storage = MultiDiffBaseStorage(
        [AnnotationsDiffBaseStorage(prefix=prefix), StatusDiffBaseStorage()]
    )
    if finalizer:
        settings.persistence.finalizer = finalizer
    settings.networking.error_backoffs = BACKOFFS
    settings.networking.request_timeout = TIMEOUT
    return settings


def make_access(controls: CLIControls, settings: OperatorSettings | None = None) -> Access:
    """The access to the cluster: the login handlers, if there are any, and the settings."""
    from kopf_cogs.configs.settings import OperatorSettings
    from kopf_core.intents.registries import get_default_registry
    from kopf_core.reactor.process.errands import Access

    registry = controls.registry or get_default_registry()
    settings = settings or controls.settings or OperatorSettings()
    return Access(settings=settings, registry=registry, vault=controls.vault, patience=PATIENCE)


def scope_options(fn: F) -> F:
    """Add the options that select objects, as in kubectl."""
    for option in reversed(
        [
            click.option(
                "-n", "--namespace", help="The namespace; by default, of the current context."
            ),
            click.option(
                "-A", "--all-namespaces", "clusterwide", is_flag=True, help="In all namespaces."
            ),
            click.option("-l", "--selector", "labels", help="Only with these labels, e.g. a=b,c."),
            click.option(
                "--field-selector", "fields", help="Only with these fields, e.g. metadata.name=x."
            ),
        ]
    ):
        fn = option(fn)
    return fn


def select(
    kind: str | None,
    names: tuple[str, ...] = (),
    *,
    namespace: str | None,
    clusterwide: bool,
    labels: str | None = None,
    fields: str | None = None,
) -> Selection:
    """Make the selection of objects. Raises :class:`click.UsageError` if the options contradict."""
    if namespace is not None and clusterwide:
        raise click.UsageError("Use either --namespace or --all-namespaces, not both.")
    if names and clusterwide:
        raise click.UsageError("Objects have no unique names across all namespaces: use -n.")
    if names and (labels or fields):
        raise click.UsageError("Use either names or selectors, not both.")
    return Selection(
        kind=kind,
        names=names,
        namespace=namespace,
        clusterwide=clusterwide,
        labels=labels,
        fields=fields,
    )


def output_option(fn: F) -> F:
    """Add the option of how the output looks."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Text for people (the default), or JSON for scripts.",
    )(fn)
