"""Admission: the handlers that judge requests to the API, and the facts of a request for them."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kopf_cogs.structs.diffs import Diff
from kopf_cogs.structs.reviews import Headers, Operation, SSLPeer, UserInfo
from kopf_core.actions.errors import RejectionError
from kopf_core.actions.loggers import LocalObjectLogger
from kopf_core.intents.causes import ResourceCause
from kopf_core.intents.filters import MetaFilterToken
from kopf_core.intents.handlers import ResourceHandler
from kopf_core.intents.matching import prematches


class AdmissionError(RejectionError):
    """The request is denied: its user gets this message and HTTP code."""

    code: int
    """The HTTP code of the denial."""

    def __init__(self, message: str = "", code: int = 500) -> None:
        super().__init__(message)
        self.code = code


class WebhookType(enum.StrEnum):
    """The rights of the webhook: only to judge the objects, or also to change them."""

    VALIDATING = "validating"
    MUTATING = "mutating"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class WebhookHandler(ResourceHandler):
    """``@kopf.on.validate``, ``@kopf.on.mutate``: called before the object is stored."""

    type: WebhookType
    operations: tuple[Operation, ...] = ()
    """The only operations of its calls; all operations if empty."""

    subresource: str | None = None
    """The only subresource of its calls; ``"*"`` means all of them, and the object itself."""

    persistent: bool = False
    side_effects: bool = False
    ignore_failures: bool = False
    namespace_selector: Mapping[str, Any] | None = None
    match_conditions: tuple[Mapping[str, str], ...] = ()
    timeout_seconds: int | None = None
    match_policy: str | None = None
    reinvocation_policy: str | None = None

    def __str__(self) -> str:
        return f"Webhook {self.id!r}"

    @property
    def requires_patching(self) -> bool:
        return False


class AdmissionCause(ResourceCause):
    """A client is about to create, change, or delete an object: the change is not made yet."""

    __slots__ = (
        "diff",
        "dryrun",
        "headers",
        "new",
        "old",
        "operation",
        "sslpeer",
        "subresource",
        "userinfo",
        "warnings",
    )

    logger_type = LocalObjectLogger

    def __init__(
        self,
        *,
        operation: Operation | None,
        subresource: str | None,
        dryrun: bool,
        userinfo: UserInfo,
        headers: Headers,
        sslpeer: SSLPeer,
        old: Any,
        new: Any,
        diff: Diff,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.operation = operation
        self.subresource = subresource
        self.dryrun = dryrun
        self.userinfo = userinfo
        self.headers = headers
        self.sslpeer = sslpeer
        self.old = old
        self.new = new
        self.diff = diff
        self.warnings: list[str] = []

    def _make_kwargs(self) -> dict[str, Any]:
        kwargs = super()._make_kwargs()
        for name in AdmissionCause.__slots__:
            kwargs[name] = getattr(self, name)
        return kwargs


def is_for_request(
    handler: WebhookHandler,
    operation: Operation | None,
    subresource: str | None,
) -> bool:
    """Whether the handler is for such requests, before its filters check the object.

    An object that is being deleted cannot be changed. So mutating handlers are called for deletions
    only if they name deletions explicitly.
    """
    if handler.subresource not in ("*", subresource):
        return False
    if operation in handler.operations:
        return True
    is_mutated = handler.type is WebhookType.MUTATING
    return not handler.operations and not (is_mutated and operation == "DELETE")


def matches_request(handler: WebhookHandler, cause: AdmissionCause) -> bool:
    """Whether the request calls the handler. Raises :class:`FilterError`."""
    return is_for_request(handler, cause.operation, cause.subresource) and prematches(
        handler, cause
    )


def make_label_selector(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Make a label selector of the API from the filter of labels, without its functions."""
    expressions: list[dict[str, Any]] = []
    for key, value in labels.items():
        if isinstance(value, MetaFilterToken):
            operator = "Exists" if value is MetaFilterToken.PRESENT else "DoesNotExist"
            expressions.append({"key": key, "operator": operator})
        elif not callable(value):
            expressions.append({"key": key, "operator": "In", "values": [value]})
    return {"matchExpressions": expressions} if expressions else {}
