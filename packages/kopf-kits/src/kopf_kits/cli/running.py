"""``kopf run``: load the handlers and run the operator."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import threading
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from kopf_kits.cli import reloading
from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.interrupts import exiting_when_interrupted
from kopf_kits.cli.onces import finish, once_options
from kopf_kits.cli.options import (
    check_liveness_url,
    check_serving_url,
    is_given,
    logging_options,
    manifest_options,
)
from kopf_kits.cli.targets import is_chosen, target_options

if TYPE_CHECKING:
    from kopf_core.reactor.life.once import Once

logger = logging.getLogger("kopf.cli")

DEV_PRIORITY = 666


@click.command()
@logging_options
@click.option("-A", "--all-namespaces", "clusterwide", is_flag=True, help="Serve all namespaces.")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    help="Serve this namespace, or namespaces matching the pattern (repeatable).",
)
@click.option(
    "--namespace-selector",
    metavar="LABELS",
    help="Serve the namespaces with these labels, such as 'tenant in (a, b)'.",
)
@click.option("--standalone", is_flag=True, default=None, help="Ignore all other operators.")
@click.option(
    "--dev",
    is_flag=True,
    help=f"Development mode: the priority of {DEV_PRIORITY}; --reload if in a terminal.",
)
@click.option(
    "--reload/--no-reload",
    default=None,
    help="Restart the operator when its source files change.",
)
@click.option(
    "-L",
    "--liveness",
    "liveness_endpoint",
    metavar="URL",
    callback=check_liveness_url,
    help="Serve the probes at this URL, such as http://0.0.0.0:8080/healthz.",
)
@click.option(
    "--serve",
    "serving_endpoint",
    metavar="URL",
    callback=check_serving_url,
    help="Serve the probes & metrics at this URL, such as http://0.0.0.0:8080.",
)
@click.option(
    "--status",
    "status_endpoint",
    metavar="URL",
    callback=check_serving_url,
    help="Serve the status at this URL: a loopback address, such as http://127.0.0.1:8081.",
)
@click.option("-P", "--peering", "peering_name", help="The name of the peering object.")
@click.option("-p", "--priority", type=int, help="The priority among the peers; 0 by default.")
@click.option(
    "--lease",
    metavar="NAME[@NAMESPACE]",
    help="Elect one leader among the replicas by this Lease; the other replicas wait.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    help="Run so many processes, each with its part of the objects; 1 by default.",
)
@once_options
@click.option("-m", "--module", "modules", multiple=True, help="Import a module (repeatable).")
@target_options
@click.option("--sandbox", is_flag=True, help="Start a local cluster, and run on it.")
@manifest_options
@click.option("--apply-crds", is_flag=True, help="Define the kinds of the models at the start.")
@click.option("--force", is_flag=True, help="With --apply-crds: apply even breaking changes.")
@click.argument("paths", nargs=-1)
@click.make_pass_decorator(CLIControls, ensure=True)
def run(
    controls: CLIControls,
    /,
    paths: Collection[str],
    modules: Collection[str],
    dev: bool,
    reload: bool | None,
    sandbox: bool,
    files: Collection[str],
    engine: str,
    once: Once | None,
    apply_crds: bool,
    force: bool,
    processes: int,
    **options: Any,
) -> None:
    """Run the operator with the handlers from the files and modules."""
    _check_usage(sandbox, files, **options)
    _check_definitions(apply_crds, force, once)
    if processes > 1:
        _check_processes(controls, reload, once, **options)
    if dev and options["priority"] is None:
        options["priority"] = DEV_PRIORITY
    if sandbox and not options["namespaces"] and not options["namespace_selector"]:
        options["clusterwide"] = True
    # It takes time, and is not needed for the help and for wrong options.
    from kopf_kits.cli.links import take_link

    link = take_link()
    supervised = reloading.is_supervised() or link is not None
    with contextlib.ExitStack() as stack:
        is_reloaded = processes == 1 and once is None and reloading.is_wanted(reload, dev)
        if not supervised and (processes > 1 or is_reloaded):
            if sandbox:
                stack.enter_context(_started_sandbox(engine, files))
            if processes > 1:
                from kopf_kits.cli.processes import run_processes

                raise Exit(run_processes(reloading.make_command(), processes))
            raise Exit(reloading.run_reloading(paths, modules))
        # It takes time, and is not needed for the help and for wrong options.
        from kopf_core.engines.listening import relay_var
        from kopf_core.intents.registries import get_default_registry, set_default_registry
        from kopf_core.reactor.life import running
        from kopf_kits.cli import spares
        from kopf_kits.cli.exits import clean_exit
        from kopf_kits.loops import proper_loop

        others = threading.enumerate()
        spares.wait_for_turn()
        if controls.registry is not None:
            set_default_registry(controls.registry)
        is_controlled = controls.stop_flag is not None or controls.ready_flag is not None
        needs_sandbox = sandbox and not supervised
        loaded = _load(paths, modules, refuses=is_controlled or needs_sandbox)
        if loaded is None:
            return
        if not paths and not modules and not get_default_registry().resource_handlers:
            logger.warning("Nothing is loaded: name files with handlers, or modules after -m.")
        if needs_sandbox:
            stack.enter_context(_started_sandbox(engine, files))
        if apply_crds:
            from kopf_kits.cli.crds import apply_at_start

            apply_at_start(loaded, force=force)
        controls_kwargs = controls.as_kwargs() | ({} if once is None else {"once": once})
        if link is not None:
            controls_kwargs["assigner"] = link
            relay_var.set(link.relay)
        stack.enter_context(clean_exit(others))
        loop = stack.enter_context(proper_loop(controls_kwargs.pop("loop", None)))
        running.run(loop=loop, **options, **controls_kwargs)
        if once is not None:
            finish(once)


def _check_usage(sandbox: bool, files: Collection[str], **options: Any) -> None:
    if options["namespaces"] and options["clusterwide"]:
        raise click.UsageError("Use either --namespace or --all-namespaces, not both.")
    if options["lease"] and options["peering_name"]:
        raise click.UsageError("Use either --peering or --lease, not both: each says who works.")
    if sandbox and is_chosen():
        raise click.UsageError("Use --sandbox with neither --kubeconfig nor --context.")
    if files and not sandbox:
        raise click.UsageError("Use --file with --sandbox: other clusters are not to be changed.")
    if is_given("engine") and not sandbox:
        raise click.UsageError("Use --engine with --sandbox: it is what the sandbox runs on.")


def _check_processes(
    controls: CLIControls, reload: bool | None, once: Once | None, **options: Any
) -> None:
    others = {
        "lease": options["lease"],
        "peering": options["peering_name"],
        "reload": reload,
        "once": once,
    }
    for name in [name for name, value in others.items() if value]:
        raise click.UsageError(f"Use either --processes or --{name}, not both.")
    if controls != CLIControls() or threading.current_thread() is not threading.main_thread():
        raise click.UsageError("Use --processes only in the command line: it starts processes.")


def _check_definitions(apply_crds: bool, force: bool, once: Once | None) -> None:
    if force and not apply_crds:
        raise click.UsageError("Use --force with --apply-crds: it is about definitions.")
    if apply_crds and once is not None and once.dry_run:
        raise click.UsageError("Use either --apply-crds or --dry-run: definitions are applied.")


def _load(
    paths: Collection[str], modules: Collection[str], *, refuses: bool
) -> list[ModuleType] | None:
    """Load the files; ``None`` if they have run an operator themselves: there is none after it.

    It is refused where it would not fit: not stopped by tests, not in the sandbox of the command.
    If they ask to exit, e.g. as something is absent in the environment, it is with their code.
    """
    from kopf_core.reactor.life.exiting import tell_of_wish
    from kopf_kits.loading import LoadingError, preload, refuse_operator

    places: list[str] = []

    def on_operator(place: str) -> None:
        if refuses:
            refuse_operator(place)
        places.append(place)
        logger.warning(
            f"{place}: an operator is run while the file is only loaded, so all the code below "
            "and the options of the command line are not for it. It is the only one; put it "
            "under `if __name__ == '__main__':`, so that `kopf run` runs its own."
        )

    try:
        loaded = preload(paths, modules, on_operator)
    except LoadingError as e:
        if isinstance(e.__cause__, SystemExit):
            tell_of_wish("The loaded code", e.__cause__)
            raise e.__cause__ from None
        raise
    return None if places else loaded


@contextlib.contextmanager
def _started_sandbox(engine: str, files: Collection[str]) -> Iterator[None]:
    from kopf_kits.locals import Engine, local_cluster, using_kubeconfig
    from kopf_kits.manifests import describe_applied

    with contextlib.ExitStack() as stack:
        with exiting_when_interrupted():
            cluster = stack.enter_context(local_cluster(Engine(engine)))
            stack.enter_context(using_kubeconfig(cluster.kubeconfig))
            for line in describe_applied(cluster.apply([pathlib.Path(path) for path in files])):
                click.echo(line, err=True)
        click.echo(f"The sandbox is ready: export KUBECONFIG={cluster.kubeconfig}", err=True)
        yield
