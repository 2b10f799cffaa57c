"""The command lines of the servers of a control plane."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from .assets import Assets

CONTROLLERS = ("namespace-controller", "garbage-collector-controller")
# Sockets in the current folder of the servers: etcd requires a "host:port" also of them.
ETCD_URL = "unix://etcd:0"
PEER_URL = "unix://peer:0"
SERVICE_RANGE = "10.0.0.0/24"


def make_etcd_command(assets: Assets, folder: pathlib.Path) -> list[str]:
    """Make the command of etcd: for one start, so nothing has to survive on the disk.

    It listens on sockets in the private folder (its current one): there, no other user
    of the machine can reach it, and no port can be in use.
    """
    return [
        str(assets.etcd),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={ETCD_URL}",
        f"--advertise-client-urls={ETCD_URL}",
        f"--listen-peer-urls={PEER_URL}",
        f"--initial-advertise-peer-urls={PEER_URL}",
        f"--initial-cluster=default={PEER_URL}",
        "--heartbeat-interval=20",
        "--election-timeout=200",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def make_apiserver_command(
    assets: Assets, folder: pathlib.Path, port: int, extra: Sequence[str]
) -> list[str]:
    """Make the command of the API server: RBAC on, all other features as they are by default.

    The admission of service accounts is off, as in all such control planes. There is no controller
    to make a "default" account in each namespace, so clients could create no pods.
    """
    return [
        str(assets.apiserver),
        f"--etcd-servers={ETCD_URL}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--service-account-issuer=https://localhost:{port}",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--shutdown-delay-duration=0s",
        "--profiling=false",
        *extra,
    ]


def make_manager_command(
    binary: pathlib.Path, folder: pathlib.Path, kubeconfig: pathlib.Path
) -> list[str]:
    """Make the command of the controller manager: only with the controllers for deletions."""
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        f"--root-ca-file={folder / 'ca.crt'}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--concurrent-namespace-syncs=10",
        "--profiling=false",
    ]
