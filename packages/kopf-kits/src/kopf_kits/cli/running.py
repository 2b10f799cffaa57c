"""``kopf run``: load the handlers and run the operator."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection, Mapping
from typing import Any

import click
from click.exceptions import Exit

from kopf_kits.cli import reloading
from kopf_kits.cli.choices import Choices
from kopf_kits.cli.controls import CLIControls
from kopf_kits.cli.onces import once_options
from kopf_kits.cli.options import (
    LabelsParamType,
    check_liveness_url,
    check_serving_url,
    is_given,
    logging_options,
    manifest_options,
)
from kopf_kits.cli.targets import clusters_options, is_chosen

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
    type=LabelsParamType(),
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
    "--shards",
    metavar="NAME[@NAMESPACE]",
    help="Share the objects among the replicas by Leases with this name; all replicas work.",
)
@click.option(
    "--ring",
    metavar="NAME[@NAMESPACE]",
    help="Be a shard of this ControllerRing of kubernetes-controller-sharding.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    help="Run so many processes, each with its part of the objects; 1 by default.",
)
@click.option(
    "--qps",
    type=click.FloatRange(min=0, min_open=True),
    help="Send so many requests per second to the API; there is no limit by default.",
)
@click.option(
    "--burst",
    type=click.IntRange(min=1),
    help="With --qps: send so many requests at once after a quiet time; 10 by default.",
)
@once_options
@click.option("-m", "--module", "modules", multiple=True, help="Import a module (repeatable).")
@clusters_options
@click.option("--sandbox", is_flag=True, help="Start a local cluster, and run on it.")
@manifest_options
@click.option("--apply-crds", is_flag=True, help="Define the kinds of the models at the start.")
@click.option("--force", is_flag=True, help="With --apply-crds: apply even breaking changes.")
@click.argument("paths", nargs=-1)
@click.make_pass_decorator(CLIControls, ensure=True)
def run(controls: CLIControls, /, **options: Any) -> None:
    """Run the operator with the handlers from the files and modules."""
    names = {field.name for field in dataclasses.fields(Choices)}
    choices = Choices(**{name: options.pop(name) for name in names})
    _check_usage(choices, options)
    for way in ("shards", "ring"):
        if options[way]:
            _check_shards(way, choices, options)
    if options["clusters"]:
        _check_clusters(choices, options["clusters"])
    if choices.processes > 1:
        _check_processes(controls, choices, options)
    if choices.dev and options["priority"] is None:
        options["priority"] = DEV_PRIORITY
    if choices.sandbox and not options["namespaces"] and not options["namespace_selector"]:
        options["clusterwide"] = True
    # These imports take time, and the help and wrong options do not need them.
    from kopf_kits.cli.links import take_link

    link = take_link()
    is_supervised = reloading.is_supervised() or link is not None
    if not is_supervised and choices.needs_supervisor:
        raise Exit(_supervise(choices))
    if is_supervised:
        choices = dataclasses.replace(choices, sandbox=False)  # the supervisor has it
    from kopf_kits.cli.operating import operate

    operate(controls, choices, options, link)


def _supervise(choices: Choices) -> int:
    """Run the command of this process in other processes, and get the exit code."""
    with choices.started_sandbox():
        if choices.processes == 1:
            return reloading.run_reloading(choices.paths, choices.modules)
        from kopf_kits.cli.processes import run_processes

        return run_processes(reloading.make_command(), choices.processes)


def _check_usage(choices: Choices, options: Mapping[str, Any]) -> None:
    if options["namespaces"] and options["clusterwide"]:
        raise click.UsageError("Use either --namespace or --all-namespaces, not both.")
    if options["lease"] and options["peering_name"]:
        raise click.UsageError("Use either --peering or --lease, not both: each says who works.")
    if choices.sandbox and is_chosen():
        raise click.UsageError("Use --sandbox with neither --kubeconfig nor --context.")
    if choices.files and not choices.sandbox:
        raise click.UsageError("Use --file with --sandbox: other clusters are not to be changed.")
    if is_given("engine") and not choices.sandbox:
        raise click.UsageError("Use --engine with --sandbox: it is what the sandbox runs on.")
    if choices.force and not choices.apply_crds:
        raise click.UsageError("Use --force with --apply-crds: it is about definitions.")
    if choices.apply_crds and choices.once is not None and choices.once.dry_run:
        raise click.UsageError(
            "Use either --apply-crds or --dry-run: definitions cannot be applied without a change. "
            "Define the kinds first: kopf crds ... -o crd.yaml, then kubectl apply -f crd.yaml; "
            "with --sandbox, -f crd.yaml."
        )


def _check_shards(way: str, choices: Choices, options: Mapping[str, Any]) -> None:
    others = {"lease": options["lease"], "peering": options["peering_name"], "once": choices.once}
    others |= {"ring": options["ring"]} if way == "shards" else {}
    for name in [name for name, value in others.items() if value]:
        raise click.UsageError(f"Use either --{way} or --{name}, not both.")


def _check_clusters(choices: Choices, contexts: Collection[str]) -> None:
    if len(set(contexts)) < len(contexts):
        raise click.UsageError("Use each --context once: they are names of different clusters.")
    others = {
        "processes": choices.processes > 1,
        "once": choices.once,
        "apply-crds": choices.apply_crds,
    }
    for name in [name for name, value in others.items() if value]:
        raise click.UsageError(f"Use either --{name} or several --context, not both.")


def _check_processes(controls: CLIControls, choices: Choices, options: Mapping[str, Any]) -> None:
    others = {
        "lease": options["lease"],
        "shards": options["shards"],
        "ring": options["ring"],
        "peering": options["peering_name"],
        "reload": choices.reload,
        "once": choices.once,
    }
    for name in [name for name, value in others.items() if value]:
        raise click.UsageError(f"Use either --processes or --{name}, not both.")
    if controls != CLIControls() or threading.current_thread() is not threading.main_thread():
        raise click.UsageError("Use --processes only in the command line: it starts processes.")
