"""The webhooks in the configurations, by which the API calls the handlers."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.reviews import WebhookClientConfig
from kopf_core.engines.admission.routes import Routes, make_names
from kopf_core.intents.webhooks import WebhookHandler, WebhookType, make_label_selector

DEFAULT_TIMEOUT = 30
"""In seconds: the longest timeout that the API permits."""

Webhook = dict[str, Any]
"""One item of ``.webhooks`` of a webhook configuration."""

Served = Mapping[WebhookHandler, Collection[Resource]]
"""The handlers, with the resources that were found for them in the cluster."""


def build_webhooks(
    type: WebhookType,
    served: Served,
    routes: Routes,
    *,
    client_config: WebhookClientConfig,
    suffix: str,
) -> list[Webhook]:
    """Build the webhooks of all handlers of the type that have resources."""
    handlers = [handler for handler in served if handler.type is type]
    names = make_names(handlers, suffix)
    return [
        {
            "name": names[handler],
            "clientConfig": extend_client_config(
                client_config, routes.get_path(handler), routes.get_service_path(handler)
            ),
            **_describe(handler, served[handler]),
        }
        for handler in handlers
        if served[handler]
    ]


def extend_client_config(
    config: WebhookClientConfig, path: str, service_path: str
) -> dict[str, Any]:
    """Add the path of the handler to the address of the server, either a URL or a service."""
    result: dict[str, Any] = {key: val for key, val in config.items() if val is not None}
    if config.get("url") is not None:
        result["url"] = f"{str(config['url']).rstrip('/')}/{path}"
    service = config.get("service")
    if service is not None:
        base = (service.get("path") or "").strip("/")
        extended = service | {"path": f"/{base}/{service_path}" if base else f"/{service_path}"}
        result["service"] = {key: val for key, val in extended.items() if val is not None}
    return result


def _describe(handler: WebhookHandler, resources: Iterable[Resource]) -> dict[str, Any]:
    ordered = sorted(resources, key=lambda res: (res.group, res.version, res.plural))
    described: dict[str, Any] = {
        "sideEffects": "NoneOnDryRun" if handler.side_effects else "None",
        "failurePolicy": "Ignore" if handler.ignore_failures else "Fail",
        "matchPolicy": handler.match_policy or "Equivalent",
        "rules": [_make_rule(handler, resource) for resource in ordered],
        "objectSelector": make_label_selector(handler.labels or {}),
        "timeoutSeconds": handler.timeout_seconds or DEFAULT_TIMEOUT,
        "admissionReviewVersions": ["v1", "v1beta1"],
    }
    optional = {
        "namespaceSelector": handler.namespace_selector,
        "matchConditions": [*handler.match_conditions] or None,
        "reinvocationPolicy": handler.reinvocation_policy,
    }
    return described | {key: value for key, value in optional.items() if value is not None}


def _make_rule(handler: WebhookHandler, resource: Resource) -> dict[str, Any]:
    suffix = f"/{handler.subresource}" if handler.subresource else ""
    return {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "resources": [f"{resource.plural}{suffix}"],
        "operations": [*handler.operations] or ["*"],
        "scope": "*",
    }
