"""
Applying manifests to any cluster: files of YAML or JSON with one or many objects in each.

This is for development and tests: custom resource definitions and sample objects for the sandbox.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from kopf_cogs.clients.discovery import scan
from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import Resource

MANAGER = "kopf"
POLLING = 0.05  # seconds between the looks for a kind which has just been defined
ATTEMPTS = 200


class ManifestError(Exception):
    """A manifest cannot be read, or cannot be applied; the message says which one and why."""


def read_manifests(paths: Iterable[pathlib.Path]) -> Iterator[tuple[pathlib.Path, dict[str, Any]]]:
    """Read all objects from the files, in order. Raises :class:`ManifestError`."""
    for path in paths:
        try:
            documents = list(yaml.safe_load_all(path.read_text("utf-8")))
        except OSError as e:
            raise ManifestError(f"{path}: {e.strerror or e}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as e:
            raise ManifestError(f"{path}: not a YAML file: {' '.join(str(e).split())}") from None
        for document in documents:
            if document is not None:
                yield from ((path, obj) for obj in _unpack(path, document))


def _unpack(path: pathlib.Path, document: Any) -> list[dict[str, Any]]:
    if not isinstance(document, dict) or not {"apiVersion", "kind"} <= document.keys():
        raise ManifestError(f"{path}: not a Kubernetes object: there is no apiVersion or kind.")
    if "items" in document and str(document["kind"]).endswith("List"):
        return list(document["items"])
    return [document]


async def apply_manifests(client: Client, paths: Iterable[pathlib.Path]) -> list[str]:
    """
    Create or update the objects from the files, in order, as ``kubectl apply --server-side`` does.

    Returns their names for people, such as ``kopfexample/kopf-example-1``.
    Raises :class:`ManifestError` if something cannot be read or is refused by the API.
    """
    applied = []
    for path, obj in read_manifests(paths):
        metadata = obj.get("metadata") or {}
        title = f"{obj['kind'].lower()}/{metadata.get('name') or metadata.get('generateName')}"
        try:
            resource = await _find_resource(client, obj["apiVersion"], obj["kind"])
            if resource is None:
                raise ManifestError(f"{path}: {obj['apiVersion']} has no kind {obj['kind']}.")
            await _apply(client, resource, obj)
        except APIError as e:
            raise ManifestError(f"{path}: {title} is not applied: {e}") from e
        applied.append(title)
    return applied


async def _apply(client: Client, resource: Resource, obj: dict[str, Any]) -> None:
    metadata = obj.get("metadata") or {}
    namespace = (metadata.get("namespace") or "default") if resource.namespaced else None
    if not metadata.get("name"):
        await client.post(resource.get_url(namespace=namespace), obj)
        return
    await client.patch(
        resource.get_url(namespace=namespace, name=metadata["name"]),
        obj,
        content_type="application/apply-patch+yaml",
        params={"fieldManager": MANAGER, "force": "true"},
    )


async def _find_resource(client: Client, api_version: str, kind: str) -> Resource | None:
    """Find how a kind is served; if it is not yet, wait a little: it can be just defined."""
    group, _, version = api_version.rpartition("/")
    for _ in range(ATTEMPTS if "." in group else 1):
        for resource in (await scan(client, groups=[group])).resources:
            if (resource.group, resource.version, resource.kind) == (group, version, kind):
                return resource
        await asyncio.sleep(POLLING)
    return None
