"""Bringing definitions to the cluster, and waiting until their kinds are served."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator
from typing import Any, Final

from kopf_cogs.clients.errors import (
    APIConflictError,
    APIError,
    APIForbiddenError,
    APINotFoundError,
)
from kopf_cogs.clients.objects import APPLY_PATCH
from kopf_cogs.clients.patching import MERGE_PATCH
from kopf_cogs.clients.rights import hint_at_role
from kopf_cogs.clients.session import Client
from kopf_kits.definitions.comparing import Change, compare, is_converted
from kopf_kits.definitions.errors import DefinitionError
from kopf_kits.definitions.objects import find_misfits
from kopf_kits.definitions.policies import API_VERSION, PLURALS
from kopf_kits.definitions.stored import list_stored

Obj = dict[str, Any]

URL: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MANAGER: Final = "kopf"
TIMEOUT: Final = 60.0  # seconds for the cluster to accept the names of a kind
POLLING: Final = 0.25  # seconds
ATTEMPTS: Final = 10
"""How many times Kopf tries a definition if other clients change it at the same time."""

UNSERVED: Final[Obj] = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"url": "https://conversions-are-not-served-yet.invalid"},
        "conversionReviewVersions": ["v1"],
    },
}
"""Conversions that fail until the operator serves them and puts its address here.

Without conversions, the API server takes the objects of one version for objects of another one.
A client that writes such an object, even an annotation, loses the fields that this version lacks.
"""


class BreakingChangesError(DefinitionError):
    """The new definitions would break stored objects or clients; the message lists how."""


async def apply_definitions(
    client: Client,
    definitions: Collection[Obj],
    *,
    force: bool = False,
    timeout: float = TIMEOUT,
    converted: Collection[str] = (),
) -> list[str]:
    """Apply the definitions in order by server-side apply, and wait until all are established.

    ``converted`` are the names of the definitions whose conversions the operator has.

    Returns the names of the definitions. Unless ``force``, it applies nothing and raises
    :class:`BreakingChangesError` if they would break anything. Raises :class:`DefinitionError`
    if the API refuses them, or does not establish them in so many seconds.
    """
    if not force:
        wanted = [_add_conversion(d) if _get_name(d) in converted else d for d in definitions]
        changes = [c for d in wanted for c in await find_changes(client, d) or ()]
        if changes:
            raise BreakingChangesError(
                f"The definitions are not applied, as they break what there is "
                f"(use --force to apply): {'; '.join(str(change) for change in changes)}"
            )
    applied = []
    for definition in definitions:
        if _get_name(definition) in converted and len(definition["spec"]["versions"]) > 1:
            applied.append(await _apply_converted(client, definition))
        else:
            applied.append(await _apply(client, definition))
    for definition in applied:
        try:
            await asyncio.wait_for(_wait_until_established(client, definition), timeout)
        except TimeoutError:
            name = definition["metadata"]["name"]
            raise DefinitionError(f"{name} is not established in {timeout:g} seconds.") from None
    return [definition["metadata"]["name"] for definition in applied]


async def _apply_converted(client: Client, definition: Obj) -> Obj:
    """Apply a definition. Its conversions fail until the operator serves them: objects are safe."""
    stored = await get_definition(client, _get_name(definition))
    if stored is not None:
        await _ensure_conversion(client, stored)
    return await _ensure_conversion(client, await _apply(client, definition))


async def _ensure_conversion(client: Client, stored: Obj) -> Obj:
    """Set conversions that fail. Server-side apply would take the field from the operator."""
    name = _get_name(stored)
    while not is_converted(stored):
        meta = {"resourceVersion": stored["metadata"]["resourceVersion"]}
        patch = {"metadata": meta, "spec": {"conversion": UNSERVED}}
        try:
            return await _patch(client, f"{URL}/{name}", patch, MERGE_PATCH)
        except (APIConflictError, APINotFoundError):
            stored = await _reread(client, name)
    return stored


async def _reread(client: Client, name: str) -> Obj:
    found = await get_definition(client, name)
    if found is None:
        raise DefinitionError(f"{name} is deleted while it is being applied.")
    return found


def _get_name(definition: Obj) -> str:
    return str(definition["metadata"]["name"])


def _add_conversion(definition: Obj) -> Obj:
    return {**definition, "spec": {**definition["spec"], "conversion": UNSERVED}}


async def apply_policies(client: Client, policies: Collection[Obj]) -> None:
    """Apply the admission policies and their bindings by server-side apply.

    Raises :class:`DefinitionError` if the API refuses them, or does not know them.
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


async def find_changes(client: Client, definition: Obj) -> list[Change] | None:
    """The breaking changes of the definition in the cluster: for clients, and for stored objects.

    ``None`` if the cluster does not define the kind.
    """
    stored = await get_definition(client, definition["metadata"]["name"])
    if stored is None:
        return None
    objects = _list_objects(client, stored)
    return [*compare(stored, definition), *await find_misfits(stored, definition, objects)]


@contextlib.contextmanager
def _hinting(what: str) -> Iterator[None]:
    """Name the rule that the role lacks, if the API refuses the requests in the block."""
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
            return  # the definition is not established, so there are no objects


async def _apply(client: Client, obj: Obj, url: str = URL) -> Obj:
    """Apply the object; repeat if another client creates or changes it at the same moment."""
    for _ in range(ATTEMPTS):
        try:
            return await _patch(client, f"{url}/{_get_name(obj)}", obj, APPLY_PATCH)
        except APIConflictError as e:
            conflict = e
    raise DefinitionError(f"{_get_name(obj)} is not applied: {conflict}") from conflict


async def _patch(client: Client, url: str, patch: Obj, content_type: str) -> Obj:
    name = url.rpartition("/")[2]
    params = {"fieldManager": MANAGER}
    if content_type == APPLY_PATCH:
        params["force"] = "true"
    try:
        with _hinting(f"{name} cannot be applied"):
            found: Obj = await client.patch(url, patch, content_type=content_type, params=params)
    except (APINotFoundError, APIConflictError):
        raise
    except APIError as e:
        raise DefinitionError(f"{name} is not applied: {e}") from e
    return found


async def _wait_until_established(client: Client, definition: Obj) -> None:
    """Poll the definition: it takes a moment, and a broken stream would hide that moment.

    Raises :class:`DefinitionError` if the API server does not accept the names.
    """
    while not _is_true(definition, "Established"):
        await asyncio.sleep(POLLING)
        definition = await _reread(client, _get_name(definition))
        names = _find_condition(definition, "NamesAccepted")
        if names.get("status") == "False":  # the reply to the change has old conditions
            reason = names.get("message") or names.get("reason")
            raise DefinitionError(f"{_get_name(definition)}: its names are not accepted: {reason}")


def _find_condition(definition: Obj, name: str) -> Obj:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == name), {})


def _is_true(definition: Obj, name: str) -> bool:
    return bool(_find_condition(definition, name).get("status") == "True")
