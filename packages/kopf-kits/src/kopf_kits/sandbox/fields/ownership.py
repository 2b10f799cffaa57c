"""Sets of fields as in ``managedFields``: trees of path elements, never modified in place.

The elements are the same as in ``FieldsV1``: ``f:name`` for fields, ``k:{...}`` for items of lists
with keys, ``v:...`` for items of sets. An empty tree is a member of the set; a tree with others
under it is a member only if it has ``.`` among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.schemas.schemas import Node

Tree = dict[str, Any]
Path = tuple[str, ...]
Key = Callable[[Any], str]


def insert(tree: Tree, path: Path) -> Tree:
    """The set with one more member."""
    head, rest = path[0], path[1:]
    result = dict(tree)
    known = tree.get(head)
    if not rest:
        if known is None:
            result[head] = {}
        elif known:
            result[head] = {".": {}, **known}
        return result
    if known is not None and not known and head != ".":
        known = {".": {}}
    result[head] = insert(known or {}, rest)
    return result


def remove(tree: Tree, path: Path) -> Tree:
    """The set without the member and all that is under it; the same set if it was not there."""
    head, rest = path[0], path[1:]
    known = tree.get(head)
    if known is None:
        return tree
    left = remove(known, rest) if rest else {}
    if rest and left is known:
        return tree
    result = dict(tree)
    if left:
        result[head] = {} if set(left) == {"."} else left
    else:
        del result[head]
    return result


def has_any(tree: Tree, path: Path) -> bool:
    """Whether the path, or anything under it, is in the set."""
    for element in path:
        if element not in tree:
            return False
        tree = tree[element]
    return True


def members(tree: Tree, prefix: Path = ()) -> Iterator[Path]:
    """The paths of all the members."""
    for element, child in tree.items():
        if element == ".":
            yield prefix
        elif child:
            yield from members(child, (*prefix, element))
        else:
            yield (*prefix, element)


def show(path: Path) -> str:
    """The path as it is written in messages, e.g. ``.spec.containers[name="main"].image``."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            pairs = sorted(jsons.loads(rest).items())
            shown = (f"{key}={jsons.dumps(value).decode()}" for key, value in pairs)
            text += f"[{','.join(shown)}]"
        elif kind == "v":
            text += f"[={rest}]"
        elif kind == "i":
            text += f"[{rest}]"
    return text


def list_keys(node: Node | None) -> Key | None:
    """How the items of the list are told apart; none if the list is atomic."""
    if node is None:
        return None
    kind = node.spec.get("x-kubernetes-list-type")
    names = node.spec.get("x-kubernetes-list-map-keys") or ()
    if kind == "set":
        return lambda item: f"v:{jsons.dumps(item).decode()}"
    if kind != "map" or not names:
        return None
    items = node.items

    def key(item: Any) -> str:
        found = {}
        for name in names:
            value = item.get(name)
            if value is None and items is not None and items.child(name) is not None:
                spec = items.properties[name].spec if name in items.properties else {}
                value = spec.get("default", "TCP" if name == "protocol" else None)
            if value is not None:
                found[name] = value
        return f"k:{jsons.dumps(found).decode()}"

    return key


def is_atomic(node: Node | None) -> bool:
    """Whether the object is owned as a whole."""
    return node is not None and node.spec.get("x-kubernetes-map-type") == "atomic"


def child_of(node: Node | None, name: str) -> Node | None:
    return node.child(name) if node is not None else None


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same as JSON (in Python, also ``1 == True``)."""
    return one is other or (one == other and jsons.dumps(one) == jsons.dumps(other))
