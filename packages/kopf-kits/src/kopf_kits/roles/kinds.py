"""Kinds: the meanings of selectors of handlers, as far as they are known without a cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from kopf_cogs.structs.resources import CLUSTER_PEERINGS, NAMESPACED_PEERINGS, Resource
from kopf_cogs.structs.selectors import Marker, Selector
from kopf_core.engines.peering.peering_objects import GROUPS as PEERING_GROUPS
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.essentials import OperatorOptions

RBAC = "rbac.authorization.k8s.io"
VERBS = frozenset({"list", "watch", "get", "patch", "create", "update", "delete"})

PRESUMED = (
    "Kopf cannot tell whether these are in namespaces, and have the subresource status, so it "
    "presumes both: {}. Name their definitions by -f, or ask the cluster by --context."
)

GRANTED = (
    "Kubernetes lets an operator grant only the rights which it has itself. So for {}, add the "
    "granted rights to its own role, or the verbs 'escalate' for roles and 'bind' for bindings."
)


class UnknownKindsError(Exception):
    """The kinds of some selectors are not known; the message names them, and says what to do."""

    expected = True


@dataclass(frozen=True)
class KnownKinds:
    """The kinds of the handlers, and the kinds among them with presumed properties."""

    resources: Collection[Resource]
    presumed: Collection[Resource]
    granting: Collection[Resource] = ()
    """The kinds among them which reconcilers own, and by which rights are granted."""

    @property
    def remarks(self) -> Collection[str]:
        """The remarks for people: on the presumed properties, and on the granted rights."""
        unsure = [kind for kind in self.presumed if kind.plural != "*"]
        told = {PRESUMED: unsure, GRANTED: self.granting}
        return [text.format(_list_names(kinds)) for text, kinds in told.items() if kinds]


def choose_kinds(
    known: Collection[Resource], options: OperatorOptions, *, is_all: bool = False
) -> KnownKinds:
    """Choose the known kinds that the handlers mean.

    Unknown kinds are chosen, too, if their names are full: with the groups and plural names.
    Unless the known kinds are all kinds (``is_all``), everything is any kind.

    Raises :class:`UnknownKindsError` if some of the selectors say too little.
    """
    peerings = {kind for kind in known if kind.group in PEERING_GROUPS}
    chosen: set[Resource] = {*peerings, *_list_peerings(known, options)}
    presumed: set[Resource] = set()
    problems: list[str] = []
    for selector in sorted(options.registry.selectors, key=repr):
        if _is_for_everything(selector) and not is_all:
            presumed.add(_presume(selector, "*"))
            continue
        found = selector.resolve(known)
        chosen |= found.resources
        if found.rivals:
            rivals = ", ".join(sorted(rival.name for rival in found.rivals))
            problems.append(f"{_show(selector, options.registry)} is any of these: {rivals}.")
        elif not found.resources and not _is_for_everything(selector):
            name = selector.plural or selector.any_name
            if selector.group is not None and isinstance(name, str) and name == name.lower():
                presumed.add(_presume(selector, name))
            else:
                problems.append(_explain(selector, options.registry))
    if problems:
        raise UnknownKindsError(" ".join(problems))
    owned = {selector for one in options.registry.reconcilers for selector in one.owns}
    granting = {kind for one in owned for kind in one.resolve(chosen | presumed).resources}
    return KnownKinds(
        chosen | presumed, presumed, {kind for kind in granting if kind.group == RBAC}
    )


def _list_names(kinds: Iterable[Resource]) -> str:
    return ", ".join(sorted(kind.name for kind in kinds))


def _list_peerings(known: Collection[Resource], options: OperatorOptions) -> Iterator[Resource]:
    """Operators use a peering if it is there; so they need it for sure only if it is mandatory."""
    if options.settings.peering.mandatory:
        for kind in (CLUSTER_PEERINGS, NAMESPACED_PEERINGS):
            if kind not in known:
                yield dataclasses.replace(kind, verbs=VERBS)


def _is_for_everything(selector: Selector) -> bool:
    return any(isinstance(name, Marker) for name in selector.names)


def _presume(selector: Selector, plural: str) -> Resource:
    return Resource(
        group="*" if selector.group is None else selector.group,
        version=selector.version or "",
        plural=plural,
        subresources=frozenset({"status"}),
        namespaced=True,
        verbs=VERBS,
    )


def _show(selector: Selector, registry: OperatorRegistry) -> str:
    """The selector as in the code, with the handlers that use it."""
    values = {f.name: getattr(selector, f.name) for f in dataclasses.fields(selector)}
    named = {key: val for key, val in values.items() if val is not None}
    text = ", ".join(
        repr(val) if key == "any_name" and isinstance(val, str) else f"{key}={val!r}"
        for key, val in named.items()
    )
    users = [str(h) for h in registry.resource_handlers if h.selector == selector] + [
        str(h) for h in registry.reconcilers if selector in {*h.owns, *h.related}
    ]
    return f"{text} of {', '.join(dict.fromkeys(users))}"


def _explain(selector: Selector, registry: OperatorRegistry) -> str:
    shown = _show(selector, registry)
    others = "or name its definition by -f, or ask the cluster by --context or --verify."
    name = selector.plural or selector.any_name
    if selector.category is not None or callable(selector.any_name):
        return f"Kopf cannot tell which kinds are meant by {shown}: {others.removeprefix('or ')}"
    if isinstance(name, str) and selector.group is None:
        plural = name if name == name.lower() else "PLURAL"
        return f"Kopf cannot tell the group of {shown}: write '{plural}.GROUP', {others}"
    return f"Kopf cannot tell the plural name of {shown}: write it, {others}"
