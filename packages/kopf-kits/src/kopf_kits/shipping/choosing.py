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
    rules = [_make_rule(group, names, OWNING) for group, names in _group(owned).items()]
    rules += [_make_rule(group, names, LOOKING) for group, names in _group(related - owned).items()]
    kinds = [{"group": group, "resources": names} for group, names in _group(served).items()]
    needs_webhooks = any(isinstance(one, WebhookHandler) for one in registry.resource_handlers)
    needed = {"conversions": True} if registry.conversions else {}
    webhooks = {"webhooks": {"enabled": True, **needed}} if needs_webhooks or needed else {}
    return {"kinds": kinds, "rules": rules, **webhooks}


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
