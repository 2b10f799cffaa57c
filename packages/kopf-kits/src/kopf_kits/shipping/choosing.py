"""The values of the chart for an operator: what its handlers serve, and what they make."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.intents.admission import WebhookHandler
from kopf_core.intents.registries import OperatorRegistry

OWNING = ["create", "delete", "get", "list", "patch", "watch"]
LOOKING = ["get", "list", "watch"]
HANDLING = ["get", "list", "patch", "watch"]


class UnknownKindError(Exception):
    """It is not known which kind is meant in the code."""

    expected = True


def make_permissions(registry: OperatorRegistry, known: Collection[Resource]) -> dict[str, Any]:
    """The values about rights: for the handled kinds, and for those owned and related to them.

    Raises :class:`UnknownKindError` if some of the kinds are not known.
    """
    served = _resolve((one.selector for one in registry.resource_handlers), known)
    owned = _resolve((kind for one in registry.reconcilers for kind in one.owns), known)
    related = _resolve((kind for one in registry.reconcilers for kind in one.related), known)
    rules, wide = _make_rules(owned, OWNING), _make_wide_rules(owned, OWNING)
    rules += _make_rules(related - owned, LOOKING)
    wide += _make_wide_rules(related - owned, LOOKING) + _make_wide_rules(served, HANDLING)
    local = {resource for resource in served if resource.namespaced is not False}
    kinds = [{"group": group, "resources": names} for group, names in _group(local).items()]
    has_admission = any(isinstance(one, WebhookHandler) for one in registry.resource_handlers)
    values: dict[str, Any] = {"kinds": kinds, "rules": rules}
    values |= {"clusterRules": wide} if wide else {}
    needed = {"conversions": True} if registry.conversions else {}
    return values | ({"webhooks": {"enabled": True, **needed}} if has_admission or needed else {})


def _make_rules(resources: Collection[Resource], verbs: list[str]) -> list[dict[str, Any]]:
    local = [resource for resource in resources if resource.namespaced is not False]
    return [_make_rule(group, names, verbs) for group, names in _group(local).items()]


def _make_wide_rules(resources: Collection[Resource], verbs: list[str]) -> list[dict[str, Any]]:
    """For the kinds that are in no namespace: a role of a namespace cannot permit these."""
    rules = []
    for group, names in _group(one for one in resources if one.namespaced is False).items():
        rules.append(_make_rule(group, names, verbs))
        if verbs is HANDLING:
            rules.append(_make_rule(group, [f"{name}/status" for name in names], ["patch"]))
    return rules


def _resolve(selectors: Iterable[Selector | None], known: Collection[Resource]) -> set[Resource]:
    found: set[Resource] = set()
    for selector in selectors:
        if selector is None:
            continue
        chosen = selector.select(known)
        if not chosen:
            what = selector.plural or selector.any_name or selector
            text = f"The kind {what!s} is not known: name the manifest with its definition by -f."
            raise UnknownKindError(text)
        found.update(chosen)
    return found


def _group(resources: Iterable[Resource]) -> dict[str, list[str]]:
    groups: dict[str, set[str]] = {}
    for resource in resources:
        groups.setdefault(resource.group, set()).add(resource.plural)
    return {group: sorted(names) for group, names in sorted(groups.items())}


def _make_rule(group: str, names: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": names, "verbs": [*verbs]}
