"""The worker of the cluster: the sandbox, and what the page shows and does with its objects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import yaml

from kopf_kits.sandbox import ClusterOptions, Sandbox, StatusError

from .wires import Wire

Obj = dict[str, Any]

UNSHOWN = frozenset({
    "customresourcedefinitions.apiextensions.k8s.io",
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "namespaces",
    "serviceaccounts",
})  # fmt: skip
"""The kinds of objects which are there for other reasons than the operator."""

PERIOD = 0.1
"""How often, in seconds, the page is told about the changes, if there are any."""


class PlaygroundCluster:
    """A cluster in memory, with the wires to its operators: the killed ones, too."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._sandbox = Sandbox(port=None, options=ClusterOptions(ready=True))
        self._wire: Wire | None = None
        self._edited: dict[tuple[str, str, str], Obj] = {}
        self._showing: asyncio.Task[None] | None = None

    async def start(self, definitions: str) -> None:
        """Start it with these kinds of objects."""
        await self._sandbox.__aenter__()
        await self._sandbox.apply(definitions)
        self._showing = asyncio.create_task(self._show_changes())

    def connect(self, port: Any) -> None:
        """Serve an operator, and no other one since then."""
        self.disconnect()
        self._wire = Wire(port, self._sandbox.connect)

    def disconnect(self) -> None:
        """Break the connections: the operator is killed."""
        if self._wire is not None:
            self._wire.cut()
            self._wire = None

    async def apply(self, text: str) -> str:
        """Create or change the objects of a text in YAML: get what is done, or what is wrong."""
        try:
            done = [await self._apply(body) for body in yaml.safe_load_all(text) if body]
        except yaml.YAMLError as e:
            return f"This is no YAML: {e}"
        except (StatusError, LookupError, AttributeError, TypeError) as e:
            return f"Not applied: {e}"
        return "\n".join(done) or "There is nothing to apply."

    async def _apply(self, body: Obj) -> str:
        key = _identify(body)
        original = self._edited.pop(key, None)
        version = (body.get("metadata") or {}).get("resourceVersion")
        if original is None or version != original["metadata"]["resourceVersion"]:
            (applied,) = await self._sandbox.apply(body)
        else:
            applied = await self._edit(original, body)
        return f"{applied['kind']} {applied['metadata']['name']} is applied."

    async def _edit(self, original: Obj, body: Obj) -> Obj:
        """Change what the user has changed, as `kubectl edit` does: handlers go on meanwhile."""
        meta, registry = original["metadata"], self._sandbox.cluster.registry
        endpoint = registry.by_kind(original["apiVersion"], original["kind"])
        assert endpoint is not None
        patch = _diff(original, body)
        name, namespace = meta["name"], meta.get("namespace")
        return await self._sandbox.patch(
            endpoint.resource.qualified, name, patch, namespace=namespace
        )

    async def edit(self, resource: str, namespace: str, name: str) -> str:
        """The text of an object to be changed and applied."""
        try:
            obj = await self._sandbox.get(resource, name, namespace=namespace or None)
        except StatusError as e:
            return f"# {e}"
        shown = _hide(obj)
        self._edited[_identify(shown)] = shown
        return _dump(shown)

    async def delete(self, resource: str, namespace: str, name: str) -> str:
        """Delete an object: get what is done."""
        try:
            gone = await self._sandbox.delete(resource, name, namespace=namespace or None)
        except StatusError as e:
            return f"Not deleted: {e}"
        return f"{name} is deleted." if gone else f"{name} is being deleted: the operator holds it."

    async def _show_changes(self) -> None:
        cluster, shown = self._sandbox.cluster, 0
        while True:
            if cluster.versions.current != shown:
                shown = cluster.versions.current
                self._show(json.dumps({"objects": self._list(), "events": self._list_events()}))
            await asyncio.sleep(PERIOD)

    def _list(self) -> list[Obj]:
        resources = [r for r in self._sandbox.cluster.registry if r.qualified not in UNSHOWN]
        found = ((resource, stored.obj) for resource in resources
                 for stored in resource.store.select(None))  # fmt: skip
        return [
            {
                "resource": resource.qualified,
                "kind": resource.kind,
                "namespace": obj["metadata"].get("namespace", ""),
                "name": obj["metadata"]["name"],
                "uid": obj["metadata"]["uid"],
                "deleting": "deletionTimestamp" in obj["metadata"],
                "text": _dump(_hide(obj)),
            }
            for resource, obj in found
        ]

    def _list_events(self) -> list[Obj]:
        endpoint = self._sandbox.cluster.registry.find("events")
        events = [stored.obj for stored in endpoint.resource.store.select(None)]
        return [
            {
                "uid": event["metadata"]["uid"],
                "type": event.get("type") or "Normal",
                "reason": event.get("reason") or "",
                "message": event.get("message") or event.get("note") or "",
                "name": (event.get("involvedObject") or event.get("regarding") or {}).get("name"),
            }
            for event in sorted(events, key=lambda event: int(event["metadata"]["resourceVersion"]))
        ]


def _identify(obj: Obj) -> tuple[str, str, str]:
    meta = obj.get("metadata") or {}
    return str(obj.get("kind")), str(meta.get("namespace") or "default"), str(meta.get("name"))


def _hide(obj: Obj) -> Obj:
    """The object without what `kubectl` does not show either."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}


def _dump(obj: Obj) -> str:
    plain = json.loads(json.dumps(obj))
    return yaml.dump(plain, Dumper=Dumper, sort_keys=False, width=10**6)


class Dumper(yaml.SafeDumper):
    """Texts of several lines are shown line by line, as `kubectl` does."""


def _represent_text(dumper: Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Dumper.add_representer(str, _represent_text)


def _diff(old: Obj, new: Obj) -> Obj:
    """The merge patch between two objects."""
    patch: Obj = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, dict) and isinstance(old[key], dict):
            if changes := _diff(old[key], value):
                patch[key] = changes
        elif value != old[key]:
            patch[key] = value
    return patch
