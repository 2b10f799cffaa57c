"""A local Kubernetes API server in memory: try and test operators with no cluster.

It is a tool for development: it listens on the loopback interface only, speaks plain HTTP, accepts
any credentials, and forgets everything when it stops.
"""

from .base.nature import Nature
from .base.statuses import StatusError
from .cluster import ClusterOptions
from .http.faults import Fault, Faults
from .http.journal import Entry, Journal
from .sandbox import Sandbox
from .threads import SandboxThread

__all__ = [
    "ClusterOptions",
    "Entry",
    "Fault",
    "Faults",
    "Journal",
    "Nature",
    "Sandbox",
    "SandboxThread",
    "StatusError",
]
