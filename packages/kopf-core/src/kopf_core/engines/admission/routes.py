"""Routes: which URL leads to which handler; and the names of webhooks."""

import hashlib
import re
import urllib.parse
from collections.abc import Collection, Container, Iterable, Mapping

from kopf_cogs.structs.reviews import UnknownWebhookError
from kopf_core.intents.webhooks import WebhookHandler

MAX_NAME = 253
"""In characters: as for all names in Kubernetes."""

_IMPOSSIBLE = re.compile(r"[^a-z0-9.-]")
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SEGMENT = re.compile(rf"{_LABEL}(\.{_LABEL})*")
"""The permitted text between slashes in the path of a service: a subdomain of RFC 1123."""


class Routes:
    """The handlers by the paths of their URLs.

    A path is the id of the handler. If several handlers have the same id, each also has its own
    path. If the API does not permit an id in the paths of services, the handler has another path
    for services. Kopf only compares the paths: they never lead to anything else.
    """

    def __init__(self, handlers: Collection[WebhookHandler]) -> None:
        self._all = tuple(handlers)
        self._found: dict[str, tuple[WebhookHandler, ...]] = {}
        self._paths: dict[WebhookHandler, str] = {}
        self._service_paths: dict[WebhookHandler, str] = {}
        for handler in handlers:
            self._found[handler.id] = (*self._found.get(handler.id, ()), handler)
        for handler in handlers:
            self._add_own_path(handler)
        for handler in handlers:
            self._add_service_path(handler)

    def _add_own_path(self, handler: WebhookHandler) -> None:
        path = str(handler.id)
        if len(self._found[path]) > 1:
            path = make_unique(f"{path}/{handler.type.value}", self._found, "/")
            self._found[path] = (handler,)
        self._paths[handler] = path

    def _add_service_path(self, handler: WebhookHandler) -> None:
        path = self._paths[handler]
        if not all(map(_SEGMENT.fullmatch, path.split("/"))):
            base = _make_base(path, MAX_NAME - len(".999"))
            path = make_unique(base, self._found, ".")
            self._found[path] = (handler,)
        self._service_paths[handler] = path

    def select(self, webhook: str | None) -> tuple[WebhookHandler, ...]:
        """Select the handlers of the path; all handlers if there is no path.

        Raises :class:`UnknownWebhookError` if the path leads nowhere.
        """
        path = (webhook or "").strip("/")
        if not path:
            return self._all
        found = self._found.get(path) or self._found.get(urllib.parse.unquote(path))
        if found is None:
            raise UnknownWebhookError("There is no such webhook.")
        return found

    def get_path(self, handler: WebhookHandler) -> str:
        """The path of this handler only: without a slash before it, and safe for URLs."""
        return urllib.parse.quote(self._paths[handler])

    def get_service_path(self, handler: WebhookHandler) -> str:
        """The path for a service: the API permits fewer characters there, e.g. no underscores."""
        return self._service_paths[handler]


def make_unique(text: str, taken: Container[str], separator: str) -> str:
    """Return the text; if it is taken, with a number after it."""
    result, number = text, 1
    while result in taken:
        number += 1
        result = f"{text}{separator}{number}"
    return result


def make_names(handlers: Iterable[WebhookHandler], suffix: str) -> Mapping[WebhookHandler, str]:
    """Make the names of webhooks: unique and valid domain names, all with the same ending."""
    bases: dict[str, WebhookHandler] = {}
    for handler in handlers:
        base = _make_base(handler.id, MAX_NAME - len(f".999.{suffix}"))
        bases[make_unique(base, bases, ".")] = handler
    return {handler: f"{base}.{suffix}" for base, handler in bases.items()}


def _make_base(id: str, limit: int) -> str:
    text = id.replace("/", ".").replace("_", "-").lower()
    text = _IMPOSSIBLE.sub(lambda match: match[0].encode("utf-8", "replace").hex(), text)
    name = ".".join(label for label in (part.strip("-") for part in text.split(".")) if label)
    if name and len(name) <= limit:
        return name
    digest = hashlib.md5(id.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    return f"webhook-{digest}"
