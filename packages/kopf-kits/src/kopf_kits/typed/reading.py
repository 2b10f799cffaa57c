"""From the schemas of OpenAPI to the types of Python."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kopf_cogs.structs.resources import Resource
from kopf_kits.typed.errors import TypedError

Schema = Mapping[str, Any]

_PREFIX: Final = "#/components/schemas/"
_GVK: Final = "x-kubernetes-group-version-kind"
_SCALARS: Final = {"string": "str", "boolean": "bool", "integer": "int", "number": "float"}
_ANY_OBJECT: Final = "dict[str, Any]"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A key of a typed dictionary."""

    name: str
    type: str
    required: bool
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """A typed dictionary."""

    name: str
    keys: tuple[Key, ...]
    text: str = ""


def read_structures(kinds: Sequence[tuple[Resource, Schema]]) -> list[Structure]:
    """The typed dictionaries of the kinds, each followed by the ones that it refers to.

    The kinds come with the OpenAPI documents which describe them.
    Raises :class:`TypedError` if a kind is not described there.
    """
    reader = _Reader(kinds)
    for resource, document in kinds:
        reader.add_kind(resource, document)
    return reader.structures


class _Reader:
    """Goes through the schemas, from the kinds to all that they refer to, each of them once."""

    def __init__(self, kinds: Sequence[tuple[Resource, Schema]]) -> None:
        super().__init__()
        self._schemas: dict[str, Schema] = {}
        for _, document in kinds:
            self._schemas |= document["components"]["schemas"]
        self._asked = {_find_schema(resource, document): resource for resource, document in kinds}
        self._names = _choose_names(self._collect())
        self._inline: dict[int, str] = {}
        self._found: dict[str, Structure | None] = {}

    @property
    def structures(self) -> list[Structure]:
        return [structure for structure in self._found.values() if structure is not None]

    def add_kind(self, resource: Resource, document: Schema) -> None:
        self._refer(_find_schema(resource, document))

    def _collect(self) -> list[str]:
        """The schemas that the kinds refer to, directly or not, and the kinds themselves."""
        found: dict[str, None] = {}
        queue = list(self._asked)
        while queue:
            name = queue.pop(0)
            if name not in found:
                found[name] = None
                queue.extend(_list_references(self._schemas.get(name, {})))
        return list(found)

    def _refer(self, name: str) -> str:
        """The type for a reference: a class with fields, or another type if there are no fields."""
        schema = self._schemas.get(name, {})
        if not schema.get("properties"):
            return "int | str" if name == _QUANTITY else self.read(schema, self._names[name])
        self._add(name, self._names[name], schema)
        return self._names[name]

    def _add(self, key: str, title: str, schema: Schema) -> None:
        if key in self._found:
            return
        self._found[key] = None  # it holds the place, and ends recursion
        keys = tuple(self._read_keys(key, title, schema))
        self._found[key] = Structure(title, keys, _summarize(schema))

    def _read_keys(self, key: str, title: str, schema: Schema) -> Iterator[Key]:
        resource = self._asked.get(key)
        required = schema.get("required") or ()
        for name, prop in schema["properties"].items():
            if resource is not None and name in ("apiVersion", "kind"):
                version = f"{resource.group}/{resource.version}".lstrip("/")
                value = version if name == "apiVersion" else resource.kind
                yield Key(name, f'Literal["{value}"]', required=True)
                continue
            type_ = self.read(prop, title + name[:1].upper() + name[1:])
            # A default makes the key optional. The zeros of Go are no defaults: the server
            # puts them into the schemas of all its own fields, even of the required ones.
            is_required = name in required and not prop.get("default")
            yield Key(name, type_, is_required, _summarize(prop))

    def read(self, schema: Schema, title: str) -> str:
        """The type of the schema; structures without names of their own get the title."""
        type_ = self._read_type(schema, title)
        return f"{type_} | None" if schema.get("nullable") and type_ != "Any" else type_

    def _read_type(self, schema: Schema, title: str) -> str:
        if "$ref" in schema:
            return self._refer(schema["$ref"].removeprefix(_PREFIX))
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
            return "int | str"
        if schema.get("enum") and all(isinstance(value, str) for value in schema["enum"]):
            return f"Literal[{', '.join(map(_quote, schema['enum']))}]"
        if schema.get("properties"):
            name = self._name_inline(schema, title)
            self._add(name, name, schema)
            return name
        match schema.get("type"):
            case "array":
                item = self.read(schema.get("items") or {}, f"{title}Item")
                return f"list[{item}]"
            case "object":
                return self._read_mapping(schema, title)
            case str(name) if name in _SCALARS:
                return _SCALARS[name]
        return self._read_combined(schema, title)

    def _read_mapping(self, schema: Schema, title: str) -> str:
        values = schema.get("additionalProperties")
        if not isinstance(values, Mapping) or not values:
            return _ANY_OBJECT
        value = self.read(values, f"{title}Item")
        return f"dict[str, {value}]"

    def _read_combined(self, schema: Schema, title: str) -> str:
        """The type by other schemas: a reference with something beside it, or a union."""
        parts: Sequence[Schema] = schema.get("allOf") or []
        if len(parts) == 1:
            return self.read(parts[0], title)
        options = schema.get("oneOf") or schema.get("anyOf") or ()
        types = [self.read(option, title) for option in options if option]
        return " | ".join(dict.fromkeys(types)) if types and "Any" not in types else "Any"

    def _name_inline(self, schema: Schema, title: str) -> str:
        """A name for a structure that has none: it is named after the field where it is."""
        known = self._inline.get(id(schema))
        if known is not None:
            return known
        while title in self._names.values() or title in self._inline.values():
            title += "_"
        self._inline[id(schema)] = title
        return title


def _find_schema(resource: Resource, document: Schema) -> str:
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        if wanted in (schema.get(_GVK) or ()) and schema.get("properties"):
            return str(name)
    raise TypedError(f"The server does not describe the fields of {resource}.")


def _list_references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_PREFIX)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _list_references(item)


def _choose_names(names: Sequence[str]) -> dict[str, str]:
    """The last parts of the names; with groups and versions, if they are the same for several."""
    counts = Counter(_shorten(name, 1) for name in names)
    return {name: _shorten(name, 1 if counts[_shorten(name, 1)] == 1 else 3) for name in names}


def _shorten(name: str, size: int) -> str:
    parts = re.split(r"[^0-9A-Za-z]+", name)[-size:]
    return "".join(part[:1].upper() + part[1:] for part in parts)


def _summarize(schema: Schema) -> str:
    """The first sentence of the description."""
    text = " ".join(str(schema.get("description") or "").split())
    return re.split(r"\.\s+(?=[A-Z])", text, maxsplit=1)[0].rstrip(".")


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
