"""The options of runs that end by themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.exceptions import Exit

from kopf_kits.cli.options import is_given

if TYPE_CHECKING:
    from kopf_core.reactor.life.once import Once

F = TypeVar("F", bound=Callable[..., Any])

_SECONDS = click.FloatRange(min=0)
_ONLY = ("dry_run", "patience", "settle", "timeout", "output")

_OPTIONS = (
    click.option("--once", is_flag=True, help="Handle what there is, and exit when all is quiet."),
    click.option(
        "--dry-run",
        is_flag=True,
        help="With --once: commit nothing, and show what would be changed.",
    ),
    click.option(
        "--patience",
        type=_SECONDS,
        default=5.0,
        help="With --once: wait for retries and delays of up to so many seconds; 5 by default.",
    ),
    click.option(
        "--settle",
        type=_SECONDS,
        default=1.0,
        help="With --once: exit when nothing happens for so many seconds; 1 by default.",
    ),
    click.option(
        "--timeout",
        type=_SECONDS,
        default=300.0,
        help="With --once: give up after so many seconds; 300 by default, 0 is for never.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        help="With --dry-run: how to show the changes; 'text' by default.",
    ),
)


def once_options(fn: F) -> F:
    """Add the options; the command gets them as ``once``, or ``None`` for usual runs."""

    @functools.wraps(fn)
    def wrapper(
        *args: Any,
        once: bool,
        dry_run: bool,
        patience: float,
        settle: float,
        timeout: float,
        output: str,
        **kwargs: Any,
    ) -> Any:
        if not once:
            for name in filter(is_given, _ONLY):
                raise click.UsageError(f"Use --{name.replace('_', '-')} with --once.")
            return fn(*args, once=None, **kwargs)
        if kwargs.get("reload"):
            raise click.UsageError("Use either --once or --reload, not both.")
        # This import takes time, and the help and wrong options do not need it.
        from kopf_core.reactor.life.once import Once

        click.get_current_context().meta["kopf.output"] = output
        chosen = Once(dry_run=dry_run, patience=patience, settle=settle, timeout=timeout or None)
        return fn(*args, once=chosen, **kwargs)

    for option in reversed(_OPTIONS):
        wrapper = option(wrapper)
    return wrapper  # type: ignore[return-value]


def finish(once: Once) -> None:
    """Report the outcome of the run, and exit with its code if the code is not zero."""
    from kopf_kits.cli.rehearsals import get_code, report

    report(once, click.get_current_context().meta.get("kopf.output", "text"))
    if code := get_code(once):
        raise Exit(code)
