"""Writing: creations, replacements, patches, and deletions, with everything that goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kopf_kits.sandbox.admission.admission import Admission
from kopf_kits.sandbox.base.jsons import make_whole
from kopf_kits.sandbox.base.statuses import (
    Cause,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    not_found,
)
from kopf_kits.sandbox.fields.ownership import is_same
from kopf_kits.sandbox.kinds.builtins import check_types
from kopf_kits.sandbox.schemas.schemas import apply_defaults, prune
from kopf_kits.sandbox.store import managers
from kopf_kits.sandbox.store.decoding import drop_nulls, warn_about_finalizers
from kopf_kits.sandbox.store.metadata import name_new, prepare_changed, prepare_new
from kopf_kits.sandbox.store.resources import Endpoint, Registry
from kopf_kits.sandbox.store.storage import Key, Stored
from kopf_kits.sandbox.store.writeoptions import WriteOptions

from .checks import check

Obj = dict[str, Any]
Modify = Callable[[Obj], Obj]
_ATTEMPTS = 5


class Writer:
    """Writes objects of any resource: the rules are the same for all of them."""

    def __init__(self, registry: Registry, admission: Admission) -> None:
        self._registry = registry
        self._admission = admission

    async def create(
        self, endpoint: Endpoint, namespace: str, body: Obj, options: WriteOptions
    ) -> Stored:
        """Create an object; 409 if it is already there."""
        self._check_namespace(endpoint, namespace, body)
        served = prepare_new(endpoint, namespace, body)
        if endpoint.served.status:
            served.pop("status", None)
        served = self._shape(endpoint, served, None, options)
        if self._admission.applies(endpoint):
            mutated = await self._admission.mutate(endpoint, "CREATE", served, None, options)
            served = self._shape(endpoint, mutated or served, None, options)
        served = name_new(endpoint, served)
        check(endpoint, served, None, options)
        if self._admission.applies(endpoint):
            await self._admission.check(endpoint, "CREATE", served, None, options)
        managers.track(endpoint, None, served, options, "")
        key = (namespace, served["metadata"]["name"])
        self._check_absence(endpoint, key)
        options.warnings.extend(warn_about_finalizers(served))
        if options.dry_run:
            return Stored(key, 0, endpoint.decode(served))
        return endpoint.resource.store.put(key, endpoint.decode(served))

    async def update(
        self, endpoint: Endpoint, key: Key, sub: str, modify: Modify, options: WriteOptions
    ) -> Stored:
        """Change an object with a function from its old state to the new one."""
        for _ in range(_ATTEMPTS):
            stored = self.require(endpoint, key)
            old = endpoint.encode(stored.obj)
            new = self._merge_parts(endpoint, old, modify(old), sub, options)
            if self._admission.applies(endpoint):
                mutated = await self._admission.mutate(endpoint, "UPDATE", new, old, options, sub)
                new = self._merge_parts(endpoint, old, mutated or new, sub, options)
            check(endpoint, new, old, options, sub)
            if self._admission.applies(endpoint):
                await self._admission.check(endpoint, "UPDATE", new, old, options, sub)
            if endpoint.resource.store.get(key) is stored:
                return self._commit(endpoint, stored, old, new, sub, options)
        raise conflict(endpoint.resource.group, endpoint.resource.plural, key[1])

    def require(self, endpoint: Endpoint, key: Key) -> Stored:
        """The object; 404 if there is none."""
        stored = endpoint.resource.store.get(key)
        if stored is None:
            raise not_found(endpoint.resource.group, endpoint.resource.plural, key[1])
        return stored

    def _check_absence(self, endpoint: Endpoint, key: Key) -> None:
        existing = endpoint.resource.store.get(key)
        if existing is not None:
            deleting = "deletionTimestamp" in existing.obj["metadata"]
            group, plural = endpoint.resource.group, endpoint.resource.plural
            raise already_exists(group, plural, key[1], deleting=deleting)

    def _check_namespace(self, endpoint: Endpoint, namespace: str, body: Obj) -> None:
        resource = endpoint.resource
        if resource.terminating:
            why = "create not allowed while custom resource definition is terminating"
            name = str((body.get("metadata") or {}).get("name", ""))
            raise forbidden(resource.group, resource.plural, name, why)
        if not resource.namespaced:
            return
        spaces = self._registry.lookup("", "v1", "namespaces")
        found = spaces.resource.store.get(("", namespace)) if spaces else None
        if found is None:
            raise not_found("", "namespaces", namespace)
        if found.obj["metadata"].get("deletionTimestamp"):
            name = str((body.get("metadata") or {}).get("name", ""))
            why = (
                f"unable to create new content in namespace {namespace} because it is being "
                "terminated"
            )
            text = f"namespace {namespace} is being terminated"
            cause = Cause("NamespaceTerminating", "metadata.namespace", text)
            raise forbidden(resource.group, resource.plural, name, why, [cause])

    def _merge_parts(
        self, endpoint: Endpoint, old: Obj, new: Obj, sub: str, options: WriteOptions
    ) -> Obj:
        """Take from the new state only the part that the (sub)resource is responsible for."""
        new = prepare_changed(endpoint, old, new, replaced=options.replaced)
        if sub == "status":
            changed = {**old, "metadata": new["metadata"]}
            if endpoint.resource.custom:
                kept = {**old["metadata"], "managedFields": new["metadata"].get("managedFields")}
                changed["metadata"] = {k: v for k, v in kept.items() if v is not None}
            elif not endpoint.resource.rules.status_labels:
                changed["metadata"] = _with_labels(new["metadata"], old["metadata"])
            new = _with_status(changed, new)
        elif endpoint.served.status:
            new = _with_status(new, old)
        new = self._shape(endpoint, new, old, options)
        rules = endpoint.resource.rules
        if rules.generation and sub != "status" and self._spec_changed(endpoint, old, new):
            generation = int(old["metadata"].get("generation") or 0) + 1
            new = {**new, "metadata": {**new["metadata"], "generation": generation}}
        return new

    def _spec_changed(self, endpoint: Endpoint, old: Obj, new: Obj) -> bool:
        ignored = {"metadata", "status"} if endpoint.served.status else {"metadata"}
        names = (old.keys() | new.keys()) - ignored
        return any(not is_same(old.get(name), new.get(name)) for name in names)

    def _shape(self, endpoint: Endpoint, obj: Obj, old: Obj | None, options: WriteOptions) -> Obj:
        """Prune the unknown fields, and add the defaults."""
        schema = endpoint.served.schema
        if schema is not None:
            if not endpoint.resource.custom:
                check_types(endpoint.resource.kind, endpoint.served.name, schema, obj)
            if options.applied is None:
                obj = drop_nulls(schema, obj)
            unknown: list[str] = []
            obj = prune(schema, obj, unknown)
            texts = [f'unknown field "{path}"' for path in sorted(unknown)]
            report_problems(endpoint, texts, options)
            obj = apply_defaults(schema, obj)
        obj = make_whole(obj)
        complete = endpoint.resource.rules.complete
        if complete is not None:
            obj = {**obj, "metadata": dict(obj["metadata"])}
            complete(obj, old)
        return obj

    def _commit(
        self,
        endpoint: Endpoint,
        stored: Stored,
        old: Obj,
        new: Obj,
        sub: str,
        options: WriteOptions,
    ) -> Stored:
        store = endpoint.resource.store
        managers.track(endpoint, old, new, options, sub)
        if managers.same(old, new) and stored.key not in store.outdated:
            return stored
        if options.dry_run:
            return Stored(stored.key, stored.version, endpoint.decode(new))
        if is_finished(endpoint, new):
            store.remove(stored.key)
            return Stored(stored.key, stored.version, endpoint.decode(new))
        decoded = endpoint.decode(new)
        if decoded["metadata"] is old["metadata"]:
            decoded = {**decoded, "metadata": dict(decoded["metadata"])}
        return store.put(stored.key, decoded)


def report_problems(endpoint: Endpoint, texts: list[str], options: WriteOptions) -> None:
    """Warn about problems of decoding, or refuse the object, as the client asks."""
    if not texts or options.validation == "Ignore":
        return
    if options.validation == "Strict":
        kind, version = endpoint.resource.kind, endpoint.served.name
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: '
            f"{', '.join(texts)}"
        )
    options.warnings.extend(text for text in texts if text not in options.warnings)


def is_finished(endpoint: Endpoint, obj: Obj) -> bool:
    """Whether nothing holds the deleted object any more."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    if endpoint.resource.qualified == "namespaces":
        return not (obj.get("spec") or {}).get("finalizers")
    return not meta.get("deletionGracePeriodSeconds")


def mark_deleted(endpoint: Endpoint, obj: Obj, grace: int) -> Obj:
    """The object with the marks of a deletion in progress."""
    meta = dict(obj["metadata"])
    meta["deletionTimestamp"] = endpoint.nature.now(grace)
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation") and not obj["metadata"].get("deletionTimestamp"):
        meta["generation"] += 1
    return {**obj, "metadata": meta}


def _with_labels(meta: Obj, source: Obj) -> Obj:
    result = {name: value for name, value in meta.items() if name != "labels"}
    return {**result, "labels": source["labels"]} if "labels" in source else result


def _with_status(obj: Obj, source: Obj) -> Obj:
    result = {name: value for name, value in obj.items() if name != "status"}
    if "status" in source:
        result["status"] = source["status"]
    return result
