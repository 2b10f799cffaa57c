"""Bringing definitions to the cluster, and waiting until their kinds are served."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Collection, Iterator
from typing import Any, Final

from kopf_cogs.clients.errors import APIError, APIForbiddenError, APINotFoundError
from kopf_cogs.clients.objects import APPLY_PATCH
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_kits.definitions.comparing import Change, compare
from kopf_kits.definitions.errors import DefinitionError
from kopf_kits.definitions.objects import find_misfits
from kopf_kits.definitions.policies import API_VERSION, PLURALS
from kopf_kits.definitions.stored import list_stored

Obj = dict[str, Any]

URL: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MANAGER: Final = "kopf"
TIMEOUT: Final = 60.0  # seconds for the cluster to accept the names of a kind
_BROKEN: Final = (ConnectionError, APIError, json.JSONDecodeError, OSError)


class BreakingChangesError(DefinitionError):
    """The new definitions would break stored objects or clients; the message lists how."""


async def apply_definitions(
    client: Client,
    definitions: Collection[Obj],
    *,
    force: bool = False,
    timeout: float = TIMEOUT,
) -> list[str]:
    """Apply the definitions in order by server-side apply, and wait until all are established.

    Returns their names. Raises :class:`BreakingChangesError` if something would be broken by them,
    with nothing applied, unless ``force``; :class:`DefinitionError` if they are refused by the API,
    or are not established in so many seconds.
    """
    if not force:
        changes = [c for d in definitions for c in await find_changes(client, d)]
        if changes:
            raise BreakingChangesError(
                f"The definitions are not applied, as they break what there is "
                f"(use --force to apply): {'; '.join(str(change) for change in changes)}"
            )
    applied = [await _apply(client, definition) for definition in definitions]
    for definition in applied:
        try:
            await asyncio.wait_for(_wait_until_established(client, definition), timeout)
        except TimeoutError:
            name = definition["metadata"]["name"]
            raise DefinitionError(f"{name} is not established in {timeout:g} seconds.") from None
    return [definition["metadata"]["name"] for definition in applied]


async def apply_policies(client: Client, policies: Collection[Obj]) -> None:
    """Apply the admission policies and their bindings by server-side apply.

    Raises :class:`DefinitionError` if they are refused by the API, or are not known to it.
    """
    for policy in policies:
        plural = PLURALS[policy["kind"]]
        try:
            await _apply(client, policy, f"/apis/{API_VERSION}/{plural}")
        except APINotFoundError as e:
            name = f"{policy['kind']} {policy['metadata']['name']}"
            raise DefinitionError(
                f"{name} is not applied: the cluster does not serve {plural} of {API_VERSION} "
                "(mutating ones need Kubernetes 1.36, validating ones 1.30)."
            ) from e


async def get_definition(client: Client, name: str) -> Obj | None:
    """The definition in the cluster, if there is one."""
    with _hinting(f"{name} cannot be read"):
        try:
            found: Obj = await client.get(f"{URL}/{name}")
        except APINotFoundError:
            return None
        return found


async def find_changes(client: Client, definition: Obj) -> list[Change]:
    """What the definition breaks in the cluster: clients by itself, and the stored objects."""
    stored = await get_definition(client, definition["metadata"]["name"])
    if stored is None:
        return []
    objects = _list_objects(client, stored)
    return [*compare(stored, definition), *await find_misfits(stored, definition, objects)]


@contextlib.contextmanager
def _hinting(what: str) -> Iterator[None]:
    """Name the rule that the role lacks, if the API refuses the requests that are made inside."""
    try:
        yield
    except APIForbiddenError as e:
        raise DefinitionError(f"{what}: {e}{hint_at_role(e)}") from e


async def _list_objects(client: Client, definition: Obj) -> AsyncIterator[Obj]:
    with _hinting(f"Objects of {definition['metadata']['name']} cannot be listed"):
        try:
            async for item in list_stored(client, definition):
                yield item
        except APINotFoundError:
            return  # it is not established, so there are no objects


async def _apply(client: Client, obj: Obj, url: str = URL) -> Obj:
    name = obj["metadata"]["name"]
    options = {"fieldManager": MANAGER, "force": "true"}
    try:
        with _hinting(f"{name} cannot be applied"):
            applied: Obj = await client.patch(
                f"{url}/{name}", obj, content_type=APPLY_PATCH, params=options
            )
    except APINotFoundError:
        raise
    except APIError as e:
        raise DefinitionError(f"{name} is not applied: {e}") from e
    return applied


async def _wait_until_established(client: Client, definition: Obj) -> None:
    name = definition["metadata"]["name"]
    while not _is_established(definition):
        async for state in _watch(client, definition):
            if _is_established(state):
                return
        found = await get_definition(client, name)
        if found is None:
            raise DefinitionError(f"{name} is deleted while it is being applied.")
        definition = found


async def _watch(client: Client, definition: Obj) -> AsyncIterator[Obj]:
    """The next states of the definition, until the stream breaks."""
    metadata = definition["metadata"]
    params = {
        "watch": "true",
        "fieldSelector": f"metadata.name={metadata['name']}",
        "resourceVersion": metadata["resourceVersion"],
    }
    with _hinting(f"{metadata['name']} cannot be watched"):
        async with client.stream(URL, params=params) as response:
            try:
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] in ("ADDED", "MODIFIED"):
                        yield event["object"]
                    else:
                        return
            except _BROKEN:
                return


def _is_established(definition: Obj) -> bool:
    """Whether the kind is served. Raises :class:`DefinitionError` if it will never be."""
    conditions = (definition.get("status") or {}).get("conditions") or []
    known = {condition["type"]: condition for condition in conditions}
    accepted = known.get("NamesAccepted", {})
    if accepted.get("status") == "False":
        raise DefinitionError(
            f"{definition['metadata']['name']}: its names are not accepted: "
            f"{accepted.get('message') or accepted.get('reason')}"
        )
    return bool(known.get("Established", {}).get("status") == "True")
