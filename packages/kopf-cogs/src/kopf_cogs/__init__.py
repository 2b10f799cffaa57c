"""The client side of Kopf: Kubernetes objects, patches, settings, and an API client.

Everything listed here is public, the modules behind it are not. The names are imported
when first used, so the import of the package itself costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf_cogs.clients.creating import create_object
    from kopf_cogs.clients.discovery import ScanResult, scan
    from kopf_cogs.clients.errors import (
        APIClientError,
        APIConflictError,
        APIConnectionError,
        APIError,
        APIForbiddenError,
        APIGoneError,
        APINotFoundError,
        APIRedirectError,
        APIResponseError,
        APIServerError,
        APIStatusError,
        APITooDeepError,
        APITooManyRequestsError,
        APIUnauthorizedError,
        APIUnprocessableError,
    )
    from kopf_cogs.clients.events import post_event
    from kopf_cogs.clients.incluster import login_with_service_account
    from kopf_cogs.clients.kinds import AmbiguousKindError, Kinds, UnknownKindError
    from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
    from kopf_cogs.clients.listing import Page, list_objects
    from kopf_cogs.clients.objects import Listing, ObjectsAPI
    from kopf_cogs.clients.patching import PatchResult, patch_object
    from kopf_cogs.clients.piggyback import (
        login_via_async_client,
        login_via_client,
        login_via_pykube,
    )
    from kopf_cogs.clients.reflector import EventSink, Reflector
    from kopf_cogs.clients.session import Client
    from kopf_cogs.clients.vault import Vault
    from kopf_cogs.configs.settings import OperatorSettings
    from kopf_cogs.structs.bodies import (
        Body,
        RawBody,
        RawEvent,
        build_object_reference,
        build_owner_reference,
    )
    from kopf_cogs.structs.credentials import (
        AiohttpSession,
        ConnectionInfo,
        Impersonation,
        KubeContext,
        LoginError,
    )
    from kopf_cogs.structs.diffs import Diff, DiffItem, DiffOperation, diff
    from kopf_cogs.structs.patches import Patch
    from kopf_cogs.structs.resources import Resource
    from kopf_cogs.structs.selectors import EVERYTHING, Selector

    __version__: str

__all__ = [
    "EVERYTHING",
    "APIClientError",
    "APIConflictError",
    "APIConnectionError",
    "APIError",
    "APIForbiddenError",
    "APIGoneError",
    "APINotFoundError",
    "APIRedirectError",
    "APIResponseError",
    "APIServerError",
    "APIStatusError",
    "APITooDeepError",
    "APITooManyRequestsError",
    "APIUnauthorizedError",
    "APIUnprocessableError",
    "AiohttpSession",
    "AmbiguousKindError",
    "Body",
    "Client",
    "ConnectionInfo",
    "Diff",
    "DiffItem",
    "DiffOperation",
    "EventSink",
    "Impersonation",
    "Kinds",
    "KubeContext",
    "Listing",
    "LoginError",
    "ObjectsAPI",
    "OperatorSettings",
    "Page",
    "Patch",
    "PatchResult",
    "RawBody",
    "RawEvent",
    "Reflector",
    "Resource",
    "ScanResult",
    "Selector",
    "UnknownKindError",
    "Vault",
    "build_object_reference",
    "build_owner_reference",
    "create_object",
    "diff",
    "list_objects",
    "login_via_async_client",
    "login_via_client",
    "login_via_pykube",
    "login_with_kubeconfig",
    "login_with_service_account",
    "patch_object",
    "post_event",
    "scan",
]

_MODULES = {
    "clients.creating": ["create_object"],
    "clients.discovery": ["ScanResult", "scan"],
    "clients.errors": [name for name in __all__ if name.startswith("API")],
    "clients.events": ["post_event"],
    "clients.incluster": ["login_with_service_account"],
    "clients.kubeconfig": ["login_with_kubeconfig"],
    "clients.kinds": ["AmbiguousKindError", "Kinds", "UnknownKindError"],
    "clients.listing": ["Page", "list_objects"],
    "clients.objects": ["Listing", "ObjectsAPI"],
    "clients.patching": ["PatchResult", "patch_object"],
    "clients.piggyback": ["login_via_async_client", "login_via_client", "login_via_pykube"],
    "clients.reflector": ["EventSink", "Reflector"],
    "clients.session": ["Client"],
    "clients.vault": ["Vault"],
    "configs.settings": ["OperatorSettings"],
    "structs.bodies": [
        "Body",
        "RawBody",
        "RawEvent",
        "build_object_reference",
        "build_owner_reference",
    ],
    "structs.credentials": [
        "AiohttpSession",
        "ConnectionInfo",
        "Impersonation",
        "KubeContext",
        "LoginError",
    ],
    "structs.diffs": ["Diff", "DiffItem", "DiffOperation", "diff"],
    "structs.patches": ["Patch"],
    "structs.resources": ["Resource"],
    "structs.selectors": ["EVERYTHING", "Selector"],
}
_SOURCES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from kopf_cogs.helpers.versions import get_version

        return get_version()
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_SOURCES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
