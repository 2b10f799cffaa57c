"""Names of kinds, as people write them, resolved to the resources of the cluster on demand."""

import asyncio
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from kopf_cogs.clients import discovery, errors, session
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector

Kind = str | Selector | Resource
"""Any notation of the decorators, e.g. ``pods``, ``deployments.apps``, ``apps/v1/deployments``."""


class UnknownKindError(errors.APIError):
    """The cluster serves no such kind of objects: maybe, not yet."""

    is_temporary = True


class AmbiguousKindError(errors.APIError):
    """Several kinds are served under this name: the group or the version is needed, too."""


class Kinds:
    """The kinds that the cluster serves, as far as they were asked for.

    Only the API groups in question are discovered. The found kinds are remembered.
    A request for an absent kind looks for it every time: users can define it at any moment.
    """

    def __init__(self, client: session.Client) -> None:
        super().__init__()
        self._client = client
        self._found: dict[Selector, Resource] = {}
        self._found_kinds: dict[tuple[str, str], Resource] = {}
        self._lock = asyncio.Lock()

    async def resolve(self, kind: Kind) -> Resource:
        """Find the resource by any notation of its name.

        Raises :class:`UnknownKindError` and :class:`AmbiguousKindError`, and :class:`TypeError`
        if the notation itself makes no sense or means many kinds (e.g. a category).
        """
        if isinstance(kind, Resource):
            return kind
        selector = kind if isinstance(kind, Selector) else Selector.of(kind)
        if not selector.is_specific:
            raise TypeError(f"One kind of objects is needed here, not many: {selector!r}")
        found = self._found.get(selector)
        if found is None:
            async with self._lock:  # handlers of many objects ask for the same at the same time
                found = self._found.get(selector)
                if found is None:
                    found = self._found[selector] = await self._discover(selector)
        return found

    async def resolve_body(self, body: Mapping[str, Any]) -> Resource:
        """Find the resource of the object by its own ``apiVersion`` and ``kind``.

        Raises :class:`ValueError` if it has none, and the same errors as for the names.
        """
        api_version, kind = body.get("apiVersion"), body.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            raise ValueError("The object has no apiVersion and kind, and they are not specified.")
        found = self._found_kinds.get((api_version, kind))
        if found is None:
            group, _, version = api_version.rpartition("/")
            found = await self.resolve(Selector(group=group, version=version, kind=kind))
            self._found_kinds[api_version, kind] = found
        return found

    def forget(self, resource: Resource) -> None:
        """The resource is not what it was, e.g. it was not found: discover it anew next time."""
        self._found = {sel: res for sel, res in self._found.items() if res != resource}
        self._found_kinds = {k: res for k, res in self._found_kinds.items() if res != resource}

    def revise(self, resources: Collection[Resource]) -> None:
        """Forget the kinds that the server serves in another way now, e.g. with another scope."""
        served = {resource: resource for resource in resources}
        for known in {*self._found.values(), *self._found_kinds.values()}:
            newer = served.get(known, known)
            if dataclasses.astuple(newer) != dataclasses.astuple(known):
                self.forget(known)

    async def _discover(self, selector: Selector) -> Resource:
        # Without a group, the core API is preferred, and is cheap to look at.
        attempts = [{""}, None] if selector.group is None else [{selector.group}]
        broken: Mapping[str, errors.APIError] = {}
        for groups in attempts:
            scanned = await discovery.scan(self._client, groups=groups)
            broken = scanned.broken_groups
            resolution = selector.resolve(scanned.resources)
            if resolution.ambiguous:
                names = ", ".join(
                    sorted(f"{res.name} ({res.version})" for res in resolution.rivals)
                )
                raise AmbiguousKindError(f"There are several kinds for {_show(selector)}: {names}")
            for resource in resolution.resources:
                return resource
        if broken:
            raise next(iter(broken.values()))  # the kind could be in this group
        raise UnknownKindError(f"There is no such kind in the cluster: {_show(selector)}")


def _show(selector: Selector) -> str:
    name = selector.any_name or selector.kind or selector.plural or selector.singular
    where = "/".join(part for part in (selector.group, selector.version) if part)
    return f"{name} of {where}" if where else f"{name}"
