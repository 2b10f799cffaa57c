"""Logging in with the service account of the pod which the operator runs in."""

import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kopf_cogs.structs import credentials

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings

PRIORITY = 10
"""The priority of these credentials among the credentials of all login methods."""

_FOLDER = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")


def login_with_service_account(
    *, settings: "OperatorSettings | None" = None, **_: Any
) -> credentials.ConnectionInfo | None:
    """Get the credentials from the files that Kubernetes mounts to all pods.

    Returns ``None`` if there are no such files, i.e. outside of a cluster.
    Raises :class:`LoginError` if the files are there, but are unusable.
    """
    trust_env = settings is not None and settings.networking.trust_env
    return read_service_account(_FOLDER, os.environ, trust_env=trust_env)


def read_service_account(
    folder: pathlib.Path, environ: Mapping[str, str], *, trust_env: bool = False
) -> credentials.ConnectionInfo | None:
    """Get the credentials from the specified folder instead of the usual one."""
    token_path = folder / "token"
    if not token_path.exists():
        return None
    ca_path = folder / "ca.crt"
    namespace_path = folder / "namespace"
    return credentials.ConnectionInfo(
        server=_get_server(environ),
        priority=PRIORITY,
        ca_path=str(ca_path) if ca_path.exists() else None,
        token_path=str(token_path),
        default_namespace=_read_namespace(namespace_path),
        trust_env=trust_env,
    )


def _get_server(environ: Mapping[str, str]) -> str:
    """The address from the environment: unlike the name, it does not depend on the DNS."""
    host = environ.get("KUBERNETES_SERVICE_HOST")
    if not host:
        return "https://kubernetes.default.svc"
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def find_namespace() -> str | None:
    """The namespace of the pod; ``None`` outside of clusters."""
    return _read_namespace(_FOLDER / "namespace")


def _read_namespace(path: pathlib.Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def find_token_path(token: str | None) -> str | None:
    """The file with this token, if it is the token of the pod: other clients do not tell."""
    path = _FOLDER / "token"
    try:
        return str(path) if token and path.read_text(encoding="utf-8").strip() == token else None
    except (OSError, UnicodeDecodeError):
        return None
