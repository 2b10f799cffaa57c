"""Conversions: functions make objects of one version of a kind from objects of another version."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kopf_cogs.helpers.jsons import dumps
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.dicts import json_copy
from kopf_cogs.structs.models import get_field_names, is_model
from kopf_core.actions.bases import BaseHandler
from kopf_core.intents.views import Views

_STANDARD = frozenset({"apiVersion", "kind", "metadata"})
_CHANGEABLE = ("labels", "annotations")


class ConversionError(Exception):
    """An object cannot be converted. The client that has asked for it gets this message."""

    expected = True


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ConversionHandler(BaseHandler):
    """``@kopf.on.convert``: called for objects of one version that are needed in another one."""

    kind: str
    """The name of the definition, e.g. ``websites.example.com``."""

    source: str
    target: str
    views: Views | None = None

    def __str__(self) -> str:
        return f"Conversion {self.id!r}"

    @property
    def group(self) -> str:
        return self.kind.partition(".")[2]

    def make_kwargs(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Make the arguments of the function: a copy of the object, or instances of models."""
        body = json_copy(obj)
        meta = body.setdefault("metadata", {})
        kwargs: dict[str, Any] = {
            "body": Body(obj),
            "param": self.param,
            "name": meta.get("name"),
            "namespace": meta.get("namespace"),
            "uid": meta.get("uid"),
            "source": self.source,
            "target": self.target,
        }
        views = {} if self.views is None else self.views.read(kwargs)
        parts = {
            "body": body,
            "meta": meta,
            "labels": meta.setdefault("labels", {}),
            "annotations": meta.setdefault("annotations", {}),
            "spec": body.setdefault("spec", {}),
            "status": body.setdefault("status", {}),
        }
        return kwargs | parts | views

    def finish(self, obj: Mapping[str, Any], kwargs: Mapping[str, Any], result: Any) -> Any:
        """Make the object in the other version from the result of the function.

        Without a result, the object is the body that the function got and changed. If the result
        has no metadata, Kopf takes the labels and annotations that the function got and changed.
        Raises :class:`ConversionError` if the result is not an object, or only a part of one, such
        as the spec. Raises :class:`TypeError` or :class:`ValueError` if it is not JSON.
        """
        if result is None and not (self.views and "body" in self.views.models):
            converted = dict(kwargs["body"])
        elif is_model(type(result)):
            converted = _merge_model(obj, result)
        elif isinstance(result, Mapping):
            if result.keys().isdisjoint(obj):
                raise ConversionError(f"it has returned no field of an object: {list(result)}")
            converted = json_copy(result)
        else:
            raise ConversionError(f"it has returned {type(result)} instead of an object")
        for field in ("spec", "status"):
            if not converted.get(field) and field not in obj:
                converted.pop(field, None)
        meta = dict(obj.get("metadata") or {})
        wanted = converted.get("metadata")
        wanted = wanted if isinstance(wanted, Mapping) else kwargs["meta"]
        for field in _CHANGEABLE:
            if wanted.get(field):
                meta[field] = wanted[field]
            elif field in wanted or result is None:
                meta.pop(field, None)
        api_version = f"{self.group}/{self.target}"
        made = {**converted, "apiVersion": api_version, "kind": obj.get("kind"), "metadata": meta}
        dumps(made)  # a later error would not show which function has failed
        return made


def _merge_model(obj: Mapping[str, Any], instance: Any) -> dict[str, Any]:
    """Merge the fields of the model with the fields of the object that the model does not have."""
    from kopf_cogs.structs.shapes import write_sparsely

    known = {*get_field_names(type(instance)), *_STANDARD}
    others = {key: json_copy(val) for key, val in obj.items() if key not in known}
    made: dict[str, Any] = write_sparsely(instance)
    return others | made


class Conversions:
    """All conversions of one kind: its versions, and the ways between them."""

    def __init__(self, handlers: Collection[ConversionHandler]) -> None:
        self._edges: dict[str, list[ConversionHandler]] = {}
        for handler in handlers:
            self._edges.setdefault(handler.source, []).append(handler)

    def find_chain(self, source: str, target: str) -> Sequence[ConversionHandler] | None:
        """Find the shortest way: one function, or several functions through other versions.

        Returns ``None`` if there is no way.
        """
        ways: dict[str, tuple[ConversionHandler, ...]] = {source: ()}
        queue = deque([source])
        while queue and target not in ways:
            here = queue.popleft()
            for handler in self._edges.get(here, ()):
                if handler.target not in ways:
                    ways[handler.target] = (*ways[here], handler)
                    queue.append(handler.target)
        return ways.get(target)

    @property
    def versions(self) -> Collection[str]:
        """The versions from or to which any function converts."""
        ends = {handler.target for handlers in self._edges.values() for handler in handlers}
        return sorted({*self._edges, *ends})

    @property
    def missing(self) -> Collection[tuple[str, str]]:
        """The pairs of versions without a way from the first one to the second one."""
        pairs = [(a, b) for a in self.versions for b in self.versions if a != b]
        return [pair for pair in pairs if self.find_chain(*pair) is None]


def group_by_kind(handlers: Collection[ConversionHandler]) -> Mapping[str, Conversions]:
    """Group the conversions by kinds, i.e. by the names of their definitions."""
    kinds = {handler.kind for handler in handlers}
    return {kind: Conversions([h for h in handlers if h.kind == kind]) for kind in sorted(kinds)}
