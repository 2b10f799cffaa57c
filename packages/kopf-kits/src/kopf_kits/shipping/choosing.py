"""The values of the chart for an operator: what its handlers serve, and what they make."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.intents.webhooks import WebhookHandler

OWNING = ["create", "delete", "get", "list", "patch", "watch"]
LOOKING = ["get", "list", "watch"]
HANDLING = ["get", "list", "patch", "watch"]


class UnknownKindError(Exception):
    """It is not known which kind is meant in the code."""

    expected = True


def make_permissions(registry: OperatorRegistry, known: Collection[Resource]) -> dict[str, Any]:
    """The values about rights: for the kinds that are changed, owned, related, or only looked at.

    Raises :class:`UnknownKindError` if some of the kinds are not known.
    """
    webhooks = [one for one in registry.resource_handlers if isinstance(one, WebhookHandler)]
    handlers = [one for one in registry.resource_handlers if one not in webhooks]
    served = _resolve((one.selector for one in handlers if one.requires_patching), known)
    seen = _resolve((one.selector for one in handlers if not one.requires_patching), known)
    owned = _resolve((kind for one in registry.reconcilers for kind in one.owns), known)
    seen |= _resolve((kind for one in registry.reconcilers for kind in one.related), known)
    seen -= owned | served
    rules = _make_rules(owned, OWNING) + _make_rules(seen, LOOKING)
    wide = [
        *_make_wide_rules(owned, OWNING),
        *_make_wide_rules(seen, LOOKING),
        *_make_wide_rules(served, HANDLING),
    ]
    local = {resource for resource in served if resource.namespaced is not False}
    kinds = [{"group": group, "resources": names} for group, names in _group(local).items()]
    values: dict[str, Any] = {"kinds": kinds, "rules": rules}
    values |= {"clusterRules": wide} if wide else {}
    needed = {"conversions": True} if registry.conversions else {}
    return values | ({"webhooks": {"enabled": True, **needed}} if webhooks or needed else {})


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
