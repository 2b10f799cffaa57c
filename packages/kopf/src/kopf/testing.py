"""Testing tools for operators: running them in the background, and a local API to run them on.

The sandbox and the operators are also fixtures of pytest. Where Kopf is installed, all tests
have them, with no imports::

    def test_operator(kopf_sandbox, kopf_operator):
        kopf_sandbox.apply(Path("crd.yaml"))
        kopf_operator("-A", "handlers.py")
        ...
"""

import contextlib

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_kits.connecting import Connected
from kopf_kits.definitions.checking import UncheckableError, check_object
from kopf_kits.definitions.costs import check_costs
from kopf_kits.envtest import Envtest, EnvtestError
from kopf_kits.reconciling import Reconciled, reconcile
from kopf_kits.round_trips import check_round_trips
from kopf_kits.runner import KopfRunner
from kopf_kits.sandbox import ClusterOptions, Sandbox, SandboxThread, StatusError

with contextlib.suppress(ImportError):  # there are also other test frameworks
    from kopf_kits.fixtures import kopf_operator, kopf_sandbox, kopf_usage

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
    "StatusError",
    "UncheckableError",
    "check_costs",
    "check_object",
    "check_round_trips",
    "kopf_operator",
    "kopf_sandbox",
    "kopf_usage",
    "reconcile",
]
