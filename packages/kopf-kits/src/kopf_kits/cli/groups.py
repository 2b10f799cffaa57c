"""The root of the command line, and the messages of its errors."""

from __future__ import annotations

import importlib
import sys
from typing import Any, NoReturn

import click

from kopf_cogs.helpers.similar import find_similar
from kopf_kits.loading import LoadingError

COMMANDS = {
    "crds": ("kopf_kits.cli.crds", "Show the definitions of the kinds by their models."),
    "forget": ("kopf_kits.cli.duty.changing", "Make the objects look new to the operator."),
    "freeze": ("kopf_kits.cli.freezing", "Pause the operators, until resumed or for a time."),
    "handlers": ("kopf_kits.cli.duty.declared", "Show the handlers that files & modules declare."),
    "init": ("kopf_kits.cli.initing", "Make a project of an operator, or update it."),
    "manifests": ("kopf_kits.cli.shipping", "Write the deployment: plain, kustomize, or a chart."),
    "migrate": ("kopf_kits.cli.duty.migrating", "Rewrite the objects to the storage version."),
    "models": ("kopf_kits.cli.models", "Write typed dictionaries of the kinds of the cluster."),
    "object": ("kopf_kits.cli.duty.looking", "Show everything about one object."),
    "objects": ("kopf_kits.cli.duty.looking", "Show the state of the objects of a kind."),
    "pause": ("kopf_kits.cli.duty.changing", "Let the operator ignore some objects for a while."),
    "rbac": ("kopf_kits.cli.rbac", "Write the least roles for the handlers, or verify them."),
    "release": ("kopf_kits.cli.duty.changing", "Remove the finalizer of the operator."),
    "resume": ("kopf_kits.cli.freezing", "Let the frozen operators continue."),
    "retry": ("kopf_kits.cli.duty.changing", "Start the next attempts of failed handlers now."),
    "run": ("kopf_kits.cli.running", "Run the operator with the handlers from files & modules."),
    "sandbox": ("kopf_kits.cli.sandboxing", "Serve a local Kubernetes API until Ctrl+C."),
    "unpause": ("kopf_kits.cli.duty.changing", "Let the operator handle the paused objects again."),
}
"""The modules and the summaries of the commands: a command is imported when it is used."""

ATTRIBUTES = {"object": "object_"}
"""The names of functions in the modules, if they differ from the names of commands."""


class OperatorGroup(click.Group):
    """A group of commands that explains failures in one line instead of a traceback.

    It does so only as a program. In code (``main.main()``, click's test runner,
    ``KopfRunner``), the group raises the exceptions unchanged, even the ones of users' files.

    Users can set the options of all commands by environment variables with the options' names
    (``KOPF_RUN_PEERING`` for ``--peering``), besides the variables that click derives by itself.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            module = importlib.import_module(COMMANDS[cmd_name][0])
            self.add_command(getattr(module, ATTRIBUTES.get(cmd_name, cmd_name)))
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        is_known = name.startswith("-") or self.get_command(ctx, name) is not None
        if not is_known and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}.{self._suggest(ctx, name)}")
        return super().resolve_command(ctx, args)

    def _suggest(self, ctx: click.Context, name: str) -> str:
        if name.endswith(".py"):
            return f" Did you mean 'kopf run {name}'?"
        close = find_similar(name, self.list_commands(ctx))
        return f" Did you mean {close!r}?" if close else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        others = {name: cmd.get_short_help_str() for name, cmd in self.commands.items()}
        titles = others | {name: title for name, (_, title) in COMMANDS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(titles.items()))

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        for param in cmd.params:
            if isinstance(param, click.Option) and not isinstance(param.envvar, list):
                shared = [] if param.envvar is None else [str(param.envvar)]
                param.envvar = [*_get_variables(name or cmd.name or "", param), *shared]
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
    is_expected = getattr(exc, "expected", False)
    message = str(exc) if is_expected and str(exc) else f"{type(exc).__name__}: {exc}"
    if isinstance(exc, LoadingError) and is_verbose and exc.details:
        click.echo(exc.details, err=True, nl=False)
    elif not is_expected and is_verbose:
        import traceback

        traceback.print_exception(exc)
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    sys.exit(1)


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from kopf_cogs.helpers.versions import get_version

        click.echo(f"kopf, version {get_version()}")
        ctx.exit()


@click.group(cls=OperatorGroup, name="kopf", context_settings={"auto_envvar_prefix": "KOPF"})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Kubernetes operators in Python."""
