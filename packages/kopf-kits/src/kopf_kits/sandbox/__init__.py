"""A local Kubernetes API server in memory: try and test operators with no cluster.

It is a tool for development: it listens on the loopback interface only, speaks plain HTTP, accepts
any credentials, and forgets everything when it stops.
"""

from .cluster import ClusterOptions
from .sandbox import Sandbox
from .statuses import StatusError

__all__ = ["ClusterOptions", "Sandbox", "StatusError"]
