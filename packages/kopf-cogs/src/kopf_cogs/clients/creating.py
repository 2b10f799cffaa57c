"""Creating objects."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from kopf_cogs.clients import errors, session
from kopf_cogs.structs import bodies, resources, secrecy


async def create_object(
    client: session.Client,
    resource: resources.Resource,
    namespace: str | None,
    body: Mapping[str, Any] | bodies.RawBody,
    *,
    backoffs: float | Iterable[float] | None = None,
) -> bodies.RawBody:
    """Create the object, and return it as it is stored: with the uid, the version, the defaults.

    ``apiVersion`` and ``kind`` can be omitted: then, the resource gives them.
    Raises :class:`APIConflictError` if it exists, :class:`APIUnprocessableError` if it is wrong.
    """
    payload = {"apiVersion": resource.api_version, "kind": resource.kind} | dict(body)
    url = resource.get_url(namespace=namespace)
    try:
        return cast(bodies.RawBody, await client.post(url, payload, backoffs=backoffs))
    except errors.APIClientError as e:
        if e.is_of_content and secrecy.is_secret(resource):
            raise e.without_quotes() from None
        raise
