"""The controller of custom resource definitions: it serves what they define."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kopf_kits.sandbox.kinds.crds import CLEANUP, is_established, make_resource
from kopf_kits.sandbox.schemas.schemas import apply_defaults, prune
from kopf_kits.sandbox.store.resources import Registry, Resource
from kopf_kits.sandbox.store.storage import Change, Store, Versions
from kopf_kits.sandbox.verbs.deletions import DeleteOptions, Deleter

Obj = dict[str, Any]


class Definitions:
    """Watches the CRDs, and adds, changes, and removes the resources accordingly."""

    def __init__(
        self,
        registry: Registry,
        versions: Versions,
        deleter: Deleter,
        watch: Callable[[Resource], None],
        *,
        history: int,
    ) -> None:
        endpoint = registry.find("customresourcedefinitions")
        self._store = endpoint.resource.store
        self._registry = registry
        self._versions = versions
        self._deleter = deleter
        self._history = history
        self._resources: dict[str, Resource] = {}
        self._watch = watch
        self._store.listeners.append(self._observe)

    def _observe(self, change: Change) -> None:
        step = self._drop if change.type == "DELETED" else self.sync  # it can be made anew at once
        asyncio.get_running_loop().call_soon(step, change.now.key[1])

    def sync(self, name: str) -> None:
        """Bring the served resource in line with its definition."""
        stored = self._store.get(("", name))
        if stored is None:
            self._drop(name)
        elif stored.obj["metadata"].get("deletionTimestamp"):
            self._terminate(name, stored.obj)
        else:
            self._serve(name, stored.obj)

    def _drop(self, name: str) -> None:
        resource = self._resources.pop(name, None)
        if resource is not None:
            self._registry.remove(resource)
            resource.store.close()

    def _serve(self, name: str, obj: Obj) -> None:
        previous = self._resources.get(name)
        clash = self._find_clash(obj)
        if clash is None:
            store = previous.store if previous else self._new_store(name)
            resource = make_resource(obj, store)
            if previous is None:
                self._watch(resource)
            else:
                resource = _adopt(previous, resource)
                self._registry.remove(previous)
                _rewrite(resource)
            self._resources[name] = resource
            self._registry.add(resource)
        self._establish(obj, clash)

    def _new_store(self, name: str) -> Store:
        store = Store(self._versions, history=self._history)
        loop = asyncio.get_running_loop()

        def observe(change: Change) -> None:
            if change.type == "DELETED" and self._is_terminating(name):
                loop.call_soon(self.sync, name)

        store.listeners.append(observe)
        return store

    def _is_terminating(self, name: str) -> bool:
        resource = self._resources.get(name)
        return resource is not None and resource.terminating

    def _note_terminating(self, obj: Obj) -> Obj:
        status = obj.get("status") or {}
        conditions = status.get("conditions") or []
        if any(condition["type"] == "Terminating" for condition in conditions):
            return obj
        condition = {
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionInProgress",
            "message": "CustomResource deletion is in progress",
            "lastTransitionTime": self._versions.nature.now(),
        }
        status = {**status, "conditions": [*conditions, condition]}
        changed = {**obj, "metadata": dict(obj["metadata"]), "status": status}
        return self._store.put(("", obj["metadata"]["name"]), changed).obj

    def _find_clash(self, obj: Obj) -> tuple[str, str] | None:
        spec = obj["spec"]
        names = spec["names"]
        for resource in self._registry:
            if resource.group != spec["group"] or resource.plural == names["plural"]:
                continue
            if names["kind"] in (resource.kind, resource.list_kind):
                return "KindConflict", f'"{names["kind"]}" is already in use'
            for short in names.get("shortNames") or ():
                if short in (*resource.short_names, resource.plural, resource.singular):
                    return "ShortNamesConflict", f'"{short}" is already in use'
        return None

    def _establish(self, obj: Obj, clash: tuple[str, str] | None) -> None:
        names = obj["spec"]["names"]
        status = dict(obj.get("status") or {})
        if is_established(obj) and status.get("acceptedNames") == names and clash is None:
            return
        conditions = _conditions(clash, self._versions.nature.now())
        if [_essence(c) for c in conditions] == [
            _essence(c) for c in status.get("conditions") or []
        ]:
            conditions = status["conditions"]
        accepted = status.get("acceptedNames") if clash else names
        status = {**status, "conditions": conditions, "acceptedNames": accepted}
        meta = dict(obj["metadata"])
        if clash is None and CLEANUP not in (meta.get("finalizers") or ()):
            meta["finalizers"] = [*(meta.get("finalizers") or ()), CLEANUP]
        changed = {**obj, "metadata": meta, "status": status}
        if changed != obj:
            self._store.put(("", meta["name"]), changed)

    def _terminate(self, name: str, obj: Obj) -> None:
        resource = self._resources.get(name)
        if resource is not None:
            resource.terminating = True
            obj = self._note_terminating(obj)
            endpoint = self._registry.preferred(resource)
            for stored in resource.store.select(None):
                self._deleter.delete_now(endpoint, stored, DeleteOptions())
            if resource.store.objects:
                return
        finalizers = [name for name in obj["metadata"].get("finalizers") or () if name != CLEANUP]
        if not finalizers:
            self._store.remove(("", name))
        elif CLEANUP in obj["metadata"].get("finalizers", ()):
            meta = {**obj["metadata"], "finalizers": finalizers}
            self._store.put(("", name), {**obj, "metadata": meta})


def _essence(condition: Obj) -> Obj:
    return {key: value for key, value in condition.items() if key != "lastTransitionTime"}


def _conditions(clash: tuple[str, str] | None, time: str) -> list[Obj]:
    if clash is None:
        accepted = ("True", "NoConflicts", "no conflicts found")
        established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        accepted = ("False", *clash)
        established = ("False", "NotAccepted", "not all names are accepted")
    found = {"NamesAccepted": accepted, "Established": established}
    return [
        {"type": type, "status": status, "reason": reason, "message": message,
         "lastTransitionTime": time}
        for type, (status, reason, message) in found.items()
    ]  # fmt: skip


def _adopt(previous: Resource, changed: Resource) -> Resource:
    """Change the resource in place: other parts of the sandbox refer to it."""
    for name in ("kind", "singular", "list_kind", "versions", "storage_version", "short_names",
                 "categories"):  # fmt: skip
        setattr(previous, name, getattr(changed, name))
    return previous


def _rewrite(resource: Resource) -> None:
    """Show the existing objects by the changed schema, as if they were just read."""
    served = resource.versions.get(resource.storage_version)
    schema = served.schema if served else None
    api_version = resource.api_version(resource.storage_version)

    def convert(obj: Obj) -> Obj:
        if obj.get("apiVersion") != api_version:
            obj = {**obj, "apiVersion": api_version}
        return obj if schema is None else apply_defaults(schema, prune(schema, obj, []))

    resource.store.rewrite(convert)
