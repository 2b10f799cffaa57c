"""Definitions of custom resources, as Python classes declare them for their kinds.

The schema is not here: it is made of the fields of the class on demand.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar

from kopf_cogs.structs.markers import Rule

C = TypeVar("C", bound=type)

Scope = Literal["Namespaced", "Cluster"]
Operation = Literal["CREATE", "UPDATE", "DELETE"]
_ATTRIBUTE: Final = "__kopf_definition__"
_NAME: Final = re.compile(r"(?P<plural>[^./]+)\.(?P<group>[^/]+)/(?P<version>[^/]+)")
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PART: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``.

    ``path`` is a JSON path in the object, such as ``.spec.replicas``. ``type`` is one of
    ``integer``, ``number``, ``string``, ``boolean``, ``date``. Columns of a ``priority`` above 0
    are only in ``kubectl get -o wide``.
    """

    name: str
    path: str
    type: str = "string"
    format: str | None = None
    description: str | None = None
    priority: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """The ``scale`` subresource: ``kubectl scale`` and autoscalers read and change it."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """A condition in CEL on requests, checked by the API: no webhook runs for that.

    ``expression`` sees the ``object``, the ``oldObject``, the ``request`` (who makes it, and how),
    and the ``namespaceObject``; when an object is deleted, ``object`` is null. When it is false,
    the request is denied with the ``message``, or with what the ``message_expression`` gives.
    ``reason`` is the reason in the response, such as ``Forbidden``; ``Invalid`` by default.

    Rules of schemas (:class:`Rule`) see neither deletions nor requests: policies are for these.
    The Kubernetes concept behind it is ``ValidatingAdmissionPolicy``.
    """

    expression: str
    _: dataclasses.KW_ONLY
    operations: tuple[Operation, ...] | list[Operation] = ("CREATE", "UPDATE")
    message: str | None = None
    message_expression: str | None = None
    reason: Literal["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One version of a kind, as it is declared by :func:`resource`."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    scope: Scope = "Namespaced"

    storage: bool | None = None
    """Whether objects are stored in this version; ``None``: if there is no other version."""

    served: bool = True
    deprecated: bool | str = False
    """Whether the API warns of the version; if it is a text, how it warns."""

    status: bool | None = None
    """Whether there is the ``status`` subresource; ``None``: if the model has such a field."""

    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    """JSON paths of the fields that can be in field selectors, such as ``.spec.domain``."""

    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Labels and annotations of the definition in the cluster, not of the objects."""

    rules: tuple[Rule, ...] = ()
    policies: tuple[Policy, ...] = ()

    @property
    def name(self) -> str:
        """The name of the definition in the cluster, e.g. ``websites.example.com``."""
        return f"{self.plural}.{self.group}"

    @property
    def api_version(self) -> str:
        """As in the objects, e.g. ``example.com/v1``."""
        return f"{self.group}/{self.version}"

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"


def resource(
    name: str,
    *,
    kind: str | None = None,
    singular: str | None = None,
    short: Iterable[str] = (),
    categories: Iterable[str] = (),
    scope: Scope = "Namespaced",
    storage: bool | None = None,
    served: bool = True,
    deprecated: bool | str = False,
    status: bool | None = None,
    scale: Scale | bool = False,
    columns: Iterable[Column] = (),
    selectable: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    rules: Iterable[Rule] = (),
    policies: Iterable[Policy] = (),
) -> Callable[[C], C]:
    """Declare that a class is the model of a kind of objects, in one version.

    The class is returned as it is, so it can be a model of pydantic, a dataclass,
    or a ``TypedDict``. Its fields are the fields of objects: ``spec``, ``status``, or any others::

        @kopf.resource('websites.example.com/v1', kind='Website', short=['web'])
        class Website(pydantic.BaseModel):
            spec: WebsiteSpec
            status: WebsiteStatus | None = None

    :param name: The plural name, the group, and the version, as here.
    :param kind: The kind as in YAML files; by default, the name of the class.
    :param singular: The singular name; by default, the kind in lower case.
    :param short: The short names for ``kubectl``.
    :param categories: The categories such as ``all`` for ``kubectl get all``.
    :param scope: ``Namespaced`` or ``Cluster``.
    :param storage: Whether objects are stored in this version. If a kind has several
        versions, one of them must say so.
    :param served: Whether the API serves this version.
    :param deprecated: Whether the API warns the users of this version; or the warning itself.
    :param status: Whether there is the ``status`` subresource. By default, it is there
        if the model has the field ``status``.
    :param scale: Whether there is the ``scale`` subresource; also its paths.
    :param columns: The columns of ``kubectl get``.
    :param selectable: The paths of fields for ``kubectl get --field-selector``.
    :param labels: The labels of the custom resource definition itself.
    :param annotations: The annotations of the custom resource definition itself.
    :param rules: The rules of CEL for the whole object.
    :param policies: The conditions of CEL for requests on the objects, e.g. for deletions.

    Raises :class:`ValueError` if the API would refuse the names. The Kubernetes concept
    behind it is a custom resource definition (CRD).
    """
    match = _NAME.fullmatch(name)
    if not match or not _is_valid(**match.groupdict()):
        raise ValueError(
            f"A resource is named as 'plural.group/version', e.g. 'websites.example.com/v1', "
            f"not {name!r}."
        )

    def decorate(cls: C) -> C:
        own_kind = _check_name("kind", kind or cls.__name__)
        definition = Definition(
            **match.groupdict(),
            kind=own_kind,
            singular=_check_name("singular name", singular or own_kind.lower()),
            short_names=_listed(short, "short"),
            categories=_listed(categories, "categories"),
            scope=scope,
            storage=storage,
            served=served,
            deprecated=deprecated,
            status=status,
            scale=Scale() if scale is True else scale or None,
            columns=tuple(columns),
            selectable=_listed(selectable, "selectable"),
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            rules=tuple(rules),
            policies=tuple(policies),
        )
        setattr(cls, _ATTRIBUTE, definition)
        return cls

    return decorate


def definition_of(cls: Any) -> Definition | None:
    """The definition that the class declares; ``None`` if there is none. It is not inherited."""
    attributes = getattr(cls, "__dict__", {}) if isinstance(cls, type) else {}
    found = attributes.get(_ATTRIBUTE)
    return found if isinstance(found, Definition) else None


def _is_valid(plural: str, group: str, version: str) -> bool:
    parts = _PART.fullmatch(plural) and _PART.fullmatch(group)
    return bool(parts and _LABEL.fullmatch(version))


def _check_name(title: str, name: str) -> str:
    """Get the name as it is, if the API accepts it: in any case, but with no other letters."""
    if not _LABEL.fullmatch(name.lower()):
        raise ValueError(f"The {title} must be of Latin letters, digits, and dashes, not {name!r}.")
    return name


def _listed(values: Iterable[str], name: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise ValueError(f"{name}= must be a list of strings, not one string {values!r}.")
    return tuple(values)
