"""Definitions of custom resources: what the discovery is going to tell, sooner or later.

The API servers notify of definitions at once, but publish what is made of them a bit later.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kopf_cogs.structs.bodies import RawBody, RawEvent
from kopf_cogs.structs.resources import Resource

Versions = frozenset[str]


class Definitions:
    """What is known of the definitions from their watch-stream.

    ``notify`` is called when any of them has come, changed, or gone after they were listed.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._is_listed = False
        self._versions: dict[str, Versions] = {}

    def on_event(self, event: RawEvent) -> None:
        obj = event["object"]
        is_gone = event["type"] == "DELETED"
        self._versions[obj["metadata"]["name"]] = Versions() if is_gone else get_versions(obj)
        if self._is_listed:
            self._notify()

    def on_listed(self) -> None:
        self._is_listed = True
        self._notify()

    async def drain(self) -> None:
        pass

    def agree_with(self, resources: Collection[Resource], groups: Collection[str] | None) -> bool:
        """Whether exactly these custom resources are discovered, as far as groups are scanned."""
        found: dict[str, set[str]] = {}
        for resource in resources:
            found.setdefault(resource.name, set()).add(resource.version)
        disagreed = [
            name
            for name, versions in self._versions.items()
            if groups is None or name.partition(".")[2] in groups
            if found.get(name, set()) != versions
        ]
        for name in [name for name, versions in self._versions.items() if not versions]:
            if name not in disagreed:
                del self._versions[name]  # it is gone from everywhere
        return not disagreed


def get_versions(definition: RawBody) -> Versions:
    """The versions that are or will be served; none if the definition is not accepted."""
    body: Mapping[str, Any] = definition
    conditions = {
        condition.get("type"): condition.get("status")
        for condition in (body.get("status") or {}).get("conditions") or ()
    }
    if conditions.get("Established") != "True":
        return Versions()
    versions = (body.get("spec") or {}).get("versions") or ()
    return Versions(version["name"] for version in versions if version.get("served"))
