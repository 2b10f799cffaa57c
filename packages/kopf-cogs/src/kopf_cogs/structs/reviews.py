"""Admission reviews: the questions of the API to the webhooks, and their answers."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Protocol, TypedDict

from kopf_cogs.structs.bodies import RawBody

Headers = Mapping[str, str]
"""The HTTP headers of the admission request."""

SSLPeer = Mapping[str, Any]
"""The client's certificate in the format of ``ssl.SSLSocket.getpeercert()``; empty if none."""

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
"""The operation on the object."""


class UserInfo(TypedDict, total=False):
    """The user who requests this change of the object."""

    username: str
    uid: str
    groups: list[str]
    extra: dict[str, list[str]]


class RequestKind(TypedDict):
    """The object's kind as in its body."""

    group: str
    version: str
    kind: str


class RequestResource(TypedDict):
    """The object's resource as in URLs."""

    group: str
    version: str
    resource: str


class RequestPayload(TypedDict, total=False):
    """The request itself: who does what to which object."""

    uid: str
    kind: RequestKind
    resource: RequestResource
    requestKind: RequestKind
    requestResource: RequestResource
    requestSubResource: str | None
    subResource: str | None
    name: str
    namespace: str | None
    operation: Operation
    options: dict[str, Any] | None
    userInfo: UserInfo
    object: RawBody | None
    oldObject: RawBody | None
    dryRun: bool


class Request(TypedDict):
    """An admission review as sent by the API."""

    apiVersion: str
    kind: str
    request: RequestPayload


class ResponseStatus(TypedDict, total=False):
    """The reason of the rejection, shown to the user."""

    code: int
    message: str


class ResponsePayload(TypedDict, total=False):
    """The decision itself: whether the object is allowed and how it is changed."""

    uid: str
    allowed: bool
    warnings: list[str]
    status: ResponseStatus
    patchType: Literal["JSONPatch"]
    patch: str


class Response(TypedDict):
    """An admission review as responded to the API."""

    apiVersion: str
    kind: str
    response: ResponsePayload


class WebhookClientConfigService(TypedDict, total=False):
    """A reference to the service which leads to the webhook server in the cluster."""

    namespace: str | None
    name: str | None
    path: str | None
    port: int | None


class WebhookClientConfig(TypedDict, total=False):
    """The address of the webhook server for the API server: either a URL or a service.

    ``caBundle`` is base64-encoded PEM, with which the server's certificate is verified.
    """

    caBundle: str | None
    url: str | None
    service: WebhookClientConfigService | None


class ReviewError(ValueError):
    """The request is not a review that can be answered: the mistake is on the sender's side.

    Webhook servers respond with the HTTP ``status`` and the text of the error: it is one line,
    and has nothing that the sender does not know already.
    """

    status = 400


class UnknownWebhookError(ReviewError):
    """There is no webhook with this id, or the resource in the review is not known."""

    status = 404


class WebhookFn(Protocol):
    """The framework's function which webhook servers call for every admission request.

    ``request`` is the parsed JSON of the body, of whatever type and contents it has come.
    ``webhook`` is the id of the only handler to call: the part of the URL after the path
    of the server, URL-decoded or not. Without it, all the handlers that match are called.

    Raises ``ReviewError`` if there is nothing to answer to. The failures of handlers
    are in the response.
    """

    async def __call__(
        self,
        request: Request,
        *,
        webhook: str | None = None,
        headers: Mapping[str, str] | None = None,
        sslpeer: Mapping[str, Any] | None = None,
    ) -> Response: ...


class WebhookServerProtocol(Protocol):
    """A webhook server or tunnel: an async generator of its own client configs.

    It serves until it is closed, and yields a new config when the address changes.
    """

    def __call__(self, fn: WebhookFn, /) -> AsyncIterator[WebhookClientConfig]: ...
