"""Stored objects against new schemas: objects that do not fit, and fields that they would lose."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from kopf_kits.definitions.comparing import Change, is_converted
from kopf_kits.sandbox.base.remarks import Doubt
from kopf_kits.sandbox.schemas.schemarules import check_rules
from kopf_kits.sandbox.schemas.schemas import Node, apply_defaults, compile_schema, prune
from kopf_kits.sandbox.schemas.validation import validate

Obj = Mapping[str, Any]


class Judge:
    """Finds problems of objects with a definition, in their own versions, or in the stored one.

    If no webhook converts the objects, it checks them in all other versions, too.
    """

    def __init__(self, definition: Obj, *, is_converted: bool) -> None:
        super().__init__()
        self._is_converted = is_converted
        self.kind = definition["spec"]["names"]["kind"]
        self.schemas = {
            version["name"]: version["schema"]["openAPIV3Schema"]
            for version in definition["spec"]["versions"]
        }
        self._nodes = {name: compile_schema(schema) for name, schema in self.schemas.items()}
        self._stored = next(v["name"] for v in definition["spec"]["versions"] if v["storage"])

    def judge(self, obj: dict[str, Any]) -> list[Change]:
        """The problems of the object. Rules that Kopf cannot evaluate here are no problems."""
        metadata = obj["metadata"]
        name = "/".join(filter(None, [metadata.get("namespace"), metadata["name"]]))
        return [Change(f"{self.kind} {name}", text) for text in self._find(obj)]

    def _find(self, obj: dict[str, Any]) -> list[str]:
        version = obj["apiVersion"].rpartition("/")[2]
        if version not in self._nodes:
            version = self._stored
        found = _find_problems(self._nodes[version], obj)
        for other, node in self._nodes.items():
            if other != version and not self._is_converted:
                found += [f"as {other}: {text}" for text in _find_problems(node, obj)]
        return found


async def find_misfits(old: Obj, new: Obj, objects: AsyncIterator[dict[str, Any]]) -> list[Change]:
    """The problems of the objects with the new definition, but not with the old one.

    Kopf does not even read the objects if the schemas are the same.
    """
    before = Judge(old, is_converted=is_converted(old))
    after = Judge(new, is_converted=is_converted(old, new))
    if before.schemas == after.schemas:
        return []
    found: list[Change] = []
    async for obj in objects:
        known = before.judge(obj)
        found.extend(change for change in after.judge(obj) if change not in known)
    return found


def _find_problems(node: Node, obj: dict[str, Any]) -> list[str]:
    lost: list[str] = []
    kept = apply_defaults(node, prune(node, obj, lost))
    causes = list(validate(node, kept))
    rules = [] if causes else list(check_rules(node, kept))
    wrong = [str(cause) for cause in (*causes, *rules) if not isinstance(cause, Doubt)]
    return [*(f"{path} would be lost{_name_clients(obj, path)}" for path in lost), *wrong]


def _name_clients(obj: Obj, path: str) -> str:
    """The names of the clients that have set the field, as the API server knows them."""
    names = [part for part in re.split(r"[.\[\]]+", path) if part]
    clients = {
        str(entry.get("manager"))
        for entry in obj["metadata"].get("managedFields") or ()
        if _manages(entry.get("fieldsV1") or {}, names)
    }
    return f" (it is set by {', '.join(sorted(clients))})" if clients else ""


def _manages(fields: Obj, names: Sequence[str]) -> bool:
    """Whether the client has set the field, a part of the field, or a parent as a whole."""
    for name in names:
        if name.isdecimal():  # managers have items of lists with no indices
            return True
        if f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
        if not fields:
            return True
    return True
