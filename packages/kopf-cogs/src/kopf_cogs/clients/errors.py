"""The errors of the API client, all in one tree::

    APIError                        anything that went wrong with a request
     ├── APIConnectionError         no reply: network, TLS, timeouts; see ``__cause__``
     ├── APIResponseError           a successful reply that cannot be understood: cut, not JSON
     │    ├── APITooDeepError       the reply is JSON, but it is nested too deep to be held
     │    └── APIPatchReplyError    such a reply to a patch, which the server has done nevertheless
     └── APIStatusError             a reply with an error status, or an ERROR event of a watch
          ├── APIRedirectError      3xx: not followed, as credentials must stay with the server
          ├── APIClientError        4xx
          │    ├── APIUnauthorizedError     401
          │    ├── APIForbiddenError        403
          │    ├── APINotFoundError         404
          │    ├── APIConflictError         409
          │    ├── APIGoneError             410
          │    ├── APIUnprocessableError    422
          │    └── APITooManyRequestsError  429
          └── APIServerError        5xx

Their texts are for logs: one line with the essence, no secrets, no tracebacks needed.
"""

import re
import ssl
from collections.abc import Mapping
from typing import Any, Self

import aiohttp

from kopf_cogs.helpers import jsons
from kopf_cogs.helpers.hints import HintedError

MAX_ERROR_BODY = 64 * 1024
"""How much of an error's body is read at most, in bytes. Real errors are much smaller."""

MAX_MESSAGE = 1024
"""How long is the message of an error at most, in characters."""


class APIError(Exception):
    """A request to the API has failed."""

    expected = True
    """The text says it all: there is nothing to look for in the traceback."""

    is_temporary = False
    """It can go away by itself, so it is worth to try again with nothing changed."""

    is_repeated = False
    """The same request was sent before, and maybe executed: its reply was lost or senseless."""


class APIConnectionError(APIError):
    """There was no reply: the network, TLS, or a timeout. The original error is the cause."""

    is_temporary = True


class APIResponseError(APIError):
    """The reply is successful by its status, but its content cannot be understood."""


class APITooDeepError(APIResponseError):
    """The reply is nested too deep to be held as an object; ``body`` has it as it came."""

    def __init__(self, body: bytes) -> None:
        super().__init__("the response is nested too deep")
        self.body = body


class APIPatchReplyError(APIResponseError):
    """The patch has succeeded by its status: it is not repeated, but the object can be read."""


class APIStatusError(APIError):
    """The API server has refused or failed to do what was requested."""

    def __init__(
        self,
        payload: Mapping[str, Any] | None = None,
        *,
        status: int,
        message: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        self._payload = payload if isinstance(payload, Mapping) else {}
        self._status = status
        self._retry_after = retry_after
        self._message = message
        super().__init__(self._describe())

    def _describe(self) -> str:
        prefix = f"{self.status} {self.reason}" if self.reason else f"{self.status}"
        return f"{prefix}: {self.message}" if self.message else prefix

    def without_quotes(self) -> Self:
        """The same error with no explanation, as that can quote what was sent, e.g. a secret."""
        payload = {"code": self.code, "reason": self.reason}
        message = "the explanation is hidden, as it can quote the secret"
        return type(self)(
            payload, status=self.status, message=message, retry_after=self.retry_after
        )

    @property
    def is_of_content(self) -> bool:
        """Whether the server refuses the content of the request, from any client at any time."""
        return self.status in (400, 422) or isinstance(self, APIUnprocessableError)

    def about(self, subject: str) -> Self:
        """The same error with a message which says what it is about."""
        payload = {**self._payload, "message": f"{subject}: {self.message or 'no explanation'}"}
        error = type(self)(payload, status=self.status, retry_after=self.retry_after)
        error.is_repeated = self.is_repeated
        return error

    @property
    def status(self) -> int:
        """The status of the HTTP response, or the code of the ERROR event (500 if absent)."""
        return self._status

    @property
    def code(self) -> int:
        """The code in the payload; usually, the same as the status of the response."""
        code = self._payload.get("code")
        return code if isinstance(code, int) and not isinstance(code, bool) else self._status

    @property
    def message(self) -> str | None:
        """The explanation for humans, as given by the server (but shortened if it is too long)."""
        message = self._payload.get("message")
        text = message if isinstance(message, str) and message else self._message
        return text if text is None or len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "..."

    @property
    def reason(self) -> str | None:
        """The machine-readable reason in CamelCase, e.g. ``AlreadyExists`` or ``Expired``."""
        reason = self._payload.get("reason")
        return reason if isinstance(reason, str) and reason else None

    @property
    def details(self) -> Mapping[str, Any]:
        """The details of the Kubernetes status: ``kind``, ``name``, ``causes``, and so on."""
        details = self._payload.get("details")
        return details if isinstance(details, Mapping) else {}

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        """The individual reasons from the details, usually with ``reason, message, field``."""
        causes = self.details.get("causes")
        return [c for c in causes if isinstance(c, Mapping)] if isinstance(causes, list) else []

    @property
    def retry_after(self) -> str | None:
        """When the server asks to come back: the raw header, or the seconds from the details."""
        if self._retry_after is not None:
            return self._retry_after
        seconds = self.details.get("retryAfterSeconds")
        return str(seconds) if isinstance(seconds, int) and seconds > 0 else None


class APIRedirectError(APIStatusError):
    """The server redirects elsewhere (3xx). It is followed only within the server (307, 308)."""


class APIClientError(APIStatusError):
    """The request is wrong (4xx); or the object is too large to be stored (500, regrettably)."""


class APIUnauthorizedError(APIClientError):
    """The credentials are absent, wrong, or expired (401)."""


class APIForbiddenError(APIClientError, HintedError):
    """The credentials are good, but the permissions are not sufficient (403)."""


class APINotFoundError(APIClientError):
    """There is no such object, kind, or URL (404)."""

    def names(self, name: str) -> bool:
        """Whether it is said of the object of that name.

        Otherwise, it is not known whether there is one: e.g. the kind is not served yet by one of
        several servers, or a proxy knows nothing of the API.
        """
        return self.details.get("name") == name


class APIConflictError(APIClientError):
    """The object exists already, or it has been changed concurrently (409)."""

    is_temporary = True


class APIGoneError(APIClientError):
    """The resource version or the continuation token is too old (410): time to start anew."""

    is_temporary = True

    @property
    def continuation(self) -> str | None:
        """The token for the rest of the list as it is now, if the server offers that."""
        metadata = self._payload.get("metadata")
        token = metadata.get("continue") if isinstance(metadata, Mapping) else None
        return token if isinstance(token, str) and token else None


class APIUnprocessableError(APIClientError):
    """The object or the patch is not valid, or a test in a JSON patch has failed (422).

    Also a server-side apply of fields or values that are not in the schema (500, regrettably).
    """


class APITooManyRequestsError(APIClientError):
    """The server asks to slow down (429)."""

    is_temporary = True


class APIServerError(APIStatusError):
    """The server, or a proxy on the way to it, cannot serve the request (5xx)."""

    is_temporary = True


_CLASSES: Mapping[int, type[APIStatusError]] = {
    401: APIUnauthorizedError,
    403: APIForbiddenError,
    404: APINotFoundError,
    409: APIConflictError,
    410: APIGoneError,
    422: APIUnprocessableError,
    429: APITooManyRequestsError,
}

_MISNAMED: Mapping[re.Pattern[str], type[APIClientError]] = {
    # Such objects can never be applied; the rest of the message can quote any part of them.
    re.compile(
        r"(Internal error occurred: )?"
        r"(failed to create typed (patch|live) object|failed to convert new object"
        r"|unable to convert unstructured object)"
    ): APIUnprocessableError,
    # Such objects can never be stored: the storage limits objects more than requests.
    # The texts come from etcd or from its client, maybe quoted by the servers in between.
    re.compile(
        r"(.*(: | = ))?(etcdserver: request is too large|trying to send message larger than max)"
    ): APIClientError,
}
"""The messages of the server, with the status 500, for requests that always fail the same."""


def make_status_error(
    payload: object,
    *,
    status: int | None = None,
    message: str | None = None,
    retry_after: str | None = None,
) -> APIStatusError:
    """Make an error of the proper class for a status: of a response or of an ERROR event.

    Without the HTTP status, the code of the payload is used; without both, it is 500.
    """
    data = payload if isinstance(payload, Mapping) else {}
    code = data.get("code")
    if status is None:
        status = code if isinstance(code, int) and code >= 300 else 500
    cls = _choose_class(status, data)
    return cls(data, status=status, message=message, retry_after=retry_after)


def _choose_class(status: int, payload: Mapping[str, Any]) -> type[APIStatusError]:
    if status in _CLASSES:
        return _CLASSES[status]
    if status >= 500:
        message = str(payload.get("message"))
        names = (cls for pattern, cls in _MISNAMED.items() if pattern.match(message))
        return next(names, APIServerError)
    if status >= 400:
        return APIClientError
    return APIRedirectError if status >= 300 else APIStatusError


async def parse_status_error(response: aiohttp.ClientResponse) -> APIStatusError:
    """Convert the error response to an error to be raised. Reads not more than 64 KiB of its body.

    The bodies that are not Kubernetes statuses (e.g. HTML pages of proxies) are not quoted.
    """
    payload = _parse_body(await _read_body(response))
    message = None if payload else response.reason or None
    if 300 <= response.status < 400:
        message = "redirected elsewhere; redirects are not followed"
        payload = None
    return make_status_error(
        payload,
        status=response.status,
        message=message,
        retry_after=response.headers.get("Retry-After"),
    )


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        while size <= MAX_ERROR_BODY:
            chunk = await response.content.readany()
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
        else:
            response.close()  # the rest of the body is useless, but on its way
    except (aiohttp.ClientError, OSError, TimeoutError):
        pass  # the status is known already, and it is more important than the body
    return b"".join(chunks)[:MAX_ERROR_BODY]


def _parse_body(body: bytes) -> Mapping[str, Any] | None:
    try:
        payload = jsons.loads(body)
    except ValueError:
        return None
    return payload if isinstance(payload, Mapping) else None


# The configuration of TLS, which aiohttp puts into the texts of its errors.
_INTERNALS = re.compile(r" ssl:(default|True|False|<[^>]*>)")

_CREDENTIALS_IN_URLS = re.compile(r"//[^/@\s]+@")


def hide_credentials(text: str) -> str:
    """The text with no users and passwords in its URLs."""
    return _CREDENTIALS_IN_URLS.sub("//***@", text)


def make_connection_error(exc: BaseException) -> APIConnectionError:
    """Wrap a network error with a text that is never empty; raise it ``from`` the original."""
    text = str(exc)
    if isinstance(exc, TimeoutError):
        text = f"the request has timed out ({text})" if text else "the request has timed out"
    elif isinstance(exc, aiohttp.ClientPayloadError):  # its text looks as if it was HTTP 400
        text = "the response is cut, or broken on its way"
    text = hide_credentials(text or type(exc).__name__)
    text = _INTERNALS.sub("", text)
    return APIConnectionError(text[:MAX_MESSAGE])


def is_distrust(exc: BaseException) -> bool:
    """Whether TLS has failed: one of the sides does not accept the certificate of the other."""
    if isinstance(exc, aiohttp.ClientSSLError):  # before 3.13, some of these have no cause
        return True
    cause = exc.os_error if isinstance(exc, aiohttp.ClientConnectorError) else exc
    return isinstance(cause, ssl.SSLError | ssl.CertificateError)
