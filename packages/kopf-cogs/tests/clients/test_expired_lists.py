"""Lists of objects the pages of which come for too long: the server forgets where it was."""

from typing import Any

import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import Resource


@pytest.fixture
def expired(server: Any, listed: Any) -> None:
    gone = server.error(410, reason="Expired")
    first = {"remainingItemCount": 1, "continue": "token"}
    server.script(listed(["a"], **first), gone, listed(["b"], **first), listed(["c"]))


async def test_h2_expired_lists_are_listed_anew(
    expired: None, client: Client, resource: Resource
) -> None:
    items = await ObjectsAPI(client).list(resource)
    assert [item["metadata"]["name"] for item in items] == ["b", "c"]


async def test_h2_expired_pages_are_a_temporary_error(
    expired: None, client: Client, resource: Resource
) -> None:
    """Those who have seen some of the objects must decide by themselves."""
    items = aiter(ObjectsAPI(client).list(resource))
    assert (await anext(items))["metadata"]["name"] == "a"
    with pytest.raises(errors.APIGoneError) as error:
        await anext(items)
    assert error.value.is_temporary
