"""The cluster that a command works with: its options, and its name in questions."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client

F = TypeVar("F", bound=Callable[..., Any])

IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
"""By this variable, client libraries see that they are in a cluster, and prefer it."""


_kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=pathlib.Path),
    metavar="PATH",
    help="The kubeconfig to use instead of the usual one.",
)


def target_options(fn: F) -> F:
    """Add the options that choose the cluster; the command itself does not get them.

    They become the environment of the process. So they work for everything in the process:
    the client libraries, the handlers of users, and the tools that these run.
    """

    @_kubeconfig_option
    @click.option("--context", metavar="NAME", help="The context of the kubeconfig to use.")
    @functools.wraps(fn)
    def wrapper(
        *args: Any, kubeconfig: pathlib.Path | None, context: str | None, **kwargs: Any
    ) -> Any:
        with _using_choice(kubeconfig, context):
            return fn(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def clusters_options(fn: F) -> F:
    """Add the same options for several clusters; the command gets the names of their contexts."""

    @_kubeconfig_option
    @click.option(
        "--context",
        "contexts",
        metavar="NAME",
        multiple=True,
        help="The context of the kubeconfig to use; repeat it to serve several clusters.",
    )
    @functools.wraps(fn)
    def wrapper(
        *args: Any, kubeconfig: pathlib.Path | None, contexts: tuple[str, ...], **kwargs: Any
    ) -> Any:
        if len(contexts) <= 1:
            with _using_choice(kubeconfig, *contexts):
                return fn(*args, clusters=None, **kwargs)
        with _using_choice(kubeconfig, is_chosen=True):
            from kopf_cogs.clients.kubeconfig import find_target

            for context in contexts:
                find_target(context)
            return fn(*args, clusters=contexts, **kwargs)

    return wrapper  # type: ignore[return-value]


@contextlib.contextmanager
def _using_choice(
    kubeconfig: pathlib.Path | None, context: str | None = None, *, is_chosen: bool = False
) -> Iterator[None]:
    if kubeconfig is None and context is None and not is_chosen:
        yield
        return
    click.get_current_context().meta[_META] = True
    with using_target(kubeconfig, context):
        yield


_META = "kopf.target"


def is_chosen() -> bool:
    """Whether the user has chosen the cluster by the options of the command."""
    return bool(click.get_current_context().meta.get(_META))


@contextlib.contextmanager
def using_target(kubeconfig: pathlib.Path | None, context: str | None) -> Iterator[None]:
    """Make this target the current cluster of the process, even if it runs in another cluster.

    Raises :class:`LoginError` if there is no such context.
    """
    from kopf_kits.locals import using_environment

    path = str(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG")
    path = path or str(pathlib.Path("~/.kube/config").expanduser())
    with contextlib.ExitStack() as stack:
        if context is not None:
            from kopf_cogs.clients.kubeconfig import find_target

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kopf-"))
            # The first file that has the current context wins: for kubectl, and for us.
            # For the official client library, the last file wins.
            chosen = pathlib.Path(folder) / "context.json"
            chosen.write_text(json.dumps({"current-context": context}), encoding="utf-8")
            path = os.pathsep.join([str(chosen), path, str(chosen)])
        stack.enter_context(using_environment({"KUBECONFIG": path, IN_CLUSTER: None}))
        if context is not None:
            find_target()
        yield


def describe_target(client: Client) -> str:
    """The server of the client; with the current context, if the context has this server."""
    from kopf_cogs.clients.kubeconfig import find_target
    from kopf_cogs.structs.credentials import LoginError

    server = client.server or "an unknown server"
    try:
        target = find_target()
    except LoginError:
        target = None
    if target is None or target.server.rstrip("/") != server.rstrip("/"):
        return server
    return f"{server} (context {target.context!r})"
