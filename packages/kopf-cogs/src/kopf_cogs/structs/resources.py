"""Resources: the kinds of objects that the API serves, and their URLs."""

import dataclasses
import re
import urllib.parse
from collections.abc import Mapping
from typing import Final

# The characters that path segments of URLs can have beside letters & digits. Notably, colons
# are common in the names of RBAC objects. Pluses are allowed, too, but are often taken for spaces.
_SAFE: Final = ":@!$&'()*,;="
_NAME: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*")


@dataclasses.dataclass(frozen=True, eq=False, repr=False, slots=True)
class Resource:
    """A very specific kind of objects: built-in or custom, in a specific API version.

    Resources are the same if their group, version, and plural name are the same:
    it is enough for the URLs. All the rest is used for matching and information.
    """

    group: str
    """The API group, e.g. ``kopf.dev`` or ``apps``; an empty string for the core API."""

    version: str
    """The API version, e.g. ``v1`` or ``v1beta1``."""

    plural: str
    """The plural name, e.g. ``pods``; used in URLs."""

    kind: str | None = None
    """The kind as in YAML files, e.g. ``Pod``."""

    singular: str | None = None
    """The singular name, e.g. ``pod``."""

    shortcuts: frozenset[str] = frozenset()
    """The short names, e.g. ``{'po'}``."""

    categories: frozenset[str] = frozenset()
    """The categories that the resource belongs to, e.g. ``{'all'}``."""

    subresources: frozenset[str] = frozenset()
    """The subresources, if any, e.g. ``{'status', 'scale'}``."""

    namespaced: bool | None = None
    """Whether the objects belong to namespaces, or are cluster-scoped; ``None`` if unknown."""

    preferred: bool = True
    """Whether it is the preferred version of the API group, i.e. served if none is specified."""

    verbs: frozenset[str] = frozenset()
    """The verbs of the API, e.g. ``{'list', 'watch', 'patch'}``, permitted or not."""

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resource):
            return NotImplemented
        return (
            self.plural == other.plural
            and self.group == other.group
            and self.version == other.version
        )

    def __repr__(self) -> str:
        return f"{self.plural}.{self.version}.{self.group}".rstrip(".")

    @property
    def patchable(self) -> bool:
        """Whether the objects can be changed.

        While a custom resource definition is being deleted, the discovery does not offer
        to change its objects, but it is still possible: how else could they be released?
        """
        modifying = self.verbs & {"create", "update", "patch"}
        return "patch" in self.verbs or ("delete" in self.verbs and not modifying)

    @property
    def name(self) -> str:
        """The name with the group, as in CRDs and kubectl, e.g. ``deployments.apps``."""
        return f"{self.plural}.{self.group}".rstrip(".")

    @property
    def api_version(self) -> str:
        """The API version as in the objects, e.g. ``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def get_url(
        self,
        *,
        server: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> str:
        """Build a URL: of an object if named, of their list otherwise.

        Without a namespace, the list is of the whole cluster. Without a server,
        the URL is a path only. Names are escaped as needed. The subresource is not verified
        against those known. Parameters go to the query.

        Raises ``ValueError`` if the URL is not possible, e.g. for an object with no namespace.
        """
        self._verify(namespace=namespace, name=name, subresource=subresource)
        parts = [
            "/apis" if self.group else "/api",
            self.group,
            self.version,
            "namespaces" if namespace else "",
            _escape(namespace),
            self.plural,
            _escape(name),
            _escape(subresource),
        ]
        path = "/".join([part for part in parts if part])
        query = f"?{urllib.parse.urlencode(params, encoding='utf-8')}" if params else ""
        return f"{(server or '').rstrip('/')}{path}{query}"

    def _verify(self, *, namespace: str | None, name: str | None, subresource: str | None) -> None:
        if subresource and not name:
            raise ValueError(f"Subresources exist only for named objects, not for all of {self}.")
        if namespace and not self.namespaced:
            raise ValueError(f"Namespaces are not supported for cluster-scoped {self}.")
        if name and self.namespaced and not namespace:
            raise ValueError(f"A namespace is required for named objects of {self}.")


def _escape(name: str | None) -> str:
    # The API forbids such names. But if taken from elsewhere, they could lead to other URLs.
    if not name or _NAME.fullmatch(name):
        return name or ""  # as nearly all names are
    if name in {".", ".."}:
        raise ValueError(f"The name is impossible in Kubernetes: {name!r}")
    return urllib.parse.quote(name, safe=_SAFE)


def _builtin(group: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(group, "v1", f"{kind}s".lower(), kind, kind.lower(), namespaced=namespaced)


EVENTS: Final = _builtin("", "Event", namespaced=True)
NAMESPACES: Final = _builtin("", "Namespace", namespaced=False)
SECRETS: Final = _builtin("", "Secret", namespaced=True)
LEASES: Final = _builtin("coordination.k8s.io", "Lease", namespaced=True)
CRDS: Final = _builtin("apiextensions.k8s.io", "CustomResourceDefinition", namespaced=False)
MUTATING_WEBHOOK: Final = _builtin(
    "admissionregistration.k8s.io", "MutatingWebhookConfiguration", namespaced=False
)
VALIDATING_WEBHOOK: Final = _builtin(
    "admissionregistration.k8s.io", "ValidatingWebhookConfiguration", namespaced=False
)
CLUSTER_PEERINGS: Final = _builtin("kopf.dev", "ClusterKopfPeering", namespaced=False)
NAMESPACED_PEERINGS: Final = _builtin("kopf.dev", "KopfPeering", namespaced=True)
LEGACY_CLUSTER_PEERINGS: Final = _builtin("zalando.org", "ClusterKopfPeering", namespaced=False)
LEGACY_NAMESPACED_PEERINGS: Final = _builtin("zalando.org", "KopfPeering", namespaced=True)
