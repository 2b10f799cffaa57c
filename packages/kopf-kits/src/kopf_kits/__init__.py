"""The tools around Kopf: hierarchies of objects, log formats, test runners, local clusters,
webhook servers.

Everything listed here is public, the modules behind it are not. The names are imported when first
used: operators in clusters do not load the tools for development and tests.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf_kits.envtest import Envtest, EnvtestError
    from kopf_kits.hierarchies import (
        adjust_namespace,
        adopt,
        append_owner_reference,
        harmonize_naming,
        label,
        remove_owner_reference,
    )
    from kopf_kits.logs import LogFormat, configure
    from kopf_kits.runner import KopfRunner
    from kopf_kits.sandbox import Sandbox, SandboxThread
    from kopf_kits.webhooks import (
        WebhookAutoServer,
        WebhookAutoTunnel,
        WebhookDockerDesktopServer,
        WebhookK3dServer,
        WebhookMinikubeServer,
        WebhookNgrokTunnel,
        WebhookServer,
        WebhookServiceServer,
    )

__all__ = [
    "Envtest",
    "EnvtestError",
    "KopfRunner",
    "LogFormat",
    "Sandbox",
    "SandboxThread",
    "WebhookAutoServer",
    "WebhookAutoTunnel",
    "WebhookDockerDesktopServer",
    "WebhookK3dServer",
    "WebhookMinikubeServer",
    "WebhookNgrokTunnel",
    "WebhookServer",
    "WebhookServiceServer",
    "adjust_namespace",
    "adopt",
    "append_owner_reference",
    "configure",
    "harmonize_naming",
    "label",
    "remove_owner_reference",
]

_SOURCES = {
    "kopf_kits.envtest": ("Envtest", "EnvtestError"),
    "kopf_kits.hierarchies": (
        "adjust_namespace",
        "adopt",
        "append_owner_reference",
        "harmonize_naming",
        "label",
        "remove_owner_reference",
    ),
    "kopf_kits.logs": ("LogFormat", "configure"),
    "kopf_kits.runner": ("KopfRunner",),
    "kopf_kits.sandbox": ("Sandbox", "SandboxThread"),
    "kopf_kits.webhooks": (
        "WebhookAutoServer",
        "WebhookAutoTunnel",
        "WebhookDockerDesktopServer",
        "WebhookK3dServer",
        "WebhookMinikubeServer",
        "WebhookNgrokTunnel",
        "WebhookServer",
        "WebhookServiceServer",
    ),
}
_MODULES = {name: module for module, names in _SOURCES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
