"""The controllers of a cluster that operators rely on: of namespaces, and of owner references."""

from __future__ import annotations

import asyncio
from typing import Any

from kopf_kits.sandbox.store.resources import Registry, Resource
from kopf_kits.sandbox.store.storage import Change, Key, Stored
from kopf_kits.sandbox.verbs.deletions import DeleteOptions, Deleter

Obj = dict[str, Any]
_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"


class Garbage:
    """Deletes the objects of deleted namespaces and owners, in the background, as in a cluster.

    It scans nothing: it counts the dependents of every owner as objects come and go.
    """

    def __init__(self, registry: Registry, deleter: Deleter) -> None:
        self._registry = registry
        self._deleter = deleter
        self._dependents: dict[str, set[tuple[Resource, Key]]] = {}
        self._terminating: set[str] = set()
        self._scheduled: set[str] = set()

    def watch(self, resource: Resource) -> None:
        """Look after the objects of one more resource."""
        spaces = resource.qualified == "namespaces"

        def observe(change: Change) -> None:
            self._observe(resource, change)
            if spaces or change.now.key[0] in self._terminating:
                self._schedule(change.now.key[1] if spaces else change.now.key[0])

        resource.store.listeners.append(observe)

    def _schedule(self, namespace: str) -> None:
        """Look at the namespace once for all the changes that come together."""
        if namespace not in self._scheduled:
            self._scheduled.add(namespace)
            _later(self._empty_namespace, namespace)

    def _observe(self, resource: Resource, change: Change) -> None:
        now = set() if change.type == "DELETED" else _owner_uids(change.now)
        old = _owner_uids(change.old) if change.old is not None else set()
        if now != old:
            item = (resource, change.now.key)
            for uid in now - old:
                self._dependents.setdefault(uid, set()).add(item)
            for uid in old - now:
                self._forget(uid, item)
            for uid in old:
                _later(self._check_owner, uid)
        meta = change.now.obj["metadata"]
        if change.type == "DELETED":
            _later(self._collect, meta.get("uid", ""))
        elif meta.get("deletionTimestamp") and meta.get("finalizers"):
            if _ORPHAN in meta["finalizers"]:
                _later(self._orphan, resource, change.now.key)
            elif _FOREGROUND in meta["finalizers"]:
                _later(self._foreground, resource, change.now.key)
        elif now and change.type == "ADDED":
            _later(self._collect_absent, resource, change.now.key)

    def _forget(self, uid: str, item: tuple[Resource, Key]) -> None:
        items = self._dependents.get(uid, set())
        items.discard(item)
        if not items:
            self._dependents.pop(uid, None)

    def _items(self, uid: str) -> list[tuple[Resource, Stored]]:
        items = sorted(self._dependents.get(uid, ()), key=lambda item: item[1])
        found = ((resource, resource.store.get(key)) for resource, key in items)
        return [(resource, stored) for resource, stored in found if stored is not None]

    def _collect(self, uid: str) -> None:
        """The owner is gone: its dependents follow, unless they have other owners."""
        for resource, stored in self._items(uid):
            self._collect_one(resource, stored)

    def _collect_absent(self, resource: Resource, key: Key) -> None:
        """A new dependent of an owner which does not exist is garbage from its very start."""
        stored = resource.store.get(key)
        if stored is not None:
            self._collect_one(resource, stored)

    def _collect_one(self, resource: Resource, stored: Stored) -> None:
        owners = stored.obj["metadata"].get("ownerReferences") or []
        present = [owner for owner in owners if self._exists(owner, stored.key[0])]
        if not owners:
            return
        if not present:
            self._delete(resource, stored, "Background")
        elif len(present) < len(owners):
            _replace_meta(resource, stored, ownerReferences=present)

    def _exists(self, owner: Obj, namespace: str) -> bool:
        endpoint = self._registry.by_kind(owner.get("apiVersion", ""), owner.get("kind", ""))
        if endpoint is None:
            return True  # As in real clusters: an owner of an unknown kind can exist.
        space = namespace if endpoint.resource.namespaced else ""
        found = endpoint.resource.store.get((space, owner.get("name", "")))
        return found is not None and found.uid == owner.get("uid")

    def _delete(self, resource: Resource, stored: Stored, policy: str) -> None:
        if not stored.obj["metadata"].get("deletionTimestamp"):
            endpoint = self._registry.preferred(resource)
            self._deleter.delete_now(endpoint, stored, DeleteOptions(policy=policy))

    def _orphan(self, resource: Resource, key: Key) -> None:
        stored = resource.store.get(key)
        if stored is None:
            return
        uid = stored.uid
        for its_resource, dependent in self._items(uid):
            owners = dependent.obj["metadata"].get("ownerReferences") or []
            left = [owner for owner in owners if owner.get("uid") != uid]
            _replace_meta(its_resource, dependent, ownerReferences=left)
        self._release(resource, key, _ORPHAN)

    def _foreground(self, resource: Resource, key: Key) -> None:
        stored = resource.store.get(key)
        if stored is None:
            return
        for its_resource, dependent in self._items(stored.uid):
            self._delete(its_resource, dependent, "Foreground")
        blocking = [item for _, item in self._items(stored.uid) if _blocks(item, stored.uid)]
        if not blocking:
            self._release(resource, key, _FOREGROUND)

    def _check_owner(self, uid: str) -> None:
        """A dependent is gone: release its owner, if the owner has waited for this."""
        for resource in self._registry:
            for stored in self._waiting(resource):
                if stored.uid == uid:
                    self._foreground(resource, stored.key)

    def _waiting(self, resource: Resource) -> list[Stored]:
        return [
            stored
            for stored in (resource.store.get(key) for key in list(resource.store.deleting))
            if stored is not None
            and _FOREGROUND in (stored.obj["metadata"].get("finalizers") or ())
        ]

    def _release(self, resource: Resource, key: Key, finalizer: str) -> None:
        stored = resource.store.get(key)
        if stored is None:
            return
        finalizers = stored.obj["metadata"].get("finalizers") or []
        left = [name for name in finalizers if name != finalizer]
        if left == finalizers:
            return
        if left or stored.obj["metadata"].get("deletionGracePeriodSeconds"):
            _replace_meta(resource, stored, finalizers=left)
        else:
            resource.store.remove(key)

    def _empty_namespace(self, name: str) -> None:
        self._scheduled.discard(name)
        spaces = self._registry.find("namespaces").resource
        stored = spaces.store.get(("", name))
        if stored is None or not stored.obj["metadata"].get("deletionTimestamp"):
            self._terminating.discard(name)
            return
        self._terminating.add(name)
        left = 0
        for resource in list(self._registry):
            if not resource.namespaced:
                continue
            for one in resource.store.select(name):
                self._purge(resource, one)
            left += len(resource.store.select(name))
        if left == 0:
            self._finish_namespace(spaces, stored)

    def _purge(self, resource: Resource, stored: Stored) -> None:
        if not stored.obj["metadata"].get("deletionTimestamp"):
            endpoint = self._registry.preferred(resource)
            self._deleter.delete_now(endpoint, stored, DeleteOptions(policy="Background", grace=0))

    def _finish_namespace(self, spaces: Resource, stored: Stored) -> None:
        obj = stored.obj
        spec = dict(obj.get("spec") or {})
        if spec.pop("finalizers", None):
            stored = spaces.store.put(stored.key, {**_renewed(obj), "spec": spec})
        if not stored.obj["metadata"].get("finalizers"):
            spaces.store.remove(stored.key)


def _later(function: Any, *args: Any) -> None:
    asyncio.get_running_loop().call_soon(function, *args)


def _owner_uids(stored: Stored) -> set[str]:
    if b'"ownerReferences"' not in stored.data:
        return set()
    owners = stored.obj["metadata"].get("ownerReferences") or ()
    return {owner.get("uid", "") for owner in owners}


def _blocks(stored: Stored, uid: str) -> bool:
    owners = stored.obj["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in owners)


def _renewed(obj: Obj, **fields: Any) -> Obj:
    meta = {**obj["metadata"], **fields}
    return {**obj, "metadata": {name: value for name, value in meta.items() if value != []}}


def _replace_meta(resource: Resource, stored: Stored, **fields: Any) -> None:
    resource.store.put(stored.key, _renewed(stored.obj, **fields))
