# Made by `python tools/facade.py` of the table in `__init__.py`: do not edit it.

from kopf import api as api
from kopf import cli as cli
from kopf import lifecycles as lifecycles
from kopf import on as on
from kopf import schema as schema
from kopf import sync_api as sync_api
from kopf import testing as testing
from kopf_cogs.clients.incluster import login_with_service_account
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.piggyback import login_via_async_client, login_via_client, login_via_pykube
from kopf_cogs.configs.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    HashingDiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)
from kopf_cogs.configs.digests import DigestDiffBaseStorage
from kopf_cogs.configs.progress import (
    AnnotationsProgressStorage,
    MultiProgressStorage,
    ProgressRecord,
    ProgressStorage,
    SmartProgressStorage,
    StatusProgressStorage,
)
from kopf_cogs.configs.settings import OperatorSettings
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
from kopf_cogs.structs.credentials import AiohttpSession, ConnectionInfo, Impersonation, LoginError
from kopf_cogs.structs.definitions import resource
from kopf_cogs.structs.dicts import FieldPath, FieldSpec
from kopf_cogs.structs.diffs import Diff, DiffItem, DiffOperation
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.patches import Patch, PatchFn
from kopf_cogs.structs.resources import Resource
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
from kopf_cogs.structs.selectors import EVERYTHING
from kopf_core.actions.conditions import Condition, Conditions
from kopf_core.actions.errors import (
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    TemporaryError,
)
from kopf_core.actions.flushing import flush
from kopf_core.actions.happenings import Happening, trigger
from kopf_core.actions.helpers import content_hash, owner_of
from kopf_core.actions.lifecycles import get_default_lifecycle, set_default_lifecycle
from kopf_core.actions.loggers import AnyLogger as Logger
from kopf_core.actions.loggers import LocalObjectLogger, ObjectLogger
from kopf_core.actions.retrying import ExponentialBackoff
from kopf_core.actions.statuses import update_status
from kopf_core.engines.desired.triggers import Again, Trigger
from kopf_core.engines.posting import event, exception, info, warn
from kopf_core.intents.causes import Reason
from kopf_core.intents.decorators import daemon, index, reconcile, register, subhandler, timer
from kopf_core.intents.families import AsyncWishes, Related, Wishes
from kopf_core.intents.families import Family as Children
from kopf_core.intents.filters import ABSENT, PRESENT, all_, any_, none_, not_
from kopf_core.intents.indices import Index, Store
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
from kopf_core.intents.webhooks import AdmissionError
from kopf_core.reactor.life.clusters import Cluster
from kopf_core.reactor.object.subhandling import execute
from kopf_core.reactor.process.cluster_secrets import KubeconfigSecrets
from kopf_core.reactor.process.running import operator, run, run_tasks, spawn_tasks
from kopf_kits.hierarchies import (
    adjust_namespace,
    adopt,
    append_owner_reference,
    harmonize_naming,
    label,
    remove_owner_reference,
)
from kopf_kits.logs import LogFormat, configure
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

__version__: str
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
    "AsyncWishes",
    "Body",
    "BodyEssence",
    "Children",
    "Cluster",
    "Condition",
    "Conditions",
    "ConnectionInfo",
    "DaemonStopped",
    "DaemonStoppingReason",
    "Diff",
    "DiffBaseStorage",
    "DiffItem",
    "DiffOperation",
    "DigestDiffBaseStorage",
    "ErrorsMode",
    "ExponentialBackoff",
    "FieldPath",
    "FieldSpec",
    "HandlerId",
    "HandlerRetriesError",
    "HandlerTimeoutError",
    "Happening",
    "HashingDiffBaseStorage",
    "Headers",
    "Impersonation",
    "Index",
    "KubeconfigSecrets",
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
    "Related",
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
    "Trigger",
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
    "Wishes",
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
    "flush",
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
    "resource",
    "run",
    "run_tasks",
    "schema",
    "set_default_lifecycle",
    "set_default_registry",
    "spawn_tasks",
    "subhandler",
    "sync_api",
    "timer",
    "trigger",
    "update_status",
    "warn",
]
