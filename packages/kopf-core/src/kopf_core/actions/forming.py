"""Whole objects, where a part of an object is not enough."""

from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.resources import Resource


async def get_whole(client: Client, resource: Resource, body: Body) -> Body | None:
    """The same object as a whole; ``None`` if it is gone, be there another one with its name.

    Functions of patches and conditions are made of it. If they were made of the part that is
    kept, the rest would be lost with the change.
    """
    meta = body.metadata
    try:
        whole = Body(await client.get(resource.get_url(namespace=meta.namespace, name=meta.name)))
    except APINotFoundError:
        return None
    return whole if whole.metadata.uid == meta.uid else None
