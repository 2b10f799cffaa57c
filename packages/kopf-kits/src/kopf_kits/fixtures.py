"""The plug-in of pytest: its fixtures are there wherever Kopf is installed, with no imports.

All sessions of pytest load this module, even if they do not need it. So it imports Kopf only when
a fixture is used.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from kopf_cogs.clients.session import Client
    from kopf_kits.roles.usage import Usage
    from kopf_kits.runner import KopfRunner
    from kopf_kits.sandbox import SandboxThread


class OperatorStarter(Protocol):
    """Starts an operator in the background of a test."""

    def __call__(self, *args: str, timeout: float = 60.0, **options: Any) -> KopfRunner: ...


@pytest.fixture
def kopf_sandbox(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SandboxThread]:
    """A local API for one test; it is the current cluster (``KUBECONFIG``) of the process."""
    from kopf_kits.sandbox import SandboxThread

    with SandboxThread() as sandbox:
        path = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield sandbox


@pytest.fixture
def kopf_operator(kopf_sandbox: SandboxThread) -> Iterator[OperatorStarter]:
    """Starts operators on the local API of the test; they are stopped at the end of the test.

    Pass the arguments of ``kopf run``: ``kopf_operator("-A", "example.py")``, and the options of
    :class:`kopf.testing.KopfRunner`. ``timeout`` is how many seconds the operator may take
    to exit. The errors of an operator are raised at the end of the test. If the test waits
    in ``kopf_sandbox.wait()`` when an operator fails, this wait fails at once.
    """
    from kopf_kits.runner import KopfRunner

    with contextlib.ExitStack() as stack:

        def start(*args: str, timeout: float = 60.0, **options: Any) -> KopfRunner:
            runner = KopfRunner(["run", *args], timeout=timeout, **options)
            if runner.reraise:
                runner.future.add_done_callback(lambda _: _give_up(kopf_sandbox, runner))
            return stack.enter_context(runner)

        yield start


def _give_up(sandbox: SandboxThread, runner: KopfRunner) -> None:
    """Tell the waiting test that the operator has failed, if it has."""
    error = runner.future.exception() or runner.exception
    if error is not None:
        reason = f"{type(error).__name__}: {error}"
        failure = RuntimeError(f"The operator has failed: {reason}")
        failure.__cause__ = error
        sandbox.give_up(failure)


@pytest.fixture
def kopf_usage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Usage]:
    """The requests of handlers through ``kopf.api`` in the test. Check the roles against them.

    The requests of ``kopf run --apply-crds`` are not among them: few deployments run so.

    If there is the variable ``KOPF_USED`` in the environment, it is the path of the file for
    ``kopf rbac --used``: everything is added there when the test ends.
    """
    from kopf_cogs.clients.session import Client
    from kopf_core.actions.context import invocation_var
    from kopf_kits.cli.crds import APPLYING
    from kopf_kits.roles.usage import Usage

    usage = Usage()
    request = Client.request

    async def note(self: Client, method: str, url: str, **options: Any) -> Any:
        invocation = invocation_var.get(None)
        if invocation is not None and invocation.handler.id != APPLYING:
            usage.note(method, url, options.get("content_type", ""), str(invocation.handler))
        return await request(self, method, url, **options)

    monkeypatch.setattr(Client, "request", note)
    yield usage
    if path := os.environ.get("KOPF_USED"):
        usage.save(path)
