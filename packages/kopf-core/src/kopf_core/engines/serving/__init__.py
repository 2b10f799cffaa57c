"""What the operator tells about itself over HTTP: probes, metrics, and its status."""

from kopf_core.engines.serving.endpoint import Endpoint
from kopf_core.engines.serving.metrics import make_metrics
from kopf_core.engines.serving.snapshots import Snapshot, StatusSource

__all__ = ["Endpoint", "Snapshot", "StatusSource", "make_metrics"]
