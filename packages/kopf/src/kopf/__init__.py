"""Kopf: write a Kubernetes operator in a few decorated functions.

This package is the facade: everything that operators need is here, and nothing else is.
The names are loaded when first used: an operator that only reacts to changes does not pay
for web servers, and ``import kopf`` is quick.

Type checkers and editors see ``__init__.pyi``, which is made of this table by ``tools/facade.py``.
"""

from __future__ import annotations

import importlib

# Where the names are defined.
_SOURCES = {
    "kopf_cogs.clients.incluster": "login_with_service_account",
    "kopf_cogs.clients.kubeconfig": "login_with_kubeconfig",
    "kopf_cogs.clients.piggyback": "login_via_async_client login_via_client login_via_pykube",
    "kopf_cogs.configs.diffbase": (
        "AnnotationsDiffBaseStorage DiffBaseStorage HashingDiffBaseStorage MultiDiffBaseStorage "
        "StatusDiffBaseStorage"
    ),
    "kopf_cogs.configs.digests": "DigestDiffBaseStorage",
    "kopf_cogs.configs.progress": (
        "AnnotationsProgressStorage MultiProgressStorage ProgressRecord ProgressStorage "
        "SmartProgressStorage StatusProgressStorage"
    ),
    "kopf_cogs.configs.settings": "OperatorSettings",
    "kopf_cogs.structs.bodies": (
        "Annotations Body BodyEssence build_object_reference build_owner_reference Labels Meta "
        "ObjectReference OwnerReference RawBody RawEvent RawEventType Spec Status"
    ),
    "kopf_cogs.structs.credentials": "AiohttpSession ConnectionInfo Impersonation LoginError",
    "kopf_cogs.structs.dicts": "FieldPath FieldSpec",
    "kopf_cogs.structs.definitions": "resource",
    "kopf_cogs.structs.diffs": "Diff DiffItem DiffOperation",
    "kopf_cogs.structs.ids": "HandlerId",
    "kopf_cogs.structs.memos": "Memo",
    "kopf_cogs.structs.patches": "Patch PatchFn",
    "kopf_cogs.structs.resources": "Resource",
    "kopf_cogs.structs.reviews": (
        "Headers Operation SSLPeer UserInfo WebhookClientConfig WebhookClientConfigService "
        "WebhookFn WebhookServerProtocol"
    ),
    "kopf_cogs.structs.selectors": "EVERYTHING",
    "kopf_core.actions.conditions": "Condition Conditions",
    "kopf_core.actions.errors": (
        "ErrorsMode HandlerRetriesError HandlerTimeoutError PermanentError TemporaryError"
    ),
    "kopf_core.actions.flushing": "flush",
    "kopf_core.actions.happenings": "Happening trigger",
    "kopf_core.actions.helpers": "content_hash owner_of",
    "kopf_core.actions.lifecycles": "get_default_lifecycle set_default_lifecycle",
    "kopf_core.actions.retrying": "ExponentialBackoff",
    "kopf_core.actions.loggers": "LocalObjectLogger Logger ObjectLogger",
    "kopf_core.actions.statuses": "update_status",
    "kopf_core.intents.indices": "Index Store",
    "kopf_core.engines.desired.triggers": "Again Trigger",
    "kopf_core.engines.posting": "event exception info warn",
    "kopf_core.intents.webhooks": "AdmissionError",
    "kopf_core.intents.causes": "Reason",
    "kopf_core.intents.decorators": "daemon index reconcile register subhandler timer",
    "kopf_core.intents.families": "AsyncWishes Children Related Wishes",
    "kopf_core.intents.filters": "ABSENT all_ any_ none_ not_ PRESENT",
    "kopf_core.intents.registries": "get_default_registry OperatorRegistry set_default_registry",
    "kopf_core.intents.stoppers": (
        "AsyncDaemonStopperChecker DaemonStopped DaemonStoppingReason SyncDaemonStopperChecker"
    ),
    "kopf_core.reactor.process.cluster_secrets": "KubeconfigSecrets",
    "kopf_core.reactor.life.clusters": "Cluster",
    "kopf_core.reactor.process.running": "operator run run_tasks spawn_tasks",
    "kopf_core.reactor.object.subhandling": "execute",
    "kopf_kits.hierarchies": (
        "adjust_namespace adopt append_owner_reference harmonize_naming label "
        "remove_owner_reference"
    ),
    "kopf_kits.logs": "configure LogFormat",
    "kopf_kits.webhooks": (
        "WebhookAutoServer WebhookAutoTunnel WebhookDockerDesktopServer WebhookK3dServer "
        "WebhookMinikubeServer WebhookNgrokTunnel WebhookServer WebhookServiceServer"
    ),
}
_MODULES = {name: module for module, names in _SOURCES.items() for name in names.split()}
_ORIGINALS = {"Children": "Family", "Logger": "AnyLogger"}  # where the names differ
_SUBMODULES = ("api", "lifecycles", "on", "schema", "sync_api")
_OTHER_SUBMODULES = ("cli", "testing")  # for the developers of operators

__all__ = sorted([*_MODULES, *_SUBMODULES])


def __getattr__(name: str) -> object:
    if name in _SUBMODULES or name in _OTHER_SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__version__":
        value: object = importlib.import_module("kopf_cogs.helpers.versions").get_version()
    elif name in _MODULES:
        module = importlib.import_module(_MODULES[name])
        value = getattr(module, _ORIGINALS.get(name, name))
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_suggest(name)}")
    globals()[name] = value
    return value


def _suggest(name: str) -> str:
    """The hint for names such as ``@kopf.create``: these decorators are in ``kopf.on``."""
    known = () if name.startswith("_") else importlib.import_module(f"{__name__}.on").__all__
    return f". Did you mean: '{__name__}.on.{name}'?" if name in known else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
