"""Selectors: the resources that developers mean when they declare handlers."""

import dataclasses
import enum
import re
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from kopf_cogs.structs.resources import Resource


class Marker(enum.Enum):
    """A marker to be used instead of the resource's name."""

    EVERYTHING = enum.auto()


EVERYTHING: Final = Marker.EVERYTHING

ResourceFn = Callable[[Resource], bool]
"""A callable selector: it tells whether a resource must be served."""

AnyName = str | Marker | ResourceFn
"""A resource as in positional arguments: any of its names, or a marker, or a callable."""

_VERSION: Final = re.compile(r"v\d+((alpha|beta)\d+)?")
_EVENT_GROUPS: Final = frozenset({"", "events.k8s.io"})


@dataclasses.dataclass(frozen=True)
class Selector:
    """A specification of one or several resources; all criteria must be met.

    The names are not resolved until the resources of the cluster are discovered.
    """

    group: str | None = None
    version: str | None = None
    kind: str | Marker | None = None
    plural: str | Marker | None = None
    singular: str | Marker | None = None
    shortcut: str | Marker | None = None
    category: str | Marker | None = None
    any_name: AnyName | None = None

    @classmethod
    def of(
        cls,
        *words: AnyName | None,
        group: str | None = None,
        version: str | None = None,
        kind: str | Marker | None = None,
        plural: str | Marker | None = None,
        singular: str | Marker | None = None,
        shortcut: str | Marker | None = None,
        category: str | Marker | None = None,
    ) -> "Selector":
        """Parse all the notations of the decorators.

        ``group, version, name``, or ``group/version, name``, or ``group, name``, or ``v1, name``,
        or ``name``, or ``group/version/name``, or ``name.group``, or ``name.version.group``.
        Or the same with keywords. The name can also be ``EVERYTHING`` or a callable,
        or the only argument is a class with a definition: see :func:`kopf.resource`.

        Raises ``TypeError`` if the specification is ambiguous or makes no sense.
        """
        if words and isinstance(words[0], type):
            words = (_name_of_model(words[0]), *words[1:])
        pos_group, pos_version, any_name = _parse_args(*words)
        selector = cls(
            group=_pick("group", pos_group, group),
            version=_pick("version", pos_version, version),
            kind=kind,
            plural=plural,
            singular=singular,
            shortcut=shortcut,
            category=category,
            any_name=any_name,
        )
        selector._verify()
        return selector

    def __repr__(self) -> str:
        values = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        return f"Selector({', '.join(f'{key}={val!r}' for key, val in values if val is not None)})"

    @property
    def is_specific(self) -> bool:
        """Whether only one resource is meant: not a category, not everything, not a callable."""
        return self.category is None and all(isinstance(name, str) for name in self.names)

    def check(self, resource: Resource) -> bool:
        """Check if the resource meets all the criteria, regardless of other resources."""
        return (
            (self.group is None or self.group == resource.group)
            and self._check_version(resource)
            and _check_name(self.kind, resource.kind)
            and _check_name(self.plural, resource.plural)
            and _check_name(self.singular, resource.singular)
            and _check_names(self.shortcut, resource.shortcuts)
            and _check_names(self.category, resource.categories)
            and self._check_any_name(resource)
        )

    def select(self, resources: Iterable[Resource]) -> Collection[Resource]:
        """Select the matching resources. There can be several even if only one is meant.

        The resources of the core v1 API take precedence over others with the same name:
        e.g., pods of v1 over pods of metrics.k8s.io.
        """
        found = {resource for resource in resources if self.check(resource)}
        if len(found) > 1 and self.is_specific:
            core = {res for res in found if res.group == "" and res.version == "v1"}
            return core or found
        return found

    def resolve(self, resources: Iterable[Resource]) -> "Resolution":
        """Select the resources to serve: none if the selector means one, but finds several."""
        found = frozenset(self.select(resources))
        if self.is_specific and len(found) > 1:
            return Resolution(resources=frozenset(), rivals=found)
        return Resolution(resources=found, rivals=frozenset())

    @property
    def names(self) -> list[AnyName]:
        """The names that are given, of any kind; usually one."""
        names = (self.kind, self.plural, self.singular, self.shortcut, self.any_name)
        return [name for name in names if name is not None]

    def _verify(self) -> None:
        names: list[object] = [*self.names]
        if self.category is not None:
            names.append(self.category)
        if any(name == "" for name in names):
            raise TypeError("Names of resources must not be empty; use None or specific names.")
        if not names:
            hint = "name it, e.g. 'kopfexamples', or say kopf.EVERYTHING"
            raise TypeError(f"The resource is not specified in {self!r}: {hint}.")
        if callable(self.any_name):
            names.remove(self.any_name)
        if len(names) > 1:
            raise TypeError(f"The resource is specified ambiguously by several names: {names!r}.")
        for part in [self.group, self.version, *names]:
            if isinstance(part, str) and "/" in part:
                raise TypeError(f"The resource is specified in an unknown notation: {part!r}.")

    def _check_version(self, resource: Resource) -> bool:
        if self.version is not None:
            return self.version == resource.version
        return resource.preferred or callable(self.any_name)

    def _check_any_name(self, resource: Resource) -> bool:
        name = self.any_name
        if name is None:
            # E.g. ``kind=EVERYTHING``: it is the same as just everything.
            return self.is_specific or self.category is not None or not _is_event(resource)
        if isinstance(name, str):
            names = (resource.plural, resource.kind, resource.singular)
            return name in names or name in resource.shortcuts
        if _is_event(resource):
            return False
        return name is EVERYTHING or (callable(name) and bool(name(resource)))


class Resolution(NamedTuple):
    """The resources that a selector means in a specific cluster."""

    resources: frozenset[Resource]
    """The resources to be served."""

    rivals: frozenset[Resource]
    """The found resources if only one was meant, so that none is served; otherwise empty."""

    @property
    def ambiguous(self) -> bool:
        """Whether several resources are found where only one is meant."""
        return bool(self.rivals)


def _name_of_model(cls: type) -> AnyName:
    """The resource that the class is the model of. Other classes are just callables."""
    from kopf_cogs.structs.definitions import definition_of
    from kopf_cogs.structs.models import is_model

    definition = definition_of(cls)
    if definition is None and is_model(cls):
        raise TypeError(f"There is no @kopf.resource on {cls.__qualname__}: its kind is not known.")
    return cls if definition is None else str(definition.api_version + "/" + definition.plural)


def _parse_args(*args: AnyName | None) -> tuple[str | None, str | None, AnyName | None]:
    values = [arg for arg in args if arg is not None]
    if not values:
        return None, None, None
    if len(values) > 3:
        raise TypeError(f"A resource is specified by three words at most, not by {len(values)}.")
    *api, name = values
    for arg in api:
        if not isinstance(arg, str):
            raise TypeError(f"Only the last of positional arguments can be {arg!r}.")
    if not isinstance(name, (str, Marker)) and not callable(name):
        raise TypeError(f"A resource must be specified by a string, not {name!r}.")

    api_parts = [str(arg) for arg in api]
    if len(api_parts) == 2:
        return api_parts[0], api_parts[1], name
    if len(api_parts) == 1:
        return *_parse_api_version(api_parts[0]), name
    if not isinstance(name, str):
        return None, None, name
    api_version, slash, plain_name = name.rpartition("/")
    if slash:
        return *_parse_api_version(api_version), plain_name
    return _parse_dotted(name)


def _parse_api_version(text: str) -> tuple[str, str | None]:
    if text == "v1":
        return "", "v1"
    group, slash, version = text.rpartition("/")
    return (group, version) if slash else (text, None)


def _parse_dotted(text: str) -> tuple[str | None, str | None, str]:
    name, dot, rest = text.partition(".")
    if not dot:
        return None, None, name
    head, _, tail = rest.partition(".")
    return (tail or None, head, name) if _VERSION.fullmatch(head) else (rest, None, name)


def _pick(title: str, positional: str | None, keyword: str | None) -> str | None:
    if None not in (positional, keyword) and positional != keyword:
        raise TypeError(f"The resource's {title} is ambiguous: {positional!r} vs. {keyword!r}.")
    return positional if keyword is None else keyword


def _check_name(expected: str | Marker | None, actual: str | None) -> bool:
    return expected is None or expected is EVERYTHING or expected == actual


def _check_names(expected: str | Marker | None, actual: Collection[str]) -> bool:
    return expected is None or expected is EVERYTHING or expected in actual


def _is_event(resource: Resource) -> bool:
    return resource.plural == "events" and resource.group in _EVENT_GROUPS
