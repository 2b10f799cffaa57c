"""Applying manifests to any cluster: files of YAML or JSON with one or many objects in each.

This is for development and tests: custom resource definitions and sample objects for the sandbox.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from kopf_cogs.clients.discovery import scan
from kopf_cogs.clients.errors import APIError
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import SET_BY_SERVERS
from kopf_cogs.structs.resources import Resource

MANAGER = "kopf"
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # it is 10 times faster, if built
POLLING = 0.05  # seconds between the looks for a kind which has just been defined
ATTEMPTS = 200

MAX_LINES = 10
"""How many applied objects the output names one by one."""

_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
_NAMESPACE = ("", "Namespace")


class ManifestError(Exception):
    """A manifest cannot be read, or cannot be applied; the message says which one and why."""

    expected = True


@dataclass(frozen=True)
class Kind:
    """The kind in an object: its ``apiVersion`` in parts, and its ``kind``."""

    group: str
    version: str
    name: str

    @property
    def unversioned(self) -> tuple[str, str]:
        return self.group, self.name


def read_manifests(paths: Iterable[pathlib.Path]) -> Iterator[tuple[pathlib.Path, dict[str, Any]]]:
    """Read all objects from the files, in order. Raises :class:`ManifestError`."""
    for path in paths:
        try:
            documents = list(yaml.load_all(path.read_text("utf-8"), Loader=LOADER))
        except OSError as e:
            raise ManifestError(f"{path}: {e.strerror or e}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as e:
            raise ManifestError(f"{path}: not a YAML file: {' '.join(str(e).split())}") from None
        for document in documents:
            if document is not None:
                yield from ((path, obj) for obj in _unpack(path, document))


def _unpack(path: pathlib.Path, document: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict) or not {"apiVersion", "kind"} <= document.keys():
        raise ManifestError(f"{path}: not a Kubernetes object: there is no apiVersion or kind.")
    if "items" in document and str(document["kind"]).endswith("List"):
        for item in document["items"] or ():
            yield from _unpack(path, item)
    elif isinstance(document.get("metadata") or {}, dict):
        yield document
    else:
        raise ManifestError(f"{path}: not a Kubernetes object: its metadata are not a mapping.")


async def apply_manifests(client: Client, paths: Iterable[pathlib.Path]) -> list[str]:
    """Create or update the objects from the files, as ``kubectl apply --server-side`` does.

    The order is of the files, except that namespaces and custom resource definitions go first:
    all other objects can need them. The fields that a server has set in exported objects are left
    out, such as ``metadata.uid``.

    Returns their names for people, such as ``kopfexample/kopf-example-1``.
    Raises :class:`ManifestError` if something cannot be read or is refused by the API.
    Nothing is applied if some of the files cannot be read.
    """
    manifests = sorted(read_manifests(paths), key=_get_rank)
    defined = {kind for _, obj in manifests for kind in _get_defined_kinds(obj)}
    resources: dict[Kind, Resource] = {}
    applied = []
    for path, obj in manifests:
        kind = _get_kind(obj)
        metadata = obj.get("metadata") or {}
        title = f"{kind.name.lower()}/{metadata.get('name') or metadata.get('generateName')}"
        try:
            if kind not in resources:
                resource = await _find_resource(client, kind, ATTEMPTS if kind in defined else 1)
                if resource is None:
                    raise ManifestError(f"{path}: {_explain_absence(kind, defined)}")
                resources[kind] = resource
            await _apply(client, resources[kind], obj)
        except APIError as e:
            raise ManifestError(f"{path}: {title} is not applied: {e}") from e
        applied.append(title)
    return applied


def describe_applied(titles: Collection[str]) -> list[str]:
    """The lines for people: a line for each applied object, or one line if there are many."""
    if len(titles) <= MAX_LINES:
        return [f"Applied {title}" for title in titles]
    kinds = Counter(title.partition("/")[0] for title in titles)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    return [f"Applied {len(titles):,} objects: {counts}"]


def _get_kind(obj: dict[str, Any]) -> Kind:
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    return Kind(group, version, str(obj["kind"]))


def _get_rank(manifest: tuple[pathlib.Path, dict[str, Any]]) -> bool:
    return _get_kind(manifest[1]).unversioned not in {_DEFINITION, _NAMESPACE}


def _get_defined_kinds(obj: dict[str, Any]) -> Iterator[Kind]:
    """The kinds that will be served when the object is applied, if it is a definition of any."""
    if _get_kind(obj).unversioned != _DEFINITION:
        return
    match obj.get("spec"):
        case {"group": group, "names": {"kind": name}, "versions": [*versions]}:
            for version in versions:
                match version:
                    case {"name": version_name, "served": True}:
                        yield Kind(str(group), str(version_name), str(name))


def _explain_absence(kind: Kind, defined: Collection[Kind]) -> str:
    api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    versions = {known.version for known in defined if known.unversioned == kind.unversioned}
    if kind in defined:
        return f"{api_version} {kind.name} is defined, but is not served by the API."
    if versions:
        hint = f": its CRD serves only {', '.join(sorted(versions))}"
    elif "." in kind.group:  # most likely a custom resource, unlike v1, apps, batch, etc
        hint = ": add the file with its CRD by -f (for models, `kopf crds` writes it)"
    else:
        hint = ""
    return f"{api_version} has no kind {kind.name}{hint}."


async def _apply(client: Client, resource: Resource, obj: dict[str, Any]) -> None:
    metadata = obj.get("metadata") or {}
    metadata = {name: value for name, value in metadata.items() if name not in SET_BY_SERVERS}
    obj = {**obj, "metadata": metadata}
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


async def _find_resource(client: Client, kind: Kind, attempts: int) -> Resource | None:
    """Find how a kind is served. If it has just been defined, it can take a few attempts."""
    for attempt in range(attempts):
        if attempt:
            await asyncio.sleep(POLLING)
        found = await scan(client, groups=[kind.group])
        for resource in found.resources:
            if Kind(resource.group, resource.version, resource.kind or "") == kind:
                return resource
        if kind.group in found.broken_groups and attempt == attempts - 1:
            raise found.broken_groups[kind.group]
    return None
