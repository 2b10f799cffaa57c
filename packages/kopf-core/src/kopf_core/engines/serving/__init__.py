"""Answers of the operator about itself over HTTP: probes, metrics, and its status."""

from kopf_core.engines.serving.endpoint import Endpoint
from kopf_core.engines.serving.metrics import make_metrics
from kopf_core.engines.serving.snapshots import Snapshot, StatusSource
from kopf_core.engines.serving.status_endpoint import StatusEndpoint, StatusSetupError

__all__ = [
    "Endpoint",
    "Snapshot",
    "StatusEndpoint",
    "StatusSetupError",
    "StatusSource",
    "make_metrics",
]
