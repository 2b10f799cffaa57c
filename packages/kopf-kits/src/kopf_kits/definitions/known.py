"""Definitions that are known without a cluster: from files and from models, with their kinds."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kopf_cogs.clients.discovery import scan
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_cogs.structs.definitions import definition_of
from kopf_cogs.structs.resources import Resource
from kopf_kits.definitions.crds import make_definitions
from kopf_kits.definitions.policies import PLURALS, make_policies
from kopf_kits.manifests import ManifestError, read_manifests

Obj = dict[str, Any]

DEFINITION: Final = "CustomResourceDefinition"


def make_manifests(models: Iterable[type]) -> dict[str, list[Obj]]:
    """The definitions of the models with the policies of each, by the names of the definitions.

    Raises :class:`DefinitionError` or :class:`SchemaError` if the models make no definitions.
    """
    models = list(models)
    policies = make_policies(models)
    named = {str(one["metadata"]["name"]): one for one in make_definitions(models)}
    return {name: [one, *policies[name]] for name, one in named.items()}


def read_definitions(paths: Iterable[pathlib.Path]) -> list[Obj]:
    """The definitions in the manifests, and their policies; all other objects are skipped.

    Raises :class:`ManifestError` if a file cannot be read.
    """
    return [obj for _, obj in read_manifests(paths) if obj["kind"] in {DEFINITION, *PLURALS}]


def gather_definitions(paths: Iterable[pathlib.Path], models: Iterable[type]) -> list[Obj]:
    """The definitions in the files, and the manifests of models whose kinds are not there.

    Raises :class:`DefinitionError` or :class:`SchemaError` if the models make no definitions.
    """
    read = read_definitions(paths)
    names = {obj["metadata"].get("name") for obj in read if obj["kind"] == DEFINITION}
    made = make_manifests(one for one in models if _get_name(one) not in names)
    return [*read, *(obj for objects in made.values() for obj in objects)]


def _get_name(model: type) -> str | None:
    definition = definition_of(model)
    return None if definition is None else definition.name


async def list_kinds(definitions: Iterable[Mapping[str, Any]]) -> frozenset[Resource]:
    """The built-in kinds and the defined ones.

    Raises :class:`ManifestError` if a definition is not valid.
    """
    from kopf_kits.sandbox import Sandbox, StatusError  # this import takes time

    async with Sandbox() as sandbox, Client(ConnectionInfo(server=sandbox.url)) as client:
        for obj in definitions:
            if obj["kind"] == DEFINITION:
                try:
                    await sandbox.apply(dict(obj))
                except StatusError as e:
                    name = (obj.get("metadata") or {}).get("name")
                    raise ManifestError(f"The definition {name}: {e}") from None
        return frozenset((await scan(client)).resources)
