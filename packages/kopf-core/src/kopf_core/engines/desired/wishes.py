"""Wishes: tells descriptions of objects from nonsense. Pure."""

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.models import as_object
from kopf_core.engines.desired.ownership import show


class NonsenseError(TypeError):
    """A wanted value is not an object. The error has no traceback: the defect is in the
    function.
    """

    expected = True


def check_wish(wanted: Any) -> Mapping[str, Any]:
    """Check the wanted object. Raises :class:`NonsenseError` if it does not look like an object.

    It can be an instance of a class with ``@kopf.resource``, or an object of pykube.
    """
    body = as_object(wanted) if not isinstance(wanted, Mapping) else None
    body = getattr(wanted, "obj", wanted) if body is None else body
    if not isinstance(body, Mapping):
        raise NonsenseError(
            f"Reconcilers yield objects as dictionaries, or as instances of classes with "
            f"@kopf.resource, or kopf.Again(); not {type(wanted)}."
        )
    if not all(isinstance(body.get(field), str) for field in ("apiVersion", "kind")):
        raise NonsenseError(f"{_show(body)}: apiVersion and kind must be there, as in manifests.")
    metadata = _check_type(body, "metadata", body.get("metadata"), Mapping, "a dictionary")
    for field in ("name", "namespace"):
        _check_type(body, f"metadata.{field}", metadata.get(field), str, "a string")
    for field in ("labels", "annotations"):
        _check_type(body, f"metadata.{field}", metadata.get(field), Mapping, "a dictionary")
    if metadata.get("generateName") and not metadata.get("name"):
        raise NonsenseError(
            "metadata.generateName cannot be used: the same objects must have the same names "
            "in all passes. Make the names of the owner's name."
        )
    return body


def _check_type(body: Mapping[str, Any], field: str, value: Any, type_: type, title: str) -> Any:
    if value is not None and not isinstance(value, type_):
        raise NonsenseError(f"{_show(body)}: {field} must be {title}, not {value!r}.")
    return {} if value is None else value


def _show(body: Mapping[str, Any]) -> str:
    is_sane = isinstance(body.get("metadata"), Mapping)
    return show(body) if is_sane else str(body.get("kind") or "An object")
