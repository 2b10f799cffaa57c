"""The root of the command line, and what users see when something goes wrong."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from kopf_cogs.clients.errors import APIError
from kopf_cogs.helpers.versions import get_version
from kopf_cogs.structs.credentials import LoginError
from kopf_core.engines.activities import ActivityError
from kopf_core.engines.probing import ProbesError
from kopf_core.reactor.exiting import AbandonedError
from kopf_core.reactor.preflight import SettingsError
from kopf_kits.cli.running import run
from kopf_kits.cli.sandboxing import sandbox
from kopf_kits.loading import LoadingError
from kopf_kits.locals import LocalClusterError
from kopf_kits.manifests import ManifestError

_EXPECTED = (
    AbandonedError,
    ActivityError,
    APIError,
    LoadingError,
    LocalClusterError,
    LoginError,
    ManifestError,
    ProbesError,
    SettingsError,
)
_BY_NAME = frozenset({"EnvtestError"})  # those that are not worth importing for this


class OperatorGroup(click.Group):
    """
    A group of commands that explains failures in one line instead of a traceback.

    It is so only when called as a program. In code (``main.main()``, click's test runner,
    ``KopfRunner``), the exceptions are raised as they are, also those of users' files.

    The options of all commands can be set by environment variables, by their own names
    (``KOPF_RUN_PEERING`` for ``--peering``), besides those which click derives by itself.
    """

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        for param in cmd.params:
            if isinstance(param, click.Option) and param.envvar is None:
                param.envvar = _get_variables(name or cmd.name or "", param)
        super().add_command(cmd, name)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except LoadingError as e:
            original = e.__cause__ or e
        raise original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except BrokenPipeError:
            sys.exit(1)
        except Exception as e:
            _fail(e)


def _get_variables(command: str, option: click.Option) -> list[str]:
    names = [opt.lstrip("-") for opt in option.opts if opt.startswith("--")]
    return [f"KOPF_{command}_{name}".replace("-", "_").upper() for name in names]


def _fail(exc: Exception) -> NoReturn:
    """Explain the failure and exit. The traceback is for the verbose mode and for our own bugs."""
    is_verbose = any(arg in sys.argv for arg in ("-v", "--verbose", "-d", "--debug"))
    is_expected = isinstance(exc, _EXPECTED) or type(exc).__name__ in _BY_NAME
    message = str(exc) if is_expected and str(exc) else f"{type(exc).__name__}: {exc}"
    if isinstance(exc, LoadingError) and is_verbose and exc.details:
        click.echo(exc.details, err=True, nl=False)
    elif not is_expected and is_verbose:
        import traceback

        traceback.print_exception(exc)
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    sys.exit(1)


@click.group(cls=OperatorGroup, name="kopf", context_settings={"auto_envvar_prefix": "KOPF"})
@click.version_option(get_version(), prog_name="kopf")
def main() -> None:
    """Kubernetes operators in Python."""


main.add_command(run)
main.add_command(sandbox)
