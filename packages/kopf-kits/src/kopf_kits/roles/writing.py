"""Writing: the needs of an operator as manifests of roles, with the purpose of each rule."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kopf_cogs.clients.rights import Right, make_rules
from kopf_core.reactor.life.needs import Needs

API = "rbac.authorization.k8s.io"
WIDTH = 100
MAX_PURPOSES = 6
"""How many handlers the comment of one rule names."""

_PLAIN = re.compile(r"[A-Za-z][-A-Za-z0-9./]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""The words that mean something else in YAML if they are not quoted."""


@dataclass(frozen=True)
class Account:
    """A service account that gets the roles."""

    name: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.name}@{self.namespace}"


def write_roles(
    needs: Needs, name: str, *, account: Account | None = None, remarks: Collection[str] = ()
) -> str:
    """The manifests: a role for each namespace, or for the whole cluster; with their bindings."""
    documents = [] if account is None else [_write_account(account)]
    for place in sorted(needs, key=lambda place: place or ""):
        documents.append("\n".join(_write_role(name, place, needs[place])))
        if account is not None:
            documents.append("\n".join(_write_binding(name, place, account)))
    head = "".join(f"{line}\n" for remark in remarks for line in _comment(remark, ""))
    return head + "\n---\n".join(documents) + "\n"


def _write_account(account: Account) -> str:
    name, namespace = _quote(account.name), _quote(account.namespace)
    return (
        f"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n  namespace: {namespace}"
    )


def _write_head(kind: str, name: str, place: str | None) -> Iterator[str]:
    yield f"apiVersion: {API}/v1"
    yield f"kind: {kind if place is not None else f'Cluster{kind}'}"
    yield "metadata:"
    yield f"  name: {_quote(name)}"
    if place is not None:
        yield f"  namespace: {_quote(place)}"


def _write_role(
    name: str, place: str | None, rights: Mapping[Right, Collection[str]]
) -> Iterator[str]:
    yield from _write_head("Role", name, place)
    yield "rules:"
    purposes: dict[tuple[str, ...], list[Right]] = {}
    for right, its_purposes in rights.items():
        purposes.setdefault(tuple(its_purposes), []).append(right)
    for key, its_rights in purposes.items():
        yield from _comment(describe(key), "  ")
        for rule in make_rules(its_rights):
            for number, (field, values) in enumerate(rule.items()):
                yield f"  {' ' if number else '-'} {field}: [{', '.join(map(_quote, values))}]"


def _write_binding(name: str, place: str | None, account: Account) -> Iterator[str]:
    yield from _write_head("RoleBinding", name, place)
    yield "roleRef:"
    yield f"  apiGroup: {API}"
    yield f"  kind: {'ClusterRole' if place is None else 'Role'}"
    yield f"  name: {_quote(name)}"
    yield "subjects:"
    yield "  - kind: ServiceAccount"
    yield f"    name: {_quote(account.name)}"
    yield f"    namespace: {_quote(account.namespace)}"


def describe(purposes: Collection[str]) -> str:
    """The purposes of a right in one sentence."""
    shown = [*purposes][:MAX_PURPOSES]
    more = len(purposes) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "") + "."


def _comment(text: str, indent: str) -> Iterator[str]:
    prefix = f"{indent}# "
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False
    )


def _quote(text: str) -> str:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if is_plain else json.dumps(text)
