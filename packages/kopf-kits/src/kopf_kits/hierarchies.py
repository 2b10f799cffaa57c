"""Parents and children: labels, owners, names, and namespaces for the objects to be created.

The functions change the objects in memory before they are sent to the API by any client library.
Where the parent is not specified, it is the object which is being handled by the current handler.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, cast

from kopf_cogs.structs.bodies import Body, RawBody, build_owner_reference
from kopf_cogs.structs.dicts import FieldSpec
from kopf_core.actions.context import current_body
from kopf_kits.models import as_body, flatten, walk


class _Unset(enum.Enum):
    token = enum.auto()


def _get_owner(owner: Any) -> Body:
    if owner is not None:
        return owner if isinstance(owner, Body) else Body(as_body(owner))
    try:
        return current_body()
    except LookupError:
        raise LookupError(
            "Owner must be set explicitly, since it is not inside of a handler of an object."
        ) from None


def append_owner_reference(
    objs: Any,
    owner: Body | RawBody | Mapping[str, Any] | Any | None = None,
    *,
    controller: bool | None = True,
    block_owner_deletion: bool | None = True,
) -> None:
    """Add the owner to the owners of the object(s), unless it is already there.

    Kubernetes deletes the owned objects when their owner is deleted.

    :param objs: An object or an iterable of objects, each a dict or of a supported library.
    :param owner: The owner: a handler's body, a dict, or an object of a supported library;
        by default, the object which is being handled.
    :param controller: Whether it is the managing owner; there can be only one for an object.
    :param block_owner_deletion: Whether the object must go before its owner, if the owner
        is deleted in the foreground mode.

    Raises :class:`LookupError` if there is no owner specified and nothing is being handled.
    """
    ref = build_owner_reference(
        _get_owner(owner), controller=controller, block_owner_deletion=block_owner_deletion
    )
    for node in walk(objs):
        refs = list(node.get("ownerReferences") or [])
        if not any(_get_uid(known) == ref.get("uid") for known in refs):
            node.set("ownerReferences", [*refs, dict(ref)])


def remove_owner_reference(
    objs: Any, owner: Body | RawBody | Mapping[str, Any] | Any | None = None
) -> None:
    """Remove the owner from the owners of the object(s); the owner is identified by its uid.

    The parameters and the errors are the same as in :func:`append_owner_reference`.
    """
    uid = _get_owner(owner).metadata.uid
    for node in walk(objs):
        refs = list(node.get("ownerReferences") or [])
        node.set("ownerReferences", [known for known in refs if _get_uid(known) != uid])


def _get_uid(ref: Any) -> Any:
    return ref.get("uid") if isinstance(ref, Mapping) else ref.uid


def label(
    objs: Any,
    labels: Mapping[str, str | None] | _Unset | None = _Unset.token,
    *,
    forced: bool = False,
    nested: str | Iterable[FieldSpec] | None = None,
    force: bool | None = None,
) -> None:
    """Add labels to the object(s), and to the nested templates of objects.

    :param objs: An object or an iterable of objects, each a dict or of a supported library.
    :param labels: The labels to add; by default, the labels of the handled object.
    :param forced: Whether to overwrite the labels that are already there.
    :param nested: A field or fields to be labelled additionally where they exist,
        e.g. ``"spec.template"`` of deployments.
    :param force: A deprecated name of ``forced``.

    Raises :class:`LookupError` if there are no labels specified and nothing is being handled.
    """
    if force is not None:
        warnings.warn("force= is deprecated; use forced=", DeprecationWarning, stacklevel=2)
        forced = force
    if labels is None or isinstance(labels, _Unset):
        labels = cast(Mapping[str, str | None], _get_owner(None).metadata.labels)
    for node in walk(objs, nested):
        known = node.get("labels") or {}
        missing = {key: value for key, value in labels.items() if key not in known}
        node.set("labels", {**known, **(labels if forced else missing)})


def harmonize_naming(
    objs: Any,
    name: str | _Unset | None = _Unset.token,
    *,
    forced: bool = False,
    strict: bool = False,
) -> None:
    """Name the object(s): with the name as the prefix of generated names, or exactly so.

    :param objs: An object or an iterable of objects, each a dict or of a supported library.
    :param name: The name; by default, that of the object which is being handled.
    :param forced: Whether to replace the names (or prefixes) that are already there.
    :param strict: Whether to use the name as it is. Otherwise, Kubernetes adds a random suffix
        when it creates the object.

    Raises :class:`LookupError` if there is no name specified and nothing is being handled.
    """
    if name is None or isinstance(name, _Unset):
        name = _get_owner(None).metadata.name
    if name is None:
        raise LookupError("Name must be set explicitly: the owner has none.")
    for node in walk(objs):
        if not forced and (node.get("name") or node.get("generateName")):
            continue
        node.unset("generateName" if strict else "name")
        node.set("name" if strict else "generateName", name if strict else f"{name}-")


def adjust_namespace(
    objs: Any, namespace: str | _Unset | None = _Unset.token, *, forced: bool = False
) -> None:
    """Put the object(s) into a namespace.

    :param objs: An object or an iterable of objects, each a dict or of a supported library.
    :param namespace: The namespace; by default, that of the object which is being handled.
        ``None`` is for cluster-scoped objects.
    :param forced: Whether to replace the namespaces that are already there.

    Raises :class:`LookupError` if there is no namespace specified and nothing is being handled.
    """
    if isinstance(namespace, _Unset):
        namespace = _get_owner(None).metadata.namespace
    for node in walk(objs):
        if forced or node.get("namespace") is None:
            node.set("namespace", namespace)


def adopt(
    objs: Any,
    owner: Body | RawBody | Mapping[str, Any] | Any | None = None,
    *,
    forced: bool = False,
    strict: bool = False,
    nested: str | Iterable[FieldSpec] | None = None,
) -> None:
    """Make the object(s) children of the owner: the owner's reference, name, namespace, and labels.

    It is the same as to call :func:`append_owner_reference`, :func:`harmonize_naming`,
    :func:`adjust_namespace`, and :func:`label`. The parameters have the same meaning as there.

    Raises :class:`LookupError` if there is no owner specified and nothing is being handled.
    """
    real_owner = _get_owner(owner)
    if (name := real_owner.metadata.name) is None:
        raise LookupError("The owner has no name to be given to its children.")
    objs = list(flatten(objs))  # iterators can be gone through only once
    append_owner_reference(objs, owner=real_owner)
    harmonize_naming(objs, name=name, forced=forced, strict=strict)
    adjust_namespace(objs, namespace=real_owner.metadata.namespace, forced=forced)
    label(objs, labels=real_owner.metadata.labels, nested=nested, forced=forced)
