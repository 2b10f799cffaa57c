"""Webhook servers and tunnels: how admission requests come from the API to the operator."""

from .autos import WebhookAutoServer, WebhookAutoTunnel
from .contexts import WebhookContextManager
from .detection import ClusterDetector
from .listeners import WebhookServerError
from .servers import (
    WebhookDockerDesktopServer,
    WebhookK3dServer,
    WebhookMinikubeServer,
    WebhookServer,
)
from .services import WebhookServiceServer
from .tunnels import WebhookNgrokTunnel

__all__ = [
    "ClusterDetector",
    "WebhookAutoServer",
    "WebhookAutoTunnel",
    "WebhookContextManager",
    "WebhookDockerDesktopServer",
    "WebhookK3dServer",
    "WebhookMinikubeServer",
    "WebhookNgrokTunnel",
    "WebhookServer",
    "WebhookServerError",
    "WebhookServiceServer",
]
