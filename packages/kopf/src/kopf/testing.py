"""Testing tools for operators: running them in the background, and a local API to run them on.

The sandbox is both a context manager and a fixture of pytest, which is to be imported
into ``conftest.py``, or listed there as ``pytest_plugins = ["kopf.testing"]``::

    def test_operator(kopf_sandbox):
        kopf_sandbox.apply(Path("crd.yaml"))
        with KopfRunner(["run", "-A", "handlers.py"]) as runner:
            ...
"""

import contextlib

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_kits.connecting import Connected
from kopf_kits.envtest import Envtest, EnvtestError
from kopf_kits.reconciling import Reconciled, reconcile
from kopf_kits.runner import KopfRunner
from kopf_kits.sandbox import ClusterOptions, Sandbox, SandboxThread

with contextlib.suppress(ImportError):  # there are also other test frameworks
    from kopf_kits.fixtures import kopf_sandbox

__all__ = [
    "ClusterOptions",
    "Connected",
    "Envtest",
    "EnvtestError",
    "FakeClock",
    "KopfRunner",
    "Reconciled",
    "Sandbox",
    "SandboxThread",
    "kopf_sandbox",
    "reconcile",
]
