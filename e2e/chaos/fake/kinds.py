"""The kinds of objects that the fake API serves, and how discovery tells of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

GROUP = "chaos.kopf.dev"

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of objects, in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = False
    """Whether the status is a subresource."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str]:
        """What the objects are stored by: they are the same in all versions of the kind."""
        return self.group, self.plural

    def describe(self) -> Iterable[Json]:
        """How it goes in the list of resources of its API version."""
        named = {"name": self.plural, "singularName": self.kind.lower(), "kind": self.kind}
        yield {**named, "namespaced": self.namespaced, "verbs": _VERBS}
        if self.has_status:
            sub = {"name": f"{self.plural}/status", "singularName": "", "kind": self.kind}
            yield {**sub, "namespaced": self.namespaced, "verbs": ["get", "patch", "update"]}

    def define(self) -> Json:
        """The definition of the kind, as far as operators look at it."""
        names = {"plural": self.plural, "kind": self.kind, "singular": self.kind.lower()}
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": self.version, "served": True, "storage": True}
        subresources: Json = {"status": {}} if self.has_status else {}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{self.group}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "names": names,
                "versions": [
                    {
                        **version,
                        "schema": {"openAPIV3Schema": schema},
                        "subresources": subresources,
                    }
                ],
            },
            "status": {
                "acceptedNames": names,
                "conditions": [{"type": "Established", "status": "True"}],
                "storedVersions": [self.version],
            },
        }


NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False, has_status=True)
EVENTS = Kind("", "v1", "events", "Event")
CRDS = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    has_status=True,
)
BUILTINS = (NAMESPACES, EVENTS, CRDS)

KEX = Kind(GROUP, "v1", "kexes", "Kex")
"""The usual victim of the tests; its status is a part of the object."""

VEX = Kind(GROUP, "v1", "vexes", "Vex")
"""Another one, to see that others are not affected."""


def discover(kinds: Collection[Kind], path: str) -> Json | None:
    """The document of discovery at the path, or nothing if it is not about discovery."""
    match path.strip("/").split("/"):
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            groups = sorted({kind.group for kind in kinds if kind.group})
            described = [_describe_group(kinds, group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": described}
        case ["apis", group] if any(kind.group == group for kind in kinds):
            return {"apiVersion": "v1", **_describe_group(kinds, group)}
        case ["api", version]:
            return _describe_version(kinds, "", version)
        case ["apis", group, version]:
            return _describe_version(kinds, group, version)
        case ["version"]:
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.0-chaos"}
    return None


def _describe_group(kinds: Collection[Kind], group: str) -> Json:
    names = sorted({kind.version for kind in kinds if kind.group == group}, reverse=True)
    versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in names]
    return {
        "kind": "APIGroup",
        "name": group,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def _describe_version(kinds: Collection[Kind], group: str, version: str) -> Json | None:
    found = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not found:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [item for kind in found for item in kind.describe()],
    }
