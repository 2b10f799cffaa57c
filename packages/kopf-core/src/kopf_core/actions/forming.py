"""Whole objects, where a part of an object is not enough."""

from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.resources import Resource


async def get_whole(client: Client, resource: Resource, body: Body) -> Body | None:
    """The same object as a whole; ``None`` if it is gone, even if another object has its name.

    Functions of patches, and lists of conditions, need the whole object. If Kopf computed them
    from the kept part, the change would remove all other fields.
    """
    meta = body.metadata
    try:
        whole = Body(await client.get(resource.get_url(namespace=meta.namespace, name=meta.name)))
    except APINotFoundError:
        return None
    return whole if whole.metadata.uid == meta.uid else None
