"""What the operator tells about itself over HTTP: probes, metrics, and its status."""

from kopf_core.engines.serving.endpoint import Endpoint, serve_status
from kopf_core.engines.serving.snapshots import Snapshot, StatusSource

__all__ = ["Endpoint", "Snapshot", "StatusSource", "serve_status"]
