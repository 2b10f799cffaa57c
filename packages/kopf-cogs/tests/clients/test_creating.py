import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.creating import create_object
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.structs.resources import Resource

SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
SECRET = {"metadata": {"name": "x", "namespace": "ns"}, "data": {"pin": 1234}}


def create(client, resource):
    return create_object(client, resource, "ns", SECRET)


def create_via_api(client, resource):
    return ObjectsAPI(client).create(SECRET, kind=resource)


def apply_via_api(client, resource):
    return ObjectsAPI(client).apply(SECRET, kind=resource)


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


@pytest.mark.parametrize("write", [create, create_via_api, apply_via_api])
@pytest.mark.parametrize("status", [400, 422, 500])
async def test_k24_refusals_of_secrets_do_not_quote_them(server, client, resource, write, status):
    text = "failed to create typed patch object: .data.pin: expected string, got &value{Value:1234}"
    server.script(server.error(status, message=text), server.error(status, message=text))
    with pytest.raises(errors.APIClientError, match=f"^{status}.*hidden") as excinfo:
        await write(client, SECRETS)
    assert "1234" not in repr(excinfo.value)
    assert excinfo.value.__suppress_context__
    with pytest.raises(errors.APIClientError, match="1234"):
        await write(client, resource)


async def test_k24_other_refusals_of_secrets_are_explained(server, client):
    server.script(server.error(403, message="You may not."))
    with pytest.raises(errors.APIForbiddenError, match="You may not"):
        await create(client, SECRETS)
