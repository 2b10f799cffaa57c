"""Checks of volume claims: they are as they were made, but can grow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from kopf_kits.sandbox.base.statuses import Cause
from kopf_kits.sandbox.store.rules import Obj

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE]?)|[eE]([+-]?[0-9]+))"
)
_DECIMALS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARIES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_IMMUTABLE = (
    "Forbidden: spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName for bound claims"
)


def check_claim(obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """Only the size can change, and it never goes below the size of the volume.

    There are no volumes here, unless a client binds the claims. Unbound claims can grow
    nevertheless (API servers refuse it), but not shrink, as if there was a volume for each.
    """
    if old is None:
        return
    new_spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    if _get_fixed(new_spec, old_spec) != _get_fixed(old_spec, old_spec):
        yield Cause("FieldValueForbidden", "spec", _IMMUTABLE)
    new_size, old_size = _get_size(new_spec.get("resources")), _get_size(old_spec.get("resources"))
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage")
    least = old_size if capacity is None else parse_quantity(capacity)
    if new_size is None or old_size is None or least is None or new_size >= old_size:
        return
    if capacity is None or new_size <= least:
        what = "previous value" if capacity is None else "status.capacity"
        text = f"Forbidden: field can not be less than {what}"
        yield Cause("FieldValueForbidden", "spec.resources.requests.storage", text)


def _get_fixed(spec: Obj, old: Obj) -> Obj:
    """The fields that never change; a claim gets its volume once."""
    free = {"volumeAttributesClassName", *(() if old.get("volumeName") else ("volumeName",))}
    fixed = {name: value for name, value in spec.items() if name not in free}
    resources = fixed.pop("resources", None) or {}
    return {**fixed, "resources": {k: v for k, v in resources.items() if k != "requests"}}


def _get_size(resources: Any) -> Decimal | None:
    return parse_quantity(((resources or {}).get("requests") or {}).get("storage"))


def parse_quantity(value: Any) -> Decimal | None:
    """An amount such as ``1Gi``, ``500M``, ``2e3``; ``None`` if it is not one."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    number, suffix, exponent = match.groups()
    if suffix in _BINARIES:
        return Decimal(number) * Decimal(1 << _BINARIES[suffix])
    return Decimal(number).scaleb(int(exponent or 0) + _DECIMALS[suffix or ""])
