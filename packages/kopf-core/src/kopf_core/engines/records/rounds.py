"""Rounds: which fields the operator itself changes, in the loops of its own changes."""

from collections.abc import Iterable, Iterator, Mapping

from kopf_cogs.structs.dicts import FieldPath, is_mapping
from kopf_cogs.structs.patches import Patch

MAX_FIELDS = 32
"""The number of fields in one patch that are distinguished; above it, any field can be ours."""

ANY_FIELD: FieldPath = ()


def find_fields(*patches: Patch) -> frozenset[FieldPath]:
    """Find the fields that the patches change. Functions can change any field."""
    fields = frozenset(path for patch in patches for path in _walk(patch, ()))
    has_functions = any(patch.fns for patch in patches)
    return frozenset({ANY_FIELD}) if has_functions or len(fields) > MAX_FIELDS else fields


def _walk(value: Mapping[str, object], path: FieldPath) -> Iterator[FieldPath]:
    for key, item in value.items():
        field = (*path, key)
        if is_mapping(item) and item:
            yield from _walk(item, field)
        else:
            yield field


def describe_fields(fields: Iterable[FieldPath]) -> str:
    """The fields as a text for people; empty if they are unknown."""
    return join("field", [repr(".".join(field)) for field in sorted(fields) if field != ANY_FIELD])


def join(noun: str, names: list[str]) -> str:
    """The names with the noun before them; empty if there are none."""
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join(dict.fromkeys(names))}" * bool(names)
