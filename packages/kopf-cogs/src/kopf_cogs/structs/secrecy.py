"""Secrecy: texts that must not get into logs."""

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.resources import Resource


def is_secret(resource: Resource) -> bool:
    """Whether the objects of this resource hold secrets: these are ``Secret`` of the core API."""
    return resource.group == "" and resource.plural == "secrets"


def is_secret_body(body: Mapping[str, Any]) -> bool:
    """Whether this object itself is a ``Secret`` of the core API."""
    return body.get("kind") == "Secret" and body.get("apiVersion") == "v1"


def show(resource: Resource, value: Any) -> str:
    """The representation of an object or its part for the logs; only its keys if it is secret.

    Annotations are hidden, too: the last handled state in them holds the same data.
    The managed fields are not shown: they are longer than all other fields, and help no reader.
    """
    if not is_secret(resource):
        return repr(_without_managed_fields(value))
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(map(str, value)))}}} (the values are hidden)"
    return "(the values are hidden)"


def _without_managed_fields(value: Any) -> Any:
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    if not isinstance(metadata, Mapping) or "managedFields" not in metadata:
        return value
    kept = {key: item for key, item in metadata.items() if key != "managedFields"}
    return {**value, "metadata": kept}


class Shown:
    """The text of :func:`show`, but made only when it is really printed."""

    __slots__ = ("_resource", "_value")

    def __init__(self, resource: Resource, value: Any) -> None:
        super().__init__()
        self._resource = resource
        self._value = value

    def __str__(self) -> str:
        return show(self._resource, self._value)
