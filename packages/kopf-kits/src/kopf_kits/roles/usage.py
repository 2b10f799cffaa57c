"""Usage: the own requests of handlers, as tests have seen them."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kopf_cogs.clients.objects import APPLY_PATCH, APPLYING_VERBS
from kopf_cogs.clients.rights import Right, is_permitted, suggest
from kopf_kits.manifests import ManifestError, read_manifests

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}


class UsageFileError(Exception):
    """The file is not what the tests have written."""

    expected = True


class Used(NamedTuple):
    """A right that was used, and whether it was in a namespace."""

    right: Right
    namespaced: bool


@dataclass
class Usage:
    """The rights that handlers have used through ``kopf.api``, with the names of the handlers."""

    used: dict[Used, set[str]] = field(default_factory=dict)

    def note(self, method: str, url: str, content_type: str, user: str) -> None:
        """Remember a request; requests that are not about objects need no rights."""
        from kopf_kits.sandbox.http.routing import parse  # the command line does not need it

        target = parse(url.partition("?")[0])
        if target is None or not target.plural:
            return
        verbs: Collection[str] = (VERBS.get(method, method.lower()),)
        if target.name is None and method == "GET":
            verbs = ("list",)
        elif content_type == APPLY_PATCH and target.subresource is None:
            verbs = APPLYING_VERBS
        resource = "/".join(filter(None, [target.plural, target.subresource]))
        for verb in verbs:
            one = Used(Right(target.group, resource, verb), target.namespace is not None)
            self.used.setdefault(one, set()).add(user)

    def add(self, other: Usage) -> None:
        """Remember also the rights of the other usage."""
        for one, users in other.used.items():
            self.used.setdefault(one, set()).update(users)

    def check(self, *paths: str | os.PathLike[str]) -> None:
        """Fail if something was used that is not permitted by the roles in these manifests.

        Raises :class:`AssertionError` which names the missing rules and the handlers,
        :class:`ManifestError` if the files cannot be read or have no roles.
        """
        rules = _read_rules([pathlib.Path(path) for path in paths])
        missing = {
            one.right: users
            for one, users in sorted(self.used.items())
            if not any(is_permitted(rule, one.right) for rule in rules)
        }
        if missing:
            users = ", ".join(sorted({user for users in missing.values() for user in users}))
            raise AssertionError(
                f"These rights are used by {users}, but are not in the roles: {suggest(missing)}"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Add it to the file, which can be there from other tests: for ``kopf rbac --used``."""
        target = pathlib.Path(path)
        merged = Usage() if not target.exists() else load_usage(target)
        merged.add(self)
        items = [
            {
                "group": one.right.group,
                "resource": one.right.resource,
                "verb": one.right.verb,
                "namespaced": one.namespaced,
                "handlers": sorted(users),
            }
            for one, users in sorted(merged.used.items())
        ]
        text = json.dumps({"used": items}, indent=2)
        target.write_text(f"{text}\n", encoding="utf-8")


def load_usage(path: pathlib.Path) -> Usage:
    """Read the file that the tests have written. Raises :class:`UsageFileError`."""
    try:
        items: Iterable[Mapping[str, Any]] = json.loads(path.read_text("utf-8"))["used"]
        return Usage(
            {
                Used(
                    Right(str(item["group"]), str(item["resource"]), str(item["verb"])),
                    bool(item["namespaced"]),
                ): {str(name) for name in item["handlers"]}
                for item in items
            }
        )
    except OSError as e:
        raise UsageFileError(f"{path}: {e.strerror or e}") from None
    except (ValueError, LookupError, TypeError):
        raise UsageFileError(f"{path}: it is not a file of used rights.") from None


def merge_usages(paths: Collection[pathlib.Path]) -> Usage:
    """The usage from all of these files."""
    merged = Usage()
    for path in paths:
        merged.add(load_usage(path))
    return merged


def _read_rules(paths: Collection[pathlib.Path]) -> list[Mapping[str, Any]]:
    kinds = ("Role", "ClusterRole")
    roles = [obj for _, obj in read_manifests(paths) if obj["kind"] in kinds]
    if not roles:
        raise ManifestError(f"There are no roles in {', '.join(map(str, paths))}.")
    return [rule for role in roles for rule in role.get("rules") or ()]
