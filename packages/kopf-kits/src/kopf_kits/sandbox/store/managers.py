"""Field managers: who set which fields of an object, and server-side apply by them."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.statuses import StatusError
from kopf_kits.sandbox.fields import ownership
from kopf_kits.sandbox.fields.applying import merge_applied, remove_abandoned
from kopf_kits.sandbox.fields.differences import Comparison, Difference
from kopf_kits.sandbox.fields.ownership import Path, Tree

from .resources import Endpoint
from .writeoptions import WriteOptions

Obj = dict[str, Any]
Entries = list[Obj]
_UNMANAGED = frozenset(
    (
        "name", "namespace", "uid", "creationTimestamp", "resourceVersion", "generation",
        "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
    )
)  # fmt: skip
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_UNOWNED = (("f:metadata",), ("f:metadata", "."))


def track(endpoint: Endpoint, old: Obj | None, new: Obj, options: WriteOptions, sub: str) -> None:
    """Update ``metadata.managedFields`` of the new state in place."""
    if options.applied is not None:
        return
    meta = new["metadata"]
    given = meta.get("managedFields")
    known: Entries = (old or {}).get("metadata", {}).get("managedFields") or []
    explicit = given and given != known
    entries: Entries = [entry for entry in given if entry] if explicit and given else known
    # An existing object with no managers gets them only with the first server-side apply.
    if old is None or entries:
        difference = compare(endpoint, old or {}, new)
        if difference:
            entries = _update(endpoint, entries, difference, options, sub)
    if entries:
        meta["managedFields"] = entries
    else:
        meta.pop("managedFields", None)


def compare(endpoint: Endpoint, old: Obj, new: Obj) -> Difference:
    """The difference of the states, in the fields that managers can own."""
    comparison = Comparison(structs=not endpoint.resource.custom)
    comparison.compare(endpoint.served.schema, _managed(old), _managed(new), ())
    result = comparison.result
    result.set = [path for path in result.set if path not in _UNOWNED]
    return result


def same(old: Obj, new: Obj) -> bool:
    """Whether two states are the same, with the entries of their managers."""
    return ownership.is_same(old, new)


def _managed(obj: Obj) -> Obj:
    result = {name: item for name, item in obj.items() if name not in ("apiVersion", "kind")}
    meta = obj.get("metadata")
    if meta is not None:
        result["metadata"] = {k: v for k, v in meta.items() if k not in _UNMANAGED}
    return result


def _is_of(entry: Obj, endpoint: Endpoint, operation: str, manager: str, sub: str) -> bool:
    return (
        entry.get("manager") == manager
        and entry.get("operation") == operation
        and entry.get("subresource", "") == sub
        and (operation == "Apply" or entry.get("apiVersion") == endpoint.api_version)
    )


def _update(
    endpoint: Endpoint, entries: Entries, difference: Difference, options: WriteOptions, sub: str
) -> Entries:
    left: Entries = []
    own: Obj | None = None
    for entry in entries:
        tree: Tree = entry.get("fieldsV1") or {}
        mine = _is_of(entry, endpoint, "Update", options.manager, sub)
        for path in difference.removed:
            tree = ownership.remove(tree, path)
        if not mine:
            for path in difference.set:
                tree = ownership.remove(tree, path)
        changed = entry if tree is entry.get("fieldsV1") else {**entry, "fieldsV1": tree}
        if mine:
            own = changed
        elif tree:
            left.append(changed)
    tree = (own or {}).get("fieldsV1") or {}
    for path in difference.set:
        tree = ownership.insert(tree, path)
    if tree:
        left.append(_entry(endpoint, "Update", options.manager, sub, tree))
    return _sorted(left)


def _entry(endpoint: Endpoint, operation: str, manager: str, sub: str, tree: Tree) -> Obj:
    entry = {
        "manager": manager,
        "operation": operation,
        "apiVersion": endpoint.api_version,
        "time": endpoint.nature.now(),
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }
    if sub:
        entry["subresource"] = sub
    return entry


def _sorted(entries: Entries) -> Entries:
    names = ("operation", "time", "manager", "apiVersion", "subresource")
    return sorted(entries, key=lambda entry: tuple(str(entry.get(name, "")) for name in names))


def apply(endpoint: Endpoint, live: Obj, options: WriteOptions, sub: str) -> Obj:
    """Apply a configuration to an object (or to nothing); 409 if it belongs to other managers."""
    applied = _applicable(endpoint, options.applied or {}, sub)
    schema = endpoint.served.schema
    entries: Entries = (live.get("metadata") or {}).get("managedFields") or []
    known = [e for e in entries if _is_of(e, endpoint, "Apply", options.manager, sub)]
    others = [e for e in entries if e not in known]
    if live and not entries:
        others = _before_first(endpoint, live)
    tree = _applied_tree(endpoint, applied)
    result = merge_applied(schema, live, applied)
    known_once = _last_applied_tree(endpoint, live) if options.manager == "kubectl" else {}
    difference = compare(endpoint, live, result)
    others = _settle_conflicts(difference, others, known_once, force=options.force)
    before: Tree = (known[0].get("fieldsV1") or {}) if known else {}
    owned = [entry.get("fieldsV1") or {} for entry in others]
    for path in _abandoned(before, tree, owned):
        result = remove_abandoned(schema, result, path)
    if known and before == tree:
        entry = known[0]
    else:
        entry = _entry(endpoint, "Apply", options.manager, sub, tree)
    meta = dict(result.get("metadata") or {})
    meta["managedFields"] = _sorted([*others, entry] if tree else others)
    return {**result, "metadata": meta}


def _before_first(endpoint: Endpoint, live: Obj) -> Entries:
    """The entry for the fields that were set before the object had managers."""
    tree: Tree = {}
    for path in compare(endpoint, {}, live).set:
        tree = ownership.insert(tree, path)
    return [_entry(endpoint, "Update", "before-first-apply", "", tree)] if tree else []


def _applicable(endpoint: Endpoint, applied: Obj, sub: str) -> Obj:
    """Only the part of the configuration that the (sub)resource is responsible for."""
    if sub == "status":
        kept = {"apiVersion", "kind", "metadata", "status"}
        return {name: item for name, item in applied.items() if name in kept}
    if endpoint.served.status:
        return {name: item for name, item in applied.items() if name != "status"}
    return applied


def _applied_tree(endpoint: Endpoint, applied: Obj) -> Tree:
    comparison = Comparison(structs=False, undeclared=True)
    comparison.compare(endpoint.served.schema, {}, _managed(applied), ())
    tree: Tree = {}
    for path in comparison.result.set:
        if path not in _UNOWNED:
            tree = ownership.insert(tree, path)
    return tree


def _last_applied_tree(endpoint: Endpoint, live: Obj) -> Tree:
    """The fields of the last client-side apply: kubectl can take them over from itself."""
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    try:
        applied = jsons.loads(annotations.get(_LAST_APPLIED, ""))
    except ValueError:
        return {}
    if not isinstance(applied, dict):
        return {}
    tree = _applied_tree(endpoint, applied)
    changed = compare(endpoint, applied, live)
    for path in (*changed.set, *changed.removed):
        tree = ownership.remove(tree, path)
    return tree


def _settle_conflicts(
    difference: Difference, others: Entries, allowed: Tree, *, force: bool
) -> Entries:
    conflicts: list[tuple[Obj, Path]] = []
    left: Entries = []
    for entry in others:
        tree: Tree = entry.get("fieldsV1") or {}
        for path in (*difference.set, *difference.removed):
            if path[-1] != "." and ownership.has_any(tree, path):
                conflicts.append((entry, path))
                tree = ownership.remove(tree, path)
        if tree:
            left.append({**entry, "fieldsV1": tree})
    if conflicts and all(ownership.has_any(allowed, path) for _, path in conflicts):
        force = True
    if conflicts and not force:
        raise _conflict_error(conflicts)
    return left


def _abandoned(before: Tree, now: Tree, others: list[Tree]) -> list[Path]:
    """The fields that the manager does not want any more, and that no other manager owns."""
    gone = _with_parents(before) - _with_parents(now)
    free = [path for path in gone if not any(ownership.has_any(tree, path) for tree in others)]
    return sorted(free, key=len)


def _with_parents(tree: Tree) -> set[Path]:
    """The members, and the fields that they are in, at any depth."""
    found: set[Path] = set()
    for path in ownership.members(tree):
        found.add(path)
        found.update(path[:end] for end in range(1, len(path)) if path[end - 1].startswith("f:"))
    return found


def _conflict_error(conflicts: list[tuple[Obj, Path]]) -> StatusError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_name(entry)}",
         "field": ownership.show(path)}
        for entry, path in conflicts
    ]  # fmt: skip
    if len(conflicts) == 1:
        entry, path = conflicts[0]
        text = f"1 conflict: conflict with {_name(entry)}: {ownership.show(path)}"
    else:
        grouped: dict[str, list[str]] = {}
        for entry, path in conflicts:
            grouped.setdefault(_name(entry), []).append(f"- {ownership.show(path)}")
        lines = []
        for name, paths in sorted(grouped.items()):
            lines += [f"conflicts with {name}:", *paths]
        text = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", f"Apply failed with {text}", details={"causes": causes})


def _name(entry: Obj) -> str:
    text = f'"{entry.get("manager", "")}"'
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    if entry.get("operation") == "Update":
        text += f" using {entry.get('apiVersion')}"
    return text
