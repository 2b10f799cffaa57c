"""Addresses: which object, or which objects, a request is about, as its URL says."""

import re
import urllib.parse
from typing import NamedTuple

_PATH = re.compile(
    r"^(?P<root>/api/[^/]+|/apis/[^/]+/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/(?!(?:status|finalize)$)))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?$"
)

_REVIEWS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
"""What is posted there is a question, and nothing is ever stored."""


class ObjectKey(NamedTuple):
    """One object of the cluster; of one version of its kind."""

    collection: str
    """Of all namespaces: such as ``/apis/apps/v1/deployments``."""

    namespace: str | None
    name: str


class Address(NamedTuple):
    """What the URL of a request means."""

    root: str
    """The API group and its version: such as ``/apis/apps/v1``."""

    plural: str
    namespace: str | None
    name: str | None
    subresource: str | None

    @property
    def collection(self) -> str:
        return f"{self.root}/{self.plural}"

    @property
    def key(self) -> ObjectKey:
        """The object; only if there is the name."""
        return ObjectKey(self.collection, self.namespace, self.name or "")

    @property
    def list_url(self) -> str:
        """Where the objects of the same kind and namespace are listed and created."""
        scope = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{self.root}{scope}/{self.plural}"

    @property
    def url(self) -> str:
        """Where the object itself is."""
        return f"{self.list_url}/{self.name}" if self.name else self.list_url

    def named(self, name: str) -> "Address":
        return self._replace(name=name)


def parse_address(url: str) -> Address | None:
    """Understand the URL; ``None`` if it is not about any objects, or about those never stored."""
    path = urllib.parse.unquote(url.partition("?")[0])
    found = None if path.startswith(_REVIEWS) else _PATH.match(path)
    return None if found is None else Address(**found.groupdict())
