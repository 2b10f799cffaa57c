"""
Kopf: write a Kubernetes operator in a few decorated functions.

This package is the facade: everything that operators need is here, and nothing else is.
The names are loaded when first used: an operator that only reacts to changes does not pay
for web servers, and ``import kopf`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kopf import api, lifecycles, on, sync_api
    from kopf_cogs.clients.incluster import (
        login_with_service_account,
    )
    from kopf_cogs.clients.kubeconfig import (
        login_with_kubeconfig,
    )
    from kopf_cogs.clients.piggyback import (
        login_via_async_client,
        login_via_client,
        login_via_pykube,
    )
    from kopf_cogs.configs.diffbase import (
        AnnotationsDiffBaseStorage,
        DiffBaseStorage,
        HashingDiffBaseStorage,
        MultiDiffBaseStorage,
        StatusDiffBaseStorage,
    )
    from kopf_cogs.configs.progress import (
        AnnotationsProgressStorage,
        MultiProgressStorage,
        ProgressRecord,
        ProgressStorage,
        SmartProgressStorage,
        StatusProgressStorage,
    )
    from kopf_cogs.configs.settings import (
        OperatorSettings,
    )
    from kopf_cogs.structs.bodies import (
        Annotations,
        Body,
        BodyEssence,
        Labels,
        Meta,
        ObjectReference,
        OwnerReference,
        RawBody,
        RawEvent,
        RawEventType,
        Spec,
        Status,
        build_object_reference,
        build_owner_reference,
    )
    from kopf_cogs.structs.credentials import (
        AiohttpSession,
        ConnectionInfo,
        Impersonation,
        LoginError,
    )
    from kopf_cogs.structs.dicts import (
        FieldPath,
        FieldSpec,
    )
    from kopf_cogs.structs.diffs import (
        Diff,
        DiffItem,
        DiffOperation,
    )
    from kopf_cogs.structs.ids import (
        HandlerId,
    )
    from kopf_cogs.structs.memos import (
        Memo,
    )
    from kopf_cogs.structs.patches import (
        Patch,
        PatchFn,
    )
    from kopf_cogs.structs.resources import (
        Resource,
    )
    from kopf_cogs.structs.reviews import (
        Headers,
        Operation,
        SSLPeer,
        UserInfo,
        WebhookClientConfig,
        WebhookClientConfigService,
        WebhookFn,
        WebhookServerProtocol,
    )
    from kopf_cogs.structs.selectors import (
        EVERYTHING,
    )
    from kopf_core.actions.errors import (
        ErrorsMode,
        HandlerRetriesError,
        HandlerTimeoutError,
        PermanentError,
        TemporaryError,
    )
    from kopf_core.actions.helpers import (
        content_hash,
        owner_of,
    )
    from kopf_core.actions.lifecycles import (
        get_default_lifecycle,
        set_default_lifecycle,
    )
    from kopf_core.actions.loggers import (
        AnyLogger as Logger,
    )
    from kopf_core.actions.loggers import (
        LocalObjectLogger,
        ObjectLogger,
    )
    from kopf_core.actions.retrying import (
        ExponentialBackoff,
    )
    from kopf_core.engines.desired import (
        Again,
    )
    from kopf_core.engines.posting import (
        event,
        exception,
        info,
        warn,
    )
    from kopf_core.intents.admission import (
        AdmissionError,
    )
    from kopf_core.intents.causes import (
        Reason,
    )
    from kopf_core.intents.decorators import (
        daemon,
        index,
        reconcile,
        register,
        subhandler,
        timer,
    )
    from kopf_core.intents.filters import (
        ABSENT,
        PRESENT,
        all_,
        any_,
        none_,
        not_,
    )
    from kopf_core.intents.indices import (
        Index,
        Store,
    )
    from kopf_core.intents.registries import (
        OperatorRegistry,
        get_default_registry,
        set_default_registry,
    )
    from kopf_core.intents.stoppers import (
        AsyncDaemonStopperChecker,
        DaemonStopped,
        DaemonStoppingReason,
        SyncDaemonStopperChecker,
    )
    from kopf_core.reactor.running import (
        operator,
        run,
        run_tasks,
        spawn_tasks,
    )
    from kopf_core.reactor.subhandling import (
        execute,
    )
    from kopf_kits.hierarchies import (
        adjust_namespace,
        adopt,
        append_owner_reference,
        harmonize_naming,
        label,
        remove_owner_reference,
    )
    from kopf_kits.logs import (
        LogFormat,
        configure,
    )
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
    "ABSENT",
    "EVERYTHING",
    "PRESENT",
    "AdmissionError",
    "Again",
    "AiohttpSession",
    "Annotations",
    "AnnotationsDiffBaseStorage",
    "AnnotationsProgressStorage",
    "AsyncDaemonStopperChecker",
    "Body",
    "BodyEssence",
    "ConnectionInfo",
    "DaemonStopped",
    "DaemonStoppingReason",
    "Diff",
    "DiffBaseStorage",
    "DiffItem",
    "DiffOperation",
    "ErrorsMode",
    "ExponentialBackoff",
    "FieldPath",
    "FieldSpec",
    "HandlerId",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "HashingDiffBaseStorage",
    "Headers",
    "Impersonation",
    "Index",
    "Labels",
    "LocalObjectLogger",
    "LogFormat",
    "Logger",
    "LoginError",
    "Memo",
    "Meta",
    "MultiDiffBaseStorage",
    "MultiProgressStorage",
    "ObjectLogger",
    "ObjectReference",
    "Operation",
    "OperatorRegistry",
    "OperatorSettings",
    "OwnerReference",
    "Patch",
    "PatchFn",
    "PermanentError",
    "ProgressRecord",
    "ProgressStorage",
    "RawBody",
    "RawEvent",
    "RawEventType",
    "Reason",
    "Resource",
    "SSLPeer",
    "SmartProgressStorage",
    "Spec",
    "Status",
    "StatusDiffBaseStorage",
    "StatusProgressStorage",
    "Store",
    "SyncDaemonStopperChecker",
    "TemporaryError",
    "UserInfo",
    "WebhookAutoServer",
    "WebhookAutoTunnel",
    "WebhookClientConfig",
    "WebhookClientConfigService",
    "WebhookDockerDesktopServer",
    "WebhookFn",
    "WebhookK3dServer",
    "WebhookMinikubeServer",
    "WebhookNgrokTunnel",
    "WebhookServer",
    "WebhookServerProtocol",
    "WebhookServiceServer",
    "adjust_namespace",
    "adopt",
    "all_",
    "any_",
    "api",
    "append_owner_reference",
    "build_object_reference",
    "build_owner_reference",
    "configure",
    "content_hash",
    "daemon",
    "event",
    "exception",
    "execute",
    "get_default_lifecycle",
    "get_default_registry",
    "harmonize_naming",
    "index",
    "info",
    "label",
    "lifecycles",
    "login_via_async_client",
    "login_via_client",
    "login_via_pykube",
    "login_with_kubeconfig",
    "login_with_service_account",
    "none_",
    "not_",
    "on",
    "operator",
    "owner_of",
    "reconcile",
    "register",
    "remove_owner_reference",
    "run",
    "run_tasks",
    "set_default_lifecycle",
    "set_default_registry",
    "spawn_tasks",
    "subhandler",
    "sync_api",
    "timer",
    "warn",
]

# Where the names are defined. The same is above for type checkers; a test keeps them equal.
_SOURCES = {
    "kopf_cogs.clients.incluster": ("login_with_service_account",),
    "kopf_cogs.clients.kubeconfig": ("login_with_kubeconfig",),
    "kopf_cogs.clients.piggyback": (
        "login_via_async_client",
        "login_via_client",
        "login_via_pykube",
    ),
    "kopf_cogs.configs.diffbase": (
        "AnnotationsDiffBaseStorage",
        "DiffBaseStorage",
        "HashingDiffBaseStorage",
        "MultiDiffBaseStorage",
        "StatusDiffBaseStorage",
    ),
    "kopf_cogs.configs.progress": (
        "AnnotationsProgressStorage",
        "MultiProgressStorage",
        "ProgressRecord",
        "ProgressStorage",
        "SmartProgressStorage",
        "StatusProgressStorage",
    ),
    "kopf_cogs.configs.settings": ("OperatorSettings",),
    "kopf_cogs.structs.bodies": (
        "Annotations",
        "Body",
        "BodyEssence",
        "build_object_reference",
        "build_owner_reference",
        "Labels",
        "Meta",
        "ObjectReference",
        "OwnerReference",
        "RawBody",
        "RawEvent",
        "RawEventType",
        "Spec",
        "Status",
    ),
    "kopf_cogs.structs.credentials": (
        "AiohttpSession",
        "ConnectionInfo",
        "Impersonation",
        "LoginError",
    ),
    "kopf_cogs.structs.dicts": (
        "FieldPath",
        "FieldSpec",
    ),
    "kopf_cogs.structs.diffs": (
        "Diff",
        "DiffItem",
        "DiffOperation",
    ),
    "kopf_cogs.structs.ids": ("HandlerId",),
    "kopf_cogs.structs.memos": ("Memo",),
    "kopf_cogs.structs.patches": (
        "Patch",
        "PatchFn",
    ),
    "kopf_cogs.structs.resources": ("Resource",),
    "kopf_cogs.structs.reviews": (
        "Headers",
        "Operation",
        "SSLPeer",
        "UserInfo",
        "WebhookClientConfig",
        "WebhookClientConfigService",
        "WebhookFn",
        "WebhookServerProtocol",
    ),
    "kopf_cogs.structs.selectors": ("EVERYTHING",),
    "kopf_core.actions.errors": (
        "ErrorsMode",
        "HandlerRetriesError",
        "HandlerTimeoutError",
        "PermanentError",
        "TemporaryError",
    ),
    "kopf_core.actions.helpers": (
        "content_hash",
        "owner_of",
    ),
    "kopf_core.actions.lifecycles": (
        "get_default_lifecycle",
        "set_default_lifecycle",
    ),
    "kopf_core.actions.retrying": ("ExponentialBackoff",),
    "kopf_core.actions.loggers": (
        "LocalObjectLogger",
        "Logger",
        "ObjectLogger",
    ),
    "kopf_core.engines.desired": ("Again",),
    "kopf_core.intents.indices": (
        "Index",
        "Store",
    ),
    "kopf_core.engines.posting": (
        "event",
        "exception",
        "info",
        "warn",
    ),
    "kopf_core.intents.admission": ("AdmissionError",),
    "kopf_core.intents.causes": ("Reason",),
    "kopf_core.intents.decorators": (
        "daemon",
        "index",
        "reconcile",
        "register",
        "subhandler",
        "timer",
    ),
    "kopf_core.intents.filters": (
        "ABSENT",
        "all_",
        "any_",
        "none_",
        "not_",
        "PRESENT",
    ),
    "kopf_core.intents.registries": (
        "get_default_registry",
        "OperatorRegistry",
        "set_default_registry",
    ),
    "kopf_core.intents.stoppers": (
        "AsyncDaemonStopperChecker",
        "DaemonStopped",
        "DaemonStoppingReason",
        "SyncDaemonStopperChecker",
    ),
    "kopf_core.reactor.running": (
        "operator",
        "run",
        "run_tasks",
        "spawn_tasks",
    ),
    "kopf_core.reactor.subhandling": ("execute",),
    "kopf_kits.hierarchies": (
        "adjust_namespace",
        "adopt",
        "append_owner_reference",
        "harmonize_naming",
        "label",
        "remove_owner_reference",
    ),
    "kopf_kits.logs": (
        "configure",
        "LogFormat",
    ),
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
_ORIGINALS = {"Logger": "AnyLogger"}  # where the names differ
_SUBMODULES = frozenset({"api", "cli", "lifecycles", "on", "sync_api", "testing"})


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__version__":
        value: Any = importlib.import_module("kopf_cogs.helpers.versions").get_version()
    elif name in _MODULES:
        module = importlib.import_module(_MODULES[name])
        value = getattr(module, _ORIGINALS.get(name, name))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
