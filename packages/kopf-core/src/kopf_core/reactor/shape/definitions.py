"""Definitions of custom resources, as a forecast of the discovery.

API servers report changed definitions at once, but publish the resources a bit later.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.resources import Resource


class ServedVersion(NamedTuple):
    """One served version of a custom resource, with the fields that matter to the operator."""

    version: str
    kind: str | None
    namespaced: bool
    shortcuts: frozenset[str]
    categories: frozenset[str]
    subresources: frozenset[str]


Versions = frozenset[ServedVersion]


class Definitions:
    """The definitions, as their watch-stream reports them.

    ``notify`` is called when any of them comes, changes, or goes after they were listed.
    ``look`` is called for each of them that is there.
    """

    def __init__(self, notify: Callable[[], None], look: Callable[[RawBody], None]) -> None:
        self._notify = notify
        self._look = look
        self._is_listed = False
        self._versions: dict[str, Versions] = {}
        self._uids: dict[str, str | None] = {}

    def on_event(self, event: RawEvent) -> None:
        obj = event["object"]
        is_gone = event["type"] == "DELETED"
        name, uid = obj["metadata"]["name"], obj["metadata"].get("uid")
        if is_gone and self._uids.get(name, uid) != uid:
            return  # it was created again unseen: then, the new one comes first
        self._versions[name], self._uids[name] = (
            (Versions(), None) if is_gone else (get_versions(obj), uid)
        )
        if not is_gone:
            self._look(obj)
        if self._is_listed:
            self._notify()

    def on_listed(self) -> None:
        self._is_listed = True
        self._notify()

    async def drain(self) -> None:
        pass

    def agree_with(self, resources: Collection[Resource], groups: Collection[str] | None) -> bool:
        """Whether the definitions match the discovered resources of the scanned groups."""
        found: dict[str, set[ServedVersion]] = {}
        for resource in resources:
            found.setdefault(resource.name, set()).add(_describe(resource))
        disagreed = [
            name
            for name, versions in self._versions.items()
            if groups is None or name.partition(".")[2] in groups
            if found.get(name, set()) != versions
        ]
        for name in [name for name, versions in self._versions.items() if not versions]:
            if name not in disagreed:
                del self._versions[name]  # no resource of the definition is discovered anymore
        return not disagreed


def _describe(resource: Resource) -> ServedVersion:
    return ServedVersion(
        version=resource.version,
        kind=resource.kind,
        namespaced=bool(resource.namespaced),
        shortcuts=resource.shortcuts,
        categories=resource.categories,
        subresources=resource.subresources,
    )


def get_versions(definition: RawBody) -> Versions:
    """The versions that are or will be served; none if the definition is not accepted."""
    body: Mapping[str, Any] = definition
    status, spec = body.get("status") or {}, body.get("spec") or {}
    conditions = {
        condition.get("type"): condition.get("status")
        for condition in status.get("conditions") or ()
    }
    if conditions.get("Established") != "True":
        return Versions()
    # While new names are not accepted (e.g. other kinds have them), the old ones are served.
    names = status.get("acceptedNames") or spec.get("names") or {}
    return Versions(
        ServedVersion(
            version=version["name"],
            kind=names.get("kind"),
            namespaced=spec.get("scope") == "Namespaced",
            shortcuts=frozenset(names.get("shortNames") or ()),
            categories=frozenset(names.get("categories") or ()),
            subresources=frozenset(version.get("subresources") or ()),
        )
        for version in spec.get("versions") or ()
        if version.get("served")
    )
