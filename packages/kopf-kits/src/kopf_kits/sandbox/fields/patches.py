"""Merge patches and JSON patches. They keep the given object as it is, and share its parts."""

from __future__ import annotations

from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.statuses import bad_request, rejected_patch


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386); nulls never get into the result."""
    if not isinstance(patch, dict) or not isinstance(target, dict):
        return _without_nulls(patch)
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif result.get(key) is None:
            result[key] = _without_nulls(value)
        else:
            result[key] = merge(result[key], value)
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def apply_json_patch(target: dict[str, Any], operations: Any) -> dict[str, Any]:
    """Apply a JSON patch (RFC 6902); 422 if a test fails or a path does not exist."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "jsonpatch.Patch"
        )
    document = jsons.clone(target)
    for operation in operations:
        document = _apply_operation(document, operation)
    return document  # type: ignore[no-any-return]


def _apply_operation(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Operation"
        )
    path = _pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            return _add(document, path, jsons.clone(operation.get("value")))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, jsons.clone(operation.get("value")))
        case "test":
            _test(document, path, operation.get("value"))
            return document
        case "move":
            source = _pointer(operation.get("from"))
            value = _resolve(document, source)
            return _add(_remove(document, source), path, value)
        case "copy":
            value = _resolve(document, _pointer(operation.get("from")))
            return _add(document, path, jsons.clone(value))
    raise rejected_patch()


def _pointer(text: Any) -> list[str]:
    if text == "":
        return []
    if not isinstance(text, str) or not text.startswith("/"):
        raise rejected_patch()
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(items: list[Any], token: str, *, end: int) -> int:
    try:
        index = int(token)
    except ValueError:
        raise rejected_patch() from None
    if index < 0:
        index += end
    if not 0 <= index < end:
        raise rejected_patch()
    return index


def _step(value: Any, token: str) -> Any:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, list):
        return value[_index(value, token, end=len(value))]
    raise rejected_patch()


def _resolve(document: Any, path: list[str]) -> Any:
    for token in path:
        document = _step(document, token)
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, token = _resolve(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[token] = value
    elif isinstance(parent, list):
        end = len(parent) + 1
        parent.insert(len(parent) if token == "-" else _index(parent, token, end=end), value)
    else:
        raise rejected_patch()
    return document


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        raise rejected_patch()
    parent, token = _resolve(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        del parent[_index(parent, token, end=len(parent))]
    else:
        _step(parent, token)
        del parent[token]
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, token = _resolve(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent[_index(parent, token, end=len(parent))] = value
    elif isinstance(parent, dict):
        parent[token] = value  # An absent key is not an error for API servers.
    else:
        raise rejected_patch()
    return document


def _test(document: Any, path: list[str], value: Any) -> None:
    found = document
    if path:
        parent = _resolve(document, path[:-1])
        # A missing key equals null for tests, as in the library which API servers use.
        found = parent.get(path[-1]) if isinstance(parent, dict) else _step(parent, path[-1])
    if jsons.dumps(found) != jsons.dumps(value):
        raise rejected_patch()
