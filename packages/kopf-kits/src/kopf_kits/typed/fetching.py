"""Descriptions of kinds by a cluster: the OpenAPI documents (v3) of their groups and versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.clients.kinds import Kinds
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import Resource
from kopf_kits.typed.errors import TypedError

Obj = Mapping[str, Any]


async def fetch_kinds(client: Client, names: Collection[str]) -> list[tuple[Resource, Obj]]:
    """Find the kinds by any of their names, with the OpenAPI documents which describe them.

    Raises :class:`TypedError` if the server describes none of its kinds, or not these ones;
    :class:`UnknownKindError` and :class:`AmbiguousKindError` for the names.
    """
    kinds = Kinds(client)
    resources = list(dict.fromkeys([await kinds.resolve(name) for name in names]))
    try:
        index = await client.get("/openapi/v3")
    except APINotFoundError:
        raise TypedError("The server has no OpenAPI documents of the version 3.") from None
    documents: dict[str, Obj] = {}
    for resource in resources:
        path = _get_path(resource)
        if path not in index["paths"]:
            raise TypedError(f"The server does not describe {path}, so {resource} is not known.")
        if path not in documents:
            documents[path] = await client.get(index["paths"][path]["serverRelativeURL"])
    return [(resource, documents[_get_path(resource)]) for resource in resources]


def _get_path(resource: Resource) -> str:
    version = resource.version
    return f"apis/{resource.group}/{version}" if resource.group else f"api/{version}"
