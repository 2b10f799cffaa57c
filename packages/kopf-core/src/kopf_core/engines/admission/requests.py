"""The request in an admission review, parsed and verified."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, cast, get_args

from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.dicts import json_copy
from kopf_cogs.structs.reviews import Operation, ReviewError, UserInfo

API_VERSION = "admission.k8s.io/v1"
OPERATIONS = frozenset(get_args(Operation))

_NOTHING: Mapping[str, Any] = {}

ResourceId = tuple[str, str, str]
"""The API group, the version, and the plural name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """A request to the API that is judged, in the version of the webhook's resource."""

    uid: str
    api_version: str
    """The version of the review itself, to be repeated in the response."""

    resource: ResourceId
    subresource: str | None
    operation: Operation | None
    dryrun: bool
    userinfo: UserInfo
    old: RawBody | None
    new: RawBody | None

    @property
    def body(self) -> RawBody:
        """The object after the request, or the deleted object."""
        body = self.new if self.new is not None else self.old
        assert body is not None, "It is verified when parsed."
        return body


def parse_review(review: object) -> ReviewRequest:
    """Parse an admission review from any mappings: users can have servers of their own.

    Raises :class:`ReviewError` if it is not a review.
    """
    review = _as_dict(review)
    asked = _as_dict(review.get("request")) if isinstance(review, dict) else None
    if not isinstance(review, dict) or not isinstance(asked, dict):
        raise ReviewError("It is not an admission review: there is no request in it.")
    # API servers send all fields of the request. People and their scripts do not.
    request = {**review, **asked}
    new, old = _get_object(request, "object"), _get_object(request, "oldObject")
    if new is None and old is None:
        raise ReviewError("Either old or new object is missing from the admission request.")
    userinfo = request.get("userInfo")
    if not isinstance(userinfo, Mapping):
        raise ReviewError("User info is missing from the admission request.")
    return ReviewRequest(
        uid=_get_text(request, "uid") or "",
        api_version=_get_text(review, "apiVersion") or API_VERSION,
        resource=_get_resource(request),
        subresource=_get_text(request, "subResource"),
        operation=_get_operation(request),
        dryrun=bool(request.get("dryRun")),
        userinfo=cast(UserInfo, userinfo),
        old=old,
        new=new,
    )


def _as_dict(value: object) -> Any:
    """Convert all mappings to dictionaries, which later code needs."""
    return value if type(value) is dict or not isinstance(value, Mapping) else json_copy(value)


def _get_text(source: Mapping[str, Any], key: str) -> str | None:
    value = source.get(key)
    if value is not None and not isinstance(value, str):
        raise ReviewError(f"The field {key!r} of the admission request must be a string.")
    return value or None


def _get_operation(request: Mapping[str, Any]) -> Operation | None:
    operation: Any = _get_text(request, "operation")
    if operation is not None and operation not in OPERATIONS:
        raise ReviewError("The operation of the admission request is not known.")
    return operation  # type: ignore[no-any-return]


def _get_resource(request: Mapping[str, Any]) -> ResourceId:
    found = request.get("resource")
    resource = found if isinstance(found, Mapping) else _NOTHING
    group, version = resource.get("group"), resource.get("version")
    plural = resource.get("resource")
    if not isinstance(group, str) or not isinstance(version, str) or not isinstance(plural, str):
        raise ReviewError("The resource is missing from the admission request.")
    return group, version, plural


def _get_object(request: Mapping[str, Any], key: str) -> RawBody | None:
    body = _as_dict(request.get(key))
    if body is None or is_object(body):
        return body
    raise ReviewError(f"The field {key!r} of the admission request is not an object.")


def is_object(body: object) -> TypeGuard[RawBody]:
    """Whether the object can be handled or converted: it has the parts that all code needs."""
    if not isinstance(body, dict):
        return False
    meta = body.get("metadata")
    if meta is None:
        return True  # e.g. the options of a connection to a pod
    if not isinstance(meta, dict):
        return False
    for key in ("name", "namespace", "uid"):
        if not isinstance(meta.get(key), str | None):
            return False
    return _is_texts(meta.get("labels")) and _is_texts(meta.get("annotations"))


def _is_texts(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and {*map(type, value.values())} <= {str}
