"""One way to read and write the metadata of objects of any library.

Supported are dictionaries and other mutable mappings, the objects of pykube-ng, and the models
of the official client, sync or async. The libraries are not imported: their objects are recognised
by their classes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

from kopf_cogs.structs.dicts import FieldPath, FieldSpec, parse_field


class UnsupportedOwnerError(TypeError, AttributeError):
    """The owner is not an object; earlier versions raised ``AttributeError`` for it."""


class Node(Protocol):
    """An object, or a template of an object inside of another one: something with metadata."""

    def get(self, field: str) -> Any:
        """Get a field of the metadata by its name in the API; ``None`` if it is absent."""

    def set(self, field: str, value: Any) -> None:
        """Set a field of the metadata, which is created if there is none."""

    def unset(self, field: str) -> None:
        """Remove a field of the metadata if it is there."""

    def child(self, path: FieldPath) -> Any:
        """Get a field inside of the object; ``None`` if it is absent."""


class MappingNode:
    """A dictionary as it goes to the API, or a mutable mapping of another kind."""

    def __init__(self, data: MutableMapping[Any, Any]) -> None:
        super().__init__()
        self._data = data

    def get(self, field: str) -> Any:
        return (self._data.get("metadata") or {}).get(field)

    def set(self, field: str, value: Any) -> None:
        if self._data.get("metadata") is None:
            self._data["metadata"] = {}
        self._data["metadata"][field] = value

    def unset(self, field: str) -> None:
        (self._data.get("metadata") or {}).pop(field, None)

    def child(self, path: FieldPath) -> Any:
        here: Any = self._data
        for key in path:
            if here is None:
                return None
            if not isinstance(here, Mapping):
                raise TypeError(f"The field {'.'.join(path)!r} is not in a mapping but in {here!r}")
            here = here.get(key)
        return here


class ModelNode:
    """A model of the official client: the fields are its attributes with names of their own."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def get(self, field: str) -> Any:
        metadata = self._model.metadata
        return None if metadata is None else getattr(metadata, _get_attribute(metadata, field))

    def set(self, field: str, value: Any) -> None:
        if self._model.metadata is None:
            self._model.metadata = _get_model_class(self._model, "V1ObjectMeta")()
        metadata = self._model.metadata
        if field == "ownerReferences":
            value = [self._make_reference(ref) for ref in value]
        setattr(metadata, _get_attribute(metadata, field), value)

    def unset(self, field: str) -> None:
        if self.get(field) is not None:
            self.set(field, None)

    def child(self, path: FieldPath) -> Any:
        here = self._model
        for key in path:
            if isinstance(here, Mapping):
                here = here.get(key)
            elif hasattr(here, "attribute_map"):
                here = getattr(here, _get_attribute(here, key), None)  # other kinds do not have it
            else:
                return None
        return here

    def _make_reference(self, ref: Any) -> Any:
        if not isinstance(ref, Mapping):
            return ref
        cls = _get_model_class(self._model, "V1OwnerReference")
        return cls(**{_get_attribute(cls, key): value for key, value in ref.items()})


def _get_attribute(model: Any, field: str) -> str:
    """The attribute for a field of the API: e.g. ``owner_references`` for ``ownerReferences``."""
    attributes = {name: attribute for attribute, name in model.attribute_map.items()}
    return str(attributes.get(field, field))


def _get_model_class(model: Any, name: str) -> Any:
    """A class from the library of the model: libraries are not compatible with each other."""
    package = type(model).__module__.rpartition(".")[0]
    return getattr(sys.modules[package], name)


def _is_pykube(obj: Any) -> bool:
    # If the library is not imported yet, its objects do not exist.
    pykube = sys.modules.get("pykube.objects")
    return pykube is not None and isinstance(obj, pykube.APIObject)


def _is_model(obj: Any) -> bool:
    return hasattr(type(obj), "attribute_map") and hasattr(obj, "metadata")


def open_node(obj: Any) -> Node:
    """Get access to one object. Raises :class:`TypeError` if it is of an unknown kind."""
    if _is_pykube(obj):
        return MappingNode(obj.obj)
    if isinstance(obj, MutableMapping):
        return MappingNode(obj)
    if _is_model(obj):
        return ModelNode(obj)
    raise TypeError(f"K8s object class is not supported: {type(obj)}")


def as_body(obj: Any) -> Mapping[str, Any]:
    """Represent an object of any supported kind as it would be in the API, for reading only."""
    if _is_pykube(obj):
        return _as_mapping(obj.obj)
    if isinstance(obj, Mapping):
        return _as_mapping(obj)
    if _is_model(obj):
        fields = ("name", "namespace", "uid", "labels")
        metadata = {field: ModelNode(obj).get(field) for field in fields}
        body = {"apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata}
        return {key: value for key, value in body.items() if value is not None}
    raise UnsupportedOwnerError(f"Owners of this type are not supported: {type(obj).__name__}")


def _as_mapping(obj: Any) -> Mapping[str, Any]:
    assert isinstance(obj, Mapping)
    return obj


def walk(objs: Any, nested: str | Iterable[FieldSpec] | None = None) -> Iterator[Node]:
    """Go through one object or through several ones, and through the nested fields of each.

    ``nested`` is one field or several, each as ``"spec.template"`` or ``("spec", "template")``.
    Where such a field is absent, it is skipped. Iterables of objects can contain other iterables.
    Raises :class:`TypeError` if something is not an object of a supported kind.
    """
    paths = [parse_field(spec) for spec in ([nested] if isinstance(nested, str) else nested or [])]
    for obj in flatten(objs):
        node = open_node(obj)
        yield node
        for path in paths:
            child = node.child(path)
            if child is not None:
                yield open_node(child)


def flatten(objs: Any) -> Iterator[Any]:
    """Go through one object or through several ones; ``None`` is no objects."""
    if objs is None:
        return
    is_object = isinstance(objs, str | bytes | Mapping) or _is_pykube(objs) or _is_model(objs)
    if is_object or not isinstance(objs, Iterable):
        yield objs
        return
    for obj in objs:
        yield from flatten(obj)
