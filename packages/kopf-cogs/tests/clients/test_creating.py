import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.creating import create_object


async def test_creation(server, client, resource):
    server.script(server.reply({"metadata": {"uid": "u"}}, status=201))
    body = await create_object(client, resource, "ns", {"metadata": {"name": "x"}})
    assert body == {"metadata": {"uid": "u"}}
    (request,) = server.requests
    assert (request.method, request.path) == (
        "POST",
        "/apis/kopf.dev/v1/namespaces/ns/kopfexamples",
    )
    assert request.json == {
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": "x"},
    }


async def test_explicit_kinds_are_respected(server, client, resource):
    server.script(server.reply({}))
    await create_object(client, resource, "ns", {"apiVersion": "a/v1", "kind": "K"})
    assert server.requests[0].json == {"apiVersion": "a/v1", "kind": "K"}


async def test_existing_objects(server, client, resource):
    server.script(server.error(409, reason="AlreadyExists"))
    with pytest.raises(errors.APIConflictError, match="AlreadyExists"):
        await create_object(client, resource, "ns", {"metadata": {"name": "x"}})
