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
"""The APIs of questions: servers answer the posted objects, and never store them."""


class ObjectKey(NamedTuple):
    """One object of the cluster, in one version of its kind."""

    collection: str
    """The URL for all namespaces: such as ``/apis/apps/v1/deployments``."""

    namespace: str | None
    name: str


class Address(NamedTuple):
    """The meaning of the URL of a request."""

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
        """The key of the object; only for addresses with a name."""
        return ObjectKey(self.collection, self.namespace, self.name or "")

    @property
    def list_url(self) -> str:
        """The URL to list and create the objects of the same kind and namespace."""
        scope = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{self.root}{scope}/{self.plural}"

    @property
    def url(self) -> str:
        """The URL of the object itself."""
        return f"{self.list_url}/{self.name}" if self.name else self.list_url

    def named(self, name: str) -> "Address":
        return self._replace(name=name)


def parse_address(url: str) -> Address | None:
    """Parse the URL; ``None`` if it is not about objects, or about objects never stored."""
    path = urllib.parse.unquote(url.partition("?")[0])
    found = None if path.startswith(_REVIEWS) else _PATH.match(path)
    return None if found is None else Address(**found.groupdict())
