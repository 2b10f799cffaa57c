"""The schemas of the built-in kinds, taken from the OpenAPI document published with Kubernetes."""

from __future__ import annotations

import base64
import string
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from kopf_kits.sandbox.base import jsons
from kopf_kits.sandbox.base.statuses import Cause, StatusError, bad_request
from kopf_kits.sandbox.schemas.formats import is_format
from kopf_kits.sandbox.schemas.schemas import Node

Obj = dict[str, Any]
_LOOSE = ("Quantity", "JSON")
_BASE64 = frozenset(string.ascii_letters + string.digits + "+/=")
_GO_TYPES = {"boolean": "bool", "string": "string", "number": "float64"}


class BuiltinSchemas:
    """Compiles the schemas when they are first needed; the common parts are shared."""

    def __init__(self) -> None:
        text = files(__package__).joinpath("builtins.json").read_bytes()
        document = jsons.loads(text)
        self._kinds: dict[str, str] = document["kinds"]
        self._definitions: dict[str, Obj] = document["definitions"]
        self._nodes: dict[str, Node] = {}

    def definition(self, api_version: str, kind: str) -> str | None:
        """The name of the definition of that kind; none if it is not known."""
        return self._kinds.get(f"{api_version if '/' in api_version else '/' + api_version}/{kind}")

    def compile(self, api_version: str, kind: str) -> Node | None:
        """The schema of the kind; none if it is not known."""
        name = self.definition(api_version, kind)
        return None if name is None else self._compile(name, root=True)

    @property
    def meta_name(self) -> str:
        """The name of the definition of ``ObjectMeta``."""
        return "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

    def export(self, name: str, into: Obj, prefix: str) -> None:
        """Add the definition, and all definitions that it refers to, to a document."""
        if name not in into:
            into[name] = {}
            into[name] = _export(self._definitions[name], prefix)
            for other in _references(self._definitions[name]):
                self.export(other, into, prefix)

    def _compile(self, name: str, *, root: bool = False) -> Node:
        node = self._nodes.get(name)
        if node is None:
            spec = self._definitions[name]
            short = name.rpartition(".")[2]
            if short in _LOOSE or spec.get("format") == "int-or-string":
                spec = {"x-kubernetes-preserve-unknown-fields": True}
            elif "properties" not in spec and "additionalProperties" not in spec:
                spec = {**spec, "x-kubernetes-preserve-unknown-fields": True}
            spec = {**spec, "title": short}
            node = self._nodes[name] = Node(spec, root=root, resolve=self._compile)
        return node


def _export(spec: Any, prefix: str) -> Any:
    if not isinstance(spec, dict):
        return spec
    result = {name: _export(item, prefix) for name, item in spec.items()}
    if isinstance(spec.get("$ref"), str):
        # In version 3 of OpenAPI, nothing can be next to a reference.
        del result["$ref"]
        result["allOf"] = [{"$ref": prefix + spec["$ref"]}]
    return result


def _references(spec: Any) -> Iterator[str]:
    if isinstance(spec, dict):
        if isinstance(spec.get("$ref"), str):
            yield spec["$ref"]
        for item in spec.values():
            yield from _references(item)


@cache
def builtin_schemas() -> BuiltinSchemas:
    """The only instance: it is constant."""
    return BuiltinSchemas()


def check_types(kind: str, version: str, node: Node, obj: Obj) -> None:
    """Check that an object can be decoded; 400 if a value is of a wrong type."""
    for name, value in obj.items():
        child = node.child(name)
        if child is not None and name not in ("apiVersion", "kind", "metadata"):
            try:
                _check_type(child, value, name, node.spec.get("title", ""))
            except TypeError as error:
                raise _undecodable(kind, version, str(error)) from None


def _undecodable(kind: str, version: str, text: str) -> StatusError:
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {text}')


def _check_type(node: Node, value: Any, path: str, owner: str) -> None:
    wanted = node.spec.get("type")
    if value is None or wanted is None:
        return
    if wanted == "object" and isinstance(value, dict):
        for name, item in value.items():
            child = node.child(name)
            if child is not None:
                title = node.spec.get("title", owner)
                _check_type(
                    child, item, f"{path}.{name}" if name in node.properties else path, title
                )
    elif wanted == "array" and isinstance(value, list):
        for item in value:
            if node.items is not None:
                _check_type(node.items, item, path, owner)
    elif wanted == "string" and isinstance(value, str):
        _check_text(node, value)
    elif not _fits(wanted, value):
        names = {dict: "object", list: "array", str: "string", bool: "bool"}
        found = names.get(type(value), "number")
        if found == "number" and wanted == "integer":
            found = f"number {value}"
        text = f"json: cannot unmarshal {found} into Go struct field {owner}.{path} of type "
        raise TypeError(text + _go_type(node))


def _check_text(node: Node, value: str) -> None:
    form = node.spec.get("format")
    if form == "byte":
        try:
            base64.b64decode(value, validate=True)
        except ValueError:
            bad = next((i for i, char in enumerate(value) if char not in _BASE64), len(value))
            raise TypeError(f"illegal base64 data at input byte {bad}") from None
    elif form == "date-time" and value and not is_format(form, value):
        layout = "2006-01-02T15:04:05Z07:00"
        text = f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'
        raise TypeError(text)


def _fits(wanted: str, value: Any) -> bool:
    if wanted == "string":
        return isinstance(value, str)
    if wanted == "boolean":
        return isinstance(value, bool)
    if wanted == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return wanted == "number" and isinstance(value, (int, float)) and not isinstance(value, bool)


def _go_type(node: Node) -> str:
    wanted = node.spec.get("type", "")
    if wanted == "integer":
        return str(node.spec.get("format", "int64"))
    if wanted == "array":
        inner = node.items.spec.get("title", "string") if node.items is not None else "string"
        return f"[]{inner if inner == 'string' else 'v1.' + inner}"
    title = node.spec.get("title")
    return _GO_TYPES.get(wanted) or (f"v1.{title}" if title else "map[string]string")


def find_missing(node: Node, value: Any, path: str) -> Iterator[Cause]:
    """The fields that are required, but absent (only where operators can meet them: in specs)."""
    if isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            yield from find_missing(node.items, item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for name in node.spec.get("required") or ():
        if value.get(name) in (None, "", []) and name != "status":
            yield Cause("FieldValueRequired", f"{path}.{name}", "Required value")
    for name, item in value.items():
        child = node.child(name)
        if child is not None:
            yield from find_missing(child, item, f"{path}.{name}")
