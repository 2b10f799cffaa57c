"""Resources that are served, and their registry: by path, and by any name a user may type."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kopf_kits.sandbox.base.nature import Nature
from kopf_kits.sandbox.base.statuses import qualified
from kopf_kits.sandbox.schemas.schemas import Node

from .rules import Rules
from .storage import Store

Convert = Callable[[dict[str, Any]], dict[str, Any]]

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_STAGES = {"alpha": 1, "beta": 2, "": 3}


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a custom resource keeps what its ``scale`` subresource shows."""

    spec_path: str = ".spec.replicas"
    status_path: str = ".status.replicas"
    selector_path: str | None = None


@dataclass(slots=True, eq=False)
class Served:
    """One version of a resource: its schema, subresources, and printed columns."""

    name: str
    compile: Callable[[], Node | None] | None = None
    status: bool = False
    scale: Scale | None = None
    extras: tuple[str, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()
    selectable: tuple[str, ...] = ()
    warning: str | None = None
    encode: Convert | None = None
    """Converts from the stored form to this version, if more than ``apiVersion`` differs."""
    decode: Convert | None = None
    """Converts from this version to the stored form."""
    _schema: Node | None = None

    @property
    def schema(self) -> Node | None:
        """The schema, compiled when it is first needed; none if there is no schema."""
        if self._schema is None and self.compile is not None:
            self._schema = self.compile()
        return self._schema


@dataclass(slots=True, eq=False)
class Resource:
    """A resource: its names, its versions, and its storage. Custom resources come from CRDs."""

    group: str
    plural: str
    kind: str
    namespaced: bool
    store: Store
    versions: dict[str, Served]
    storage_version: str
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    rules: Rules = field(default_factory=Rules)
    custom: bool = False
    terminating: bool = False

    @property
    def qualified(self) -> str:
        return qualified(self.group, self.plural)

    @property
    def offered_verbs(self) -> tuple[str, ...]:
        """The verbs in the discovery; the server patches objects even if it does not offer that."""
        hidden = ("create", "update", "patch") if self.terminating else ()
        return tuple(verb for verb in self.verbs if verb not in hidden)

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """A resource in one of its versions: the target of a request."""

    resource: Resource
    served: Served
    group: str
    """The group of the path: a few resources are served in two groups from one storage."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.served.name}" if self.group else self.served.name

    @property
    def nature(self) -> Nature:
        """The clock and the chance of the cluster."""
        return self.resource.store.versions.nature

    @property
    def view(self) -> str:
        return f"object:{self.group}/{self.served.name}"

    @property
    def native(self) -> bool:
        """Whether the stored form is the served form."""
        resource = self.resource
        return resource.group == self.group and resource.storage_version == self.served.name

    def encode(self, obj: dict[str, Any]) -> dict[str, Any]:
        """From the stored form to the served one."""
        if self.native:
            return obj
        result = self.served.encode(obj) if self.served.encode else dict(obj)
        result["apiVersion"] = self.api_version
        return result

    def decode(self, obj: dict[str, Any]) -> dict[str, Any]:
        """From the served form to the stored one."""
        if self.native:
            return obj
        result = self.served.decode(obj) if self.served.decode else dict(obj)
        result["apiVersion"] = self.resource.api_version(self.resource.storage_version)
        return result


@functools.lru_cache(maxsize=1000)
def version_priority(name: str) -> tuple[int, int, int, str]:
    """The order of versions in discovery: v2, v1, v1beta2, v1beta1, v1alpha1, then the others."""
    digits = name.removeprefix("v")
    for stage, weight in _STAGES.items():
        major, found, minor = digits.partition(stage) if stage else (digits, "", "")
        known = major.isdigit() and name.startswith("v") and bool(found) == bool(stage)
        if known and (not stage or minor.isdigit()):
            return (-weight, -int(major), -int(minor or 0), name)
    return (0, 0, 0, name)


class Registry:
    """All the resources that are served now."""

    def __init__(self) -> None:
        self._resources: list[Resource] = []
        self._endpoints: dict[tuple[str, str, str], Endpoint] = {}
        self.revision = 0

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources)

    def add(self, resource: Resource) -> None:
        """Serve the resource in all its versions."""
        self._resources.append(resource)
        for name, served in resource.versions.items():
            self._endpoints[resource.group, name, resource.plural] = Endpoint(
                resource, served, resource.group
            )
        self.revision += 1

    def alias(self, resource: Resource, group: str, served: Served) -> None:
        """Serve the same storage under another group too."""
        key = (group, served.name, resource.plural)
        self._endpoints[key] = Endpoint(resource, served, group)
        self.revision += 1

    def remove(self, resource: Resource) -> None:
        self._resources.remove(resource)
        self._endpoints = {
            key: endpoint
            for key, endpoint in self._endpoints.items()
            if endpoint.resource is not resource
        }
        self.revision += 1

    def lookup(self, group: str, version: str, plural: str) -> Endpoint | None:
        """The endpoint that the path names; none if the server does not serve it."""
        return self._endpoints.get((group, version, plural))

    def endpoints(self) -> list[Endpoint]:
        return list(self._endpoints.values())

    def groups(self) -> dict[str, list[str]]:
        """The groups with their versions, the preferred version first."""
        found: dict[str, set[str]] = {}
        for group, version, _ in self._endpoints:
            found.setdefault(group, set()).add(version)
        return {group: sorted(names, key=version_priority) for group, names in found.items()}

    def preferred(self, resource: Resource) -> Endpoint:
        """The resource in the version that clients prefer."""
        name = min(resource.versions, key=version_priority)
        return self._endpoints[resource.group, name, resource.plural]

    def by_kind(self, api_version: str, kind: str) -> Endpoint | None:
        """The endpoint for the objects of that kind."""
        group, _, version = api_version.rpartition("/")
        for (its_group, its_version, _), endpoint in self._endpoints.items():
            if (its_group, its_version, endpoint.resource.kind) == (group, version, kind):
                return endpoint
        return None

    def find(self, name: str) -> Endpoint:
        """Find by a plural, singular, kind, or short name, with or without ``.group``.

        ``plural.version.group`` is understood too. Raises ``LookupError`` if nothing is found.
        """
        wanted, _, suffix = name.partition(".")
        for resource in self._resources:
            names = resource.plural, resource.singular, resource.kind
            if wanted not in names and wanted not in resource.short_names:
                continue
            if suffix in ("", resource.group):
                return self.preferred(resource)
            for version in resource.versions:
                if suffix in (f"{version}.{resource.group}", version):
                    return self._endpoints[resource.group, version, resource.plural]
        raise LookupError(f"The sandbox serves no resource {name!r}.")
