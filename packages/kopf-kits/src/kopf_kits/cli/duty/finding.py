"""Finding objects in the cluster: by names, by selectors, of one kind or of all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

from kopf_cogs.clients.discovery import scan
from kopf_cogs.clients.errors import APIError, APIForbiddenError, APINotFoundError
from kopf_cogs.clients.kinds import UnknownKindError
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.helpers.similar import find_similar
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.resources import Resource
from kopf_kits.cli.duty.options import Selection

UNINTERESTING = frozenset({"events", "leases", "endpointslices"})
"""Kinds with many objects that no finalizer blocks. A search through all kinds skips them."""


class MistakenKindError(Exception):
    """There is no such kind; the message suggests a kind with a similar name."""

    expected = True


@dataclass(frozen=True, slots=True)
class Found:
    """An object in the cluster, and the resource of its kind."""

    resource: Resource
    body: RawBody

    @property
    def name(self) -> str:
        """The name for people: with the namespace if there is one."""
        return show_name(self.resource, self.body["metadata"].get("namespace"), self.raw_name)

    @property
    def raw_name(self) -> str:
        return str(self.body["metadata"].get("name"))


@dataclass(slots=True)
class Finder:
    """Finds the selected objects; remembers the failures, and continues with other objects."""

    api: ObjectsAPI
    selection: Selection
    problems: list[str] = field(default_factory=list)
    """The objects and kinds that are absent, forbidden, or broken: for people."""

    @property
    def namespace(self) -> str | None:
        """Where to look; ``None`` for all namespaces."""
        if self.selection.clusterwide:
            return None
        return self.selection.namespace or self.api.client.default_namespace or "default"

    async def resolve(self) -> Resource:
        """The kind that the user means. Raises :class:`MistakenKindError`."""
        kind = self.selection.kind or ""
        try:
            return await self.api.kinds.resolve(kind)
        except (UnknownKindError, TypeError) as e:
            if kind != kind.lower() and isinstance(e, UnknownKindError):
                try:
                    return await self.api.kinds.resolve(kind.lower())
                except UnknownKindError:
                    pass
            raise MistakenKindError(await self._explain_kind(kind)) from e

    async def _explain_kind(self, kind: str) -> str:
        resources = (await scan(self.api.client)).resources
        names = {
            alias.lower(): resource.plural
            for resource in resources
            for alias in (resource.plural, resource.name, resource.kind, resource.singular)
            if alias
        }
        close = find_similar(kind.lower(), sorted(names))
        hint = f" Did you mean {names[close]!r}?" if close else ""
        return f"There is no kind {kind!r} in the cluster.{hint}"

    async def find(self) -> AsyncIterator[Found]:
        """All selected objects, page by page."""
        if self.selection.kind is None:
            forbidden: list[str] = []
            for resource in await self._find_kinds():
                async for found in self._list(resource, forbidden):
                    yield found
            if forbidden:
                count, names = len(forbidden), ", ".join(forbidden)
                what = "1 kind is" if count == 1 else f"{count} kinds are"
                self.problems.append(f"{what} skipped, as you may not list them: {names}.")
            return
        resource = await self.resolve()
        if not self.selection.names:
            async for found in self._list(resource, []):
                yield found
        for name in self.selection.names:
            try:
                body = await self.api.get(resource, name, self.namespace)
            except APINotFoundError:
                self.problems.append(f"There is no {self._show(resource, name)}.")
            except APIForbiddenError as e:
                self.problems.append(f"{self._show(resource, name)}: {e}")
            else:
                yield Found(resource, cast(RawBody, body))

    async def _find_kinds(self) -> list[Resource]:
        scanned = await scan(self.api.client)
        for group, error in scanned.broken_groups.items():
            self.problems.append(f"The API group {group} is skipped: {error}")
        kinds = [
            resource
            for resource in scanned.resources
            if resource.preferred
            and resource.plural not in UNINTERESTING
            and "list" in resource.verbs
            # A definition in deletion has no "patch" there, but its objects can be patched still.
            and {"patch", "delete"} & resource.verbs
            and (resource.namespaced or self.selection.clusterwide)
        ]
        return sorted(kinds, key=lambda resource: (resource.group, resource.plural))

    async def _list(self, resource: Resource, forbidden: list[str]) -> AsyncIterator[Found]:
        """All objects of the kind. In a search through all kinds, note a kind that fails."""
        selection = self.selection
        listing = self.api.list(
            resource, self.namespace, labels=selection.labels, fields=selection.fields
        )
        try:
            async for body in listing:
                yield Found(resource, cast(RawBody, body))
        except APIError as e:
            if selection.kind is not None:
                raise
            if isinstance(e, APIForbiddenError):
                forbidden.append(resource.name)
                return
            self.problems.append(f"{resource.name} are skipped: {e}")

    def _show(self, resource: Resource, name: str) -> str:
        return show_name(resource, self.namespace if resource.namespaced else None, name)


def show_name(resource: Resource, namespace: str | None, name: str) -> str:
    """The name for people: ``KopfExample default/x``."""
    kind = resource.kind or resource.name
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
