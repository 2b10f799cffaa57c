"""Sharing: equal parts of many objects are kept in memory once.

This pays off only where objects are kept in thousands. Only parts that are never modified are
shared: texts, and managed fields.
"""

from collections.abc import Callable
from typing import Any

from kopf_cogs.structs.bodies import RawBody
from kopf_core.reactor.streams.stores import Transform

SHARED_LIMIT = 10_000
"""How many different texts, and branches of managed fields, to remember. Usually, a few dozens are
shared. When there are more than the limit, all are forgotten, and remembered again.
"""

_TELLING = ("namespace", "name", "uid", "creationTimestamp")
"""The fields whose texts repeat in other objects: e.g. all children name their owners."""


def keep_fields_of(get_manager: Callable[[], str]) -> Transform:
    """Make a function that drops the managed fields of other managers: they are big, and not
    needed.

    The kept fields are nearly the same in all objects, so they are shared. The manager is asked for
    each time, as it is unknown until the operator is configured.
    """
    branches: dict[Any, Any] = {}
    texts: dict[str, str] = {}

    def transform(body: RawBody) -> RawBody:
        meta: dict[str, Any] = {**body["metadata"]}
        entries = meta.get("managedFields")
        if not isinstance(entries, list):
            return body
        for known in (branches, texts):
            if len(known) > SHARED_LIMIT:
                known.clear()
        manager = get_manager()
        meta["managedFields"] = [
            {**e, "fieldsV1": _share_branches(e.get("fieldsV1"), branches)[0]}
            for e in entries
            if isinstance(e, dict) and e.get("manager") == manager
        ]
        kept: Any = {**body, "metadata": meta}
        _share_texts(kept, texts)
        return kept  # type: ignore[no-any-return]

    return transform


def _share_texts(body: dict[str, Any], texts: dict[str, str]) -> None:
    """Replace texts by equal ones that are remembered, in the fields where texts repeat."""
    share, meta = texts.setdefault, body["metadata"]
    for field in _TELLING:
        text = meta.get(field)
        if type(text) is str:
            meta[field] = share(text, text)
    refs, labels = meta.get("ownerReferences"), meta.get("labels")
    parts = [body, labels, *(refs if type(refs) is list else ()), *meta["managedFields"]]
    for part in parts:
        for key, value in part.items() if type(part) is dict else ():
            if type(value) is str:
                part[key] = share(value, value)


def _share_branches(tree: Any, known: dict[Any, Any]) -> tuple[Any, bool]:
    """The same tree made of known branches, if possible; and whether all its branches are known.

    Keys with values of the object's lists in them (``k:``, ``v:``) are hardly ever the same.
    """
    if not isinstance(tree, dict):
        return tree, False
    branches, is_common = {}, True
    leaf = known.setdefault((), {})
    for key, branch in tree.items():
        if branch == leaf:  # as most branches are
            branches[key] = leaf
        else:
            branches[key], is_shared = _share_branches(branch, known)
            is_common = is_common and is_shared
        is_common = is_common and key[:2] not in ("k:", "v:")
    if not is_common:
        return branches, False
    return known.setdefault(tuple((key, id(b)) for key, b in branches.items()), branches), True
