"""Deletions: preconditions, finalizers, grace periods, and the fate of the dependents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kopf_kits.sandbox.admission.admission import Admission
from kopf_kits.sandbox.base.statuses import Cause, conflict, forbidden, invalid, success
from kopf_kits.sandbox.schemas.validation import show
from kopf_kits.sandbox.store.resources import Endpoint
from kopf_kits.sandbox.store.storage import Key, Stored
from kopf_kits.sandbox.store.writeoptions import WriteOptions

from .writes import Writer, is_finished, mark_deleted

Obj = dict[str, Any]
_ETERNAL = ("default", "kube-system", "kube-public")
_HOLDERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion, as in the ``DeleteOptions`` of the API."""

    grace: int | None = None
    policy: str | None = None
    uid: str | None = None
    version: str | None = None
    dry_run: bool = False

    @classmethod
    def parse(cls, body: Obj, query: dict[str, str]) -> DeleteOptions:
        """Read the options from the body and the query; 422 if they contradict each other."""
        merged = {**query, **{k: v for k, v in body.items() if v is not None}}
        policy = merged.get("propagationPolicy")
        orphan = merged.get("orphanDependents")
        problems = _find_problems(policy, orphan, merged.get("dryRun"))
        if problems:
            raise invalid("meta.k8s.io", "DeleteOptions", "", problems)
        if orphan is not None:
            policy = "Orphan" if orphan in (True, "true") else "Background"
        preconditions = body.get("preconditions") or {}
        grace = merged.get("gracePeriodSeconds")
        return cls(
            grace=None if grace is None else int(grace),
            policy=policy,
            uid=preconditions.get("uid"),
            version=preconditions.get("resourceVersion"),
            dry_run=bool(merged.get("dryRun")),
        )


def _find_problems(policy: Any, orphan: Any, dry_run: Any) -> list[Cause]:
    if dry_run not in (None, "", "All", [], ["All"]):
        shown = show(dry_run if isinstance(dry_run, list) else [dry_run])
        text = f'Unsupported value: {shown}: supported values: "All"'
        return [Cause("FieldValueNotSupported", "dryRun", text)]
    if policy is not None and orphan is not None:
        text = (
            f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both '
            "set"
        )
        return [Cause("FieldValueInvalid", "propagationPolicy", text)]
    if policy not in (None, "Foreground", "Background", "Orphan"):
        text = (
            f'Unsupported value: "{policy}": supported values: "Foreground", "Background", '
            '"Orphan", "nil"'
        )
        return [Cause("FieldValueNotSupported", "propagationPolicy", text)]
    return []


class Deleter:
    """Deletes objects of any resource."""

    def __init__(self, writer: Writer, admission: Admission) -> None:
        self._writer = writer
        self._admission = admission

    async def delete(
        self,
        endpoint: Endpoint,
        key: Key,
        options: DeleteOptions,
        write: WriteOptions,
        *,
        collective: bool = False,
    ) -> tuple[Stored | Obj, bool]:
        """Delete the object, or mark it as being deleted.

        Returns the content of the response, and whether the object is really gone. If the deletion
        is ``collective``, the server tells no name to the webhooks, as the request has none.
        """
        stored = self._writer.require(endpoint, key)
        self._check_preconditions(endpoint, stored, options)
        if endpoint.resource.qualified == "namespaces" and key[1] in _ETERNAL:
            raise forbidden("", "namespaces", key[1], "this namespace may not be deleted")
        if self._admission.applies(endpoint):
            old = endpoint.encode(stored.obj)
            write.named = not collective
            await self._admission.mutate(endpoint, "DELETE", None, old, write)
            await self._admission.check(endpoint, "DELETE", None, old, write)
            stored = self._writer.require(endpoint, key)
        return self.delete_now(endpoint, stored, options)

    def delete_now(
        self, endpoint: Endpoint, stored: Stored, options: DeleteOptions
    ) -> tuple[Stored | Obj, bool]:
        """Delete the object without asking the admission."""
        obj = stored.obj
        resource = endpoint.resource
        marked = self._mark(endpoint, obj, options)
        if is_finished(endpoint, marked):
            if not options.dry_run:
                resource.store.remove(stored.key)
            if resource.rules.returns_deleted:
                shown = marked if resource.rules.grace else obj
                return Stored(stored.key, stored.version, shown), True
            return success(resource.group, resource.plural, stored.key[1], stored.uid), True
        if marked is obj:
            return stored, False
        if options.dry_run:
            return Stored(stored.key, stored.version, marked), False
        return resource.store.put(stored.key, marked), False

    def _mark(self, endpoint: Endpoint, obj: Obj, options: DeleteOptions) -> Obj:
        grace = self._grace(endpoint, obj, options)
        meta = obj["metadata"]
        held = _hold(meta.get("finalizers") or [], endpoint, options)
        if meta.get("deletionTimestamp"):
            shorter = grace < (meta.get("deletionGracePeriodSeconds") or 0)
            if endpoint.resource.qualified == "namespaces" and not shorter:
                why = (
                    "The system is ensuring all content is removed from this namespace.  Upon "
                    "completion, this namespace will automatically be purged by the system."
                )
                raise conflict("", "namespaces", meta["name"], why)
            if not shorter:
                return obj
        if held != (meta.get("finalizers") or []):
            obj = {**obj, "metadata": {**meta, "finalizers": held}}
        marked = mark_deleted(endpoint, obj, grace)
        if not held:
            marked["metadata"].pop("finalizers", None)
        if endpoint.resource.qualified == "namespaces":
            marked["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return marked

    def _grace(self, endpoint: Endpoint, obj: Obj, options: DeleteOptions) -> int:
        find = endpoint.resource.rules.grace
        if find is None:
            return 0
        default = find(obj) or 0
        return min(default, options.grace) if options.grace is not None and default else default

    def _check_preconditions(
        self, endpoint: Endpoint, stored: Stored, options: DeleteOptions
    ) -> None:
        meta = stored.obj["metadata"]
        resource, record = endpoint.resource, "The object might have been"
        wanted = (
            ("UID", options.uid, meta.get("uid"), f"{record} deleted and then recreated"),
            ("ResourceVersion", options.version, meta["resourceVersion"], f"{record} modified"),
        )
        for what, expected, actual, hint in wanted:
            if expected and expected != actual:
                why = (
                    f"the {what} in the precondition ({expected}) does not match the {what} in "
                    f"record ({actual}). {hint}"
                )
                raise conflict(resource.group, resource.kind, stored.key[1], why)


def _hold(finalizers: list[str], endpoint: Endpoint, options: DeleteOptions) -> list[str]:
    policy = options.policy or ("Orphan" if endpoint.resource.rules.orphans else "Background")
    others = [name for name in finalizers if name not in _HOLDERS.values()]
    if options.policy is None and len(others) != len(finalizers):
        return finalizers
    return [*others, _HOLDERS[policy]] if policy in _HOLDERS else others
