"""Managed fields: which manager has set which fields of an object, and whether they drifted.

The server-side apply of Kubernetes keeps the fields of every manager in ``managedFields``,
as trees of path elements (``FieldsV1``). They are ``f:name`` for the fields, ``k:{...}`` for the
items of lists with keys, ``v:...`` for the values of sets, and ``.`` for the containers themselves.
An element with nothing below is set as a whole.
"""

import decimal
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from kopf_cogs.structs.dicts import FieldPath

Tree = Mapping[str, Any]

_MAPPINGS = (dict, Mapping)  # dictionaries are recognised much faster than mappings in general

# These fields are never managed: they identify the object.
_IDENTITY = frozenset({"apiVersion", "kind"})
_IDENTITY_IN_META = frozenset({"name", "namespace", "uid", "resourceVersion", "managedFields"})

# The fields with quantities: in other fields, "1.0" and "1" are different texts.
_QUANTITY_HOLDERS = frozenset(
    {
        *("requests", "limits", "hard", "capacity", "allocatable", "overhead", "target"),
        *("default", "defaultRequest", "max", "min", "maxLimitRequestRatio"),
    }
)
_QUANTITY_NAMES = frozenset({"sizeLimit", "averageValue", "divisor"})
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(|m|u|n|k|M|G|T|P|E|[KMGTPE]i)")
_DECIMAL_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def get_applied_fields(body: Mapping[str, Any], manager: str) -> Tree | None:
    """The fields that the manager has applied to the object; ``None`` if it never did."""
    entry = _find_applied(body, manager)
    fields = None if entry is None else entry.get("fieldsV1")
    return fields if entry is None or isinstance(fields, Mapping) else {}


def _find_applied(body: Mapping[str, Any], manager: str) -> Mapping[str, Any] | None:
    for entry in (body.get("metadata") or {}).get("managedFields") or ():
        is_ours = entry.get("manager") == manager and entry.get("operation") == "Apply"
        if is_ours and not entry.get("subresource"):
            return cast("Mapping[str, Any]", entry)
    return None


def find_drift(
    wanted: Mapping[str, Any],
    live: Mapping[str, Any],
    *,
    manager: str,
    ignored: Collection[FieldPath] = frozenset(),
) -> FieldPath | None:
    """The first field in which the object is not as wanted; ``None`` if applying changes nothing.

    Only the wanted fields count, and the fields that the manager has applied earlier. Defaults and
    the fields of other managers do not count. The path is empty if the manager has never applied
    anything, or if the server does not tell. For such servers, ignore the empty path: then, only
    the wanted fields are compared. Known blind spot: in atomic fields, which are always set
    as a whole, an unwanted value looks the same as a default. The ``ignored`` fields never differ.

    If the object is known in another version of its kind, its fields can be different. Then, only
    the values of the metadata are compared: a client that changes another field takes it from us.
    """
    owned = get_applied_fields(live, manager)
    rest = {key: value for key, value in wanted.items() if key not in _IDENTITY}
    metadata = wanted.get("metadata") or {}
    rest["metadata"] = {k: v for k, v in metadata.items() if k not in _IDENTITY_IN_META}
    if owned is None:
        return None if () in ignored and covers(live, rest) else ()
    if not rest["metadata"] and "f:metadata" not in owned:
        del rest["metadata"]
    if wanted.get("apiVersion", live.get("apiVersion")) != live.get("apiVersion"):
        return _find_drift_over_versions(wanted, rest, live, manager, ignored)
    if not ignored and _is_settled(rest, live, owned):
        return None
    return _compare_fields(rest, live, owned, (), ignored)


def _find_drift_over_versions(
    wanted: Mapping[str, Any],
    rest: Mapping[str, Any],
    live: Mapping[str, Any],
    manager: str,
    ignored: Collection[FieldPath],
) -> FieldPath | None:
    entry = _find_applied(live, manager) or {}
    if entry.get("apiVersion") != wanted.get("apiVersion"):
        return ()
    owned = entry.get("fieldsV1") or {}
    meta, known = rest.get("metadata") or {}, live.get("metadata") or {}
    found = _compare_fields(meta, known, owned.get("f:metadata") or {}, ("metadata",), ignored)
    return _find_lost(rest, owned, (), ignored) if found is None else found


def _find_lost(
    wanted: Any, owned: Tree, path: FieldPath, ignored: Collection[FieldPath]
) -> FieldPath | None:
    """The first wanted field that is not ours. Empty fields can have no manager."""
    if not owned.keys() - {"."}:
        return None
    if isinstance(wanted, _MAPPINGS):
        parts = [(key, value, owned.get(f"f:{key}")) for key, value in wanted.items()]
    else:
        parts = [(n, item, _find_item(item, owned)) for n, item in enumerate(wanted or ())]
    for key, value, below in parts:
        here = (*path, f"{key}")
        if value is None or here in ignored:
            continue
        if below is None and not _is_omitted(value, is_owned=False):
            return here
        found = None if below is None else _find_lost(value, below, here, ignored)
        if found is not None:
            return found
    return None


def _find_item(item: Any, owned: Tree) -> Tree | None:
    """The owned fields of the item of a list with keys, or of a set."""
    for element, below in owned.items():
        if element.startswith("v:") and json.loads(element[2:]) == item:
            return cast("Tree", below)
        if element.startswith("k:"):
            keys = json.loads(element[2:])
            if _has_keys(item, keys, strict=False):
                return {**_own(keys), **below} if below.keys() - {"."} else {}
    return None


def _is_settled(wanted: Any, live: Any, owned: Tree) -> bool:
    """Whether all fields are surely as wanted, and are ours, as in nearly all cases.

    This is several times faster than to look for differences. If unsure, it is false.
    """
    if type(wanted) is not type(live):
        return False
    if not owned:
        return bool(wanted == live) if isinstance(wanted, str | int) else covers(live, wanted)
    if isinstance(wanted, dict):
        return len(wanted) == len(owned) - ("." in owned) and _are_settled(wanted, live, owned)
    if not isinstance(wanted, list) or len(wanted) != len(owned) - ("." in owned):
        return False
    # All owned items are there. There are as many of them as wanted items, so these are all.
    is_whole = not any(below for element, below in owned.items() if element != ".")
    return is_whole and bool(wanted == live)


def _are_settled(wanted: dict[str, Any], live: dict[str, Any], owned: Tree) -> bool:
    """The same check of all fields of one mapping; most fields are strings, which need no calls."""
    for key, value in wanted.items():
        below = owned.get(f"f:{key}")
        if below is None or key not in live:
            return False
        fact = live[key]
        if type(value) is str and not below:
            if type(fact) is not str or value != fact:
                return False
        elif not _is_settled(value, fact, below):
            return False
    return True


def _compare_fields(
    wanted: Any, live: Any, owned: Tree, path: FieldPath, ignored: Collection[FieldPath]
) -> FieldPath | None:
    """Compare the fields of one mapping."""
    if not isinstance(wanted, _MAPPINGS) or not isinstance(live, _MAPPINGS):
        return path
    for element in owned:
        is_left = element.startswith("f:") and element[2:] not in wanted
        if is_left and (*path, element[2:]) not in ignored:
            return (*path, element[2:])
    for key, value in wanted.items():
        if value is None or (ignored and (*path, key) in ignored):
            continue
        below = owned.get(f"f:{key}")
        if key not in live and _is_omitted(value, is_owned=below is not None):
            continue
        if _is_defaulted(value, live.get(key), below):
            continue
        if below is None or key not in live:
            return (*path, key)
        found = _compare(value, live[key], below, (*path, key), ignored)
        if found is not None:
            return found
    return None


def _compare(
    wanted: Any, live: Any, owned: Tree, path: FieldPath, ignored: Collection[FieldPath]
) -> FieldPath | None:
    elements = [element for element in owned if element != "."]
    if not elements:
        return None if covers(live, wanted, path) else path
    if elements[0].startswith("k:"):
        return _compare_items(wanted, live, owned, path, ignored)
    if elements[0].startswith("v:"):
        return _compare_set(wanted, live, elements, path)
    return _compare_fields(wanted, live, owned, path, ignored)


def _compare_items(
    wanted: Any, live: Any, owned: Tree, path: FieldPath, ignored: Collection[FieldPath]
) -> FieldPath | None:
    """Compare the items of a list with keys, wherever they are in the list."""
    if not _is_list(wanted) or not _is_list(live):
        return path
    left = list(wanted)
    for element, below in owned.items():
        if not element.startswith("k:"):
            continue
        keys = json.loads(element[2:])
        item = next((item for item in left if _has_keys(item, keys, strict=False)), None)
        real = next((item for item in live if _has_keys(item, keys, strict=True)), None)
        here = (*path, ",".join(f"{value}" for value in keys.values()))
        if item is None or real is None:
            if here not in ignored:
                return here
            continue
        left.remove(item)
        if not below.keys() - {"."} and item.keys() - keys.keys():  # set as a whole
            if not covers(real, item, here) and here not in ignored:
                return here
            continue
        # Omitted keys are defaults; but the manager owns them, since they identify the item.
        found = _compare_fields({**keys, **item}, real, {**_own(keys), **below}, here, ignored)
        if found is not None:
            return found
    return path if left else None


def _own(keys: Iterable[str]) -> Tree:
    return {f"f:{key}": {} for key in keys}


def _has_keys(item: Any, keys: Mapping[str, Any], *, strict: bool) -> bool:
    return isinstance(item, _MAPPINGS) and all(
        item.get(key) == value or (not strict and key not in item) for key, value in keys.items()
    )


def _compare_set(
    wanted: Any, live: Any, elements: Sequence[str], path: FieldPath
) -> FieldPath | None:
    if not _is_list(wanted) or not _is_list(live):
        return path
    values = [json.loads(element[2:]) for element in elements]
    is_same = all(value in wanted for value in values) and len(values) == len(wanted)
    return None if is_same and all(value in live for value in wanted) else path


def covers(live: Any, wanted: Any, path: FieldPath = ()) -> bool:
    """Whether all wanted values are there; all other values in mappings are defaults."""
    if type(wanted) is str and type(live) is str and wanted == live:
        return True  # the most frequent case
    if isinstance(wanted, _MAPPINGS):
        return isinstance(live, _MAPPINGS) and all(
            covers(live[key], value, (*path, key)) if key in live else not value
            for key, value in wanted.items()
        )
    if _is_list(wanted):
        return (
            _is_list(live)
            and len(live) == len(wanted)
            and all(covers(a, b, path) for a, b in zip(live, wanted, strict=True))
        )
    if live == wanted and isinstance(live, bool) == isinstance(wanted, bool):
        return True
    return _is_quantity(path) and _is_same_quantity(live, wanted)


def _is_omitted(value: Any, *, is_owned: bool) -> bool:
    """Whether servers store nothing for such a value: Go omits empty values.

    If another client has removed the field, the manager does not own it anymore.
    """
    return not value and (is_owned or isinstance(value, Mapping | Sequence))


def _is_defaulted(value: Any, live: Any, owned: Tree | None) -> bool:
    """Whether an empty value is wanted, and the field is empty, or has the default of the server.

    If another client had set a value there, the field would not be ours anymore.
    """
    if value or not isinstance(value, str | Mapping | Sequence):
        return False
    return not live if owned is None else not owned.keys() - {"."}


def _is_list(value: Any) -> bool:
    return type(value) is list or (
        isinstance(value, Sequence) and not isinstance(value, str | bytes)
    )


def _is_quantity(path: FieldPath) -> bool:
    return len(path) > 1 and (path[-1] in _QUANTITY_NAMES or path[-2] in _QUANTITY_HOLDERS)


def _is_same_quantity(one: Any, other: Any) -> bool:
    """Servers store quantities in their shortest form: e.g. ``1000m`` as ``1``."""
    number = _parse_quantity(one)
    return number is not None and number == _parse_quantity(other)


def _parse_quantity(value: Any) -> decimal.Decimal | None:
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    try:
        number = decimal.Decimal(match[1])
    except decimal.InvalidOperation:
        return None
    if match[2] in _BINARY_POWERS:
        return number * decimal.Decimal(2) ** _BINARY_POWERS[match[2]]
    return number.scaleb(_DECIMAL_POWERS.get(match[2], 18))
