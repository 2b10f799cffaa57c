"""Strategic merge patches of built-in kinds: as merge patches, but lists are merged by keys."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.base.statuses import bad_request
from kopf_kits.sandbox.schemas.schemas import Node

from . import patches

_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def merge(node: Node | None, target: Any, patch: Any) -> Any:
    """Apply the patch to the target with the directives that are in the patch."""
    if not isinstance(patch, dict):
        return patch
    match patch.get("$patch"):
        case "replace":
            return _strip({name: item for name, item in patch.items() if name != "$patch"})
        case "delete":
            return {}
    result = dict(target) if isinstance(target, dict) else {}
    retained = patch.get("$retainKeys")
    if retained is not None:
        result = {name: item for name, item in result.items() if name in retained}
    for name, value in patch.items():
        if name.startswith(_DELETE):
            field = name[len(_DELETE) :]
            result[field] = [item for item in result.get(field) or [] if item not in value]
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(node, result, name, value)
    for name, value in patch.items():
        field = name.removeprefix(_ORDER)
        if isinstance(value, list) and _merges(_child(node, field)) and field in result:
            old = target.get(field) if isinstance(target, dict) else None
            key = _merge_key(_child(node, field))
            result[field] = _reorder(key, result[field], patch.get(_ORDER + field, value), old)
    return result


def _merge_field(node: Node | None, result: dict[str, Any], name: str, value: Any) -> None:
    child = _child(node, name)
    if value is None:
        result.pop(name, None)
    elif isinstance(value, list):
        result[name] = _merge_lists(child, result.get(name) or [], value)
    elif isinstance(value, dict):
        result[name] = merge(child, result.get(name), value)
    else:
        result[name] = value


def _child(node: Node | None, name: str) -> Node | None:
    return node.child(name) if node is not None else None


def _merges(node: Node | None) -> bool:
    strategy = node.spec.get("x-kubernetes-patch-strategy", "") if node is not None else ""
    return "merge" in strategy.split(",")


def _merge_key(node: Node | None) -> str | None:
    return node.spec.get("x-kubernetes-patch-merge-key") if node is not None else None


def _merge_lists(node: Node | None, target: list[Any], patch: list[Any]) -> list[Any]:
    key = _merge_key(node)
    if not _merges(node):
        return _strip(patch)  # type: ignore[no-any-return]
    if key is None:
        return [*target, *(item for item in patch if item not in target)]
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [_strip(item) for item in patch if item != {"$patch": "replace"}]
    result = list(target)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        index = next((i for i, one in enumerate(result) if one.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            result = [one for one in result if one.get(key) != item[key]]
        elif index is None:
            result.append(merge(node.items if node else None, {}, item))
        else:
            result[index] = merge(node.items if node else None, result[index], item)
    return result


def _reorder(key: str | None, items: list[Any], order: list[Any], old: Any) -> list[Any]:
    """Put the items of the patch in its order, and the others between them as they were."""

    def identify(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) and key else item

    wanted = [identify(entry) for entry in order]
    places = [identify(item) for item in old or ()]
    known = {place: position for position, place in reversed(list(enumerate(places)))}
    ours = sorted(
        (item for item in items if identify(item) in wanted),
        key=lambda item: wanted.index(identify(item)),
    )
    others = [item for item in items if identify(item) not in wanted]
    result: list[Any] = []
    while ours and others:
        one, other = known.get(identify(others[0])), known.get(identify(ours[0]))
        before = one is not None and other is not None and one < other
        result.append((others if before else ours).pop(0))
    return [*result, *ours, *others]


def _strip(value: Any) -> Any:
    """The value without directives and nulls."""
    if isinstance(value, dict):
        return {k: _strip(v) for k, v in value.items() if v is not None and not k.startswith("$")}
    return patches.merge(None, value)
