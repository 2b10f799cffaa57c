"""A real control plane on this machine: etcd and kube-apiserver, by the convention of envtest.

Unlike the sandbox, it is not ours but the real thing: as slow to start as some seconds,
and only where the binaries of Kubernetes are at hand.
"""

from .assets import Assets, find_assets
from .cluster import Envtest
from .errors import EnvtestError

__all__ = ["Assets", "Envtest", "EnvtestError", "find_assets"]
