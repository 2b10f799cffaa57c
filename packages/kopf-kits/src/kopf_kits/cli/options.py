"""The options which several commands have in common."""

from __future__ import annotations

import functools
import pathlib
import re
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from kopf_kits.logs import LogFormat, configure

F = TypeVar("F", bound=Callable[..., Any])


class LogFormatParamType(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """The formats of the logs by their names."""

    def __init__(self) -> None:
        super().__init__([fmt.name.lower() for fmt in LogFormat], case_sensitive=False)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> LogFormat:
        if isinstance(value, LogFormat):
            return value
        return LogFormat[str(super().convert(value, param, ctx)).upper()]


class LabelsParamType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A label selector, as in ``kubectl get -l``."""

    name = "labels"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from kopf_cogs.structs.label_selectors import is_label_selector

        if not is_label_selector(value):
            self.fail(f"{value!r} is not a label selector such as 'tenant in (a, b)'.", param, ctx)
        return str(value)


class NameParamType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A name that fits all objects of Kubernetes: a label of RFC 1123."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
            self.fail(
                f"{value!r} is no name in Kubernetes: it must be of 1-63 small letters, digits, "
                "and dashes between them.",
                param,
                ctx,
            )
        return str(value)


used_option = click.option(
    "--used",
    "used",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    metavar="PATH",
    help="A file with the rights that handlers used in tests (repeatable).",
)
"""The files of the fixture ``kopf_usage``, for the commands that write rights."""


_LOGGING_OPTIONS = (
    click.option("-v", "--verbose", is_flag=True, help="Show the work of the framework."),
    click.option("-d", "--debug", is_flag=True, help="Also show asyncio and the API traffic."),
    click.option("-q", "--quiet", is_flag=True, help="Show only warnings and errors."),
    click.option(
        "--log-format",
        type=LogFormatParamType(),
        default="full",
        help="The format of the logs; 'full' by default.",
    ),
    click.option("--log-refkey", help="The key of JSON logs for the object's reference."),
    click.option(
        "--log-prefix/--no-log-prefix",
        default=None,
        help="Begin messages with the object's name, or not. The default is yes, but not in JSON.",
    ),
    click.option("--log-kinds", is_flag=True, help="Also name the kinds of objects there."),
    click.option(
        "--color/--no-color",
        default=None,
        help="Colour the logs or not. The default: in terminals, unless NO_COLOR is set.",
    ),
)


def logging_options(fn: F) -> F:
    """Add the options of logging to a command of click, and configure the logs before it starts.

    The command itself does not get these options. The verbosity is in ``ctx.meta``
    under ``"kopf.verbose"`` and ``"kopf.debug"``.
    """

    @functools.wraps(fn)  # to keep the other options and the docstring
    def wrapper(
        verbose: bool,
        debug: bool,
        quiet: bool,
        log_format: LogFormat,
        log_refkey: str | None,
        log_prefix: bool | None,
        log_kinds: bool,
        color: bool | None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        configure(
            debug=debug,
            verbose=verbose,
            quiet=quiet,
            log_format=log_format,
            log_refkey=log_refkey,
            log_prefix=log_format is not LogFormat.JSON if log_prefix is None else log_prefix,
            log_kinds=log_kinds,
            log_color=color,
        )
        meta = click.get_current_context().meta
        meta["kopf.verbose"], meta["kopf.debug"] = verbose or debug, debug
        return fn(*args, **kwargs)

    for option in reversed(_LOGGING_OPTIONS):
        wrapper = option(wrapper)
    return wrapper  # type: ignore[return-value]


def manifest_options(fn: F) -> F:
    """Add the options of local clusters: the manifests to apply, and the engine of the API."""
    fn = click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="PATH",
        help="A manifest to apply to the sandbox at the start (repeatable).",
    )(fn)
    return click.option(
        "--engine",
        type=click.Choice(["emulator", "envtest"]),
        default="emulator",
        help="The emulator, or the real kube-apiserver with etcd.",
    )(fn)


def check_liveness_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse the URLs that cannot serve the probes. With an empty URL, there are no probes."""
    return _check_url(ctx, param, value, "http://host:port/path", "http://0.0.0.0:8080/healthz")


def check_serving_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse the URLs that no endpoint can serve. With an empty URL, there is no endpoint."""
    return _check_url(ctx, param, value, "http://host:port", "http://0.0.0.0:8080")


def _check_url(
    ctx: click.Context, param: click.Parameter, value: str | None, form: str, example: str
) -> str | None:
    if not value:
        return value
    try:
        parts = urllib.parse.urlsplit(value)
        is_valid = parts.scheme == "http" and bool(parts.port)
    except ValueError:
        is_valid = False
    if not is_valid:
        expected = f"{form} is expected, such as {example}."
        raise click.BadParameter(f"{value!r}: {expected}", ctx=ctx, param=param)
    return value


def is_given(name: str) -> bool:
    """Whether the user has given the option in the command line, not by the environment."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE
