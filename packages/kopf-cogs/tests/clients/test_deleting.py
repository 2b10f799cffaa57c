"""Deletions of objects that can be gone already: what of the errors says that they are."""

from typing import Any

import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.objects import ObjectsAPI
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import Resource

REPLACED = [
    'Operation cannot be fulfilled on kopfexamples "x": the UID in the precondition (a) does not '
    "match the UID in record (b). The object might have been deleted and then recreated",
    'Operation cannot be fulfilled on kopfexamples "x": StorageError: invalid object, Code: 4, '
    "AdditionalErrorMsg: Precondition failed: UID in precondition: a, UID in object meta: b",
]


@pytest.mark.parametrize("message", REPLACED)
async def test_other_objects_of_the_name_are_spared(
    server: Any, client: Client, resource: Resource, message: str
) -> None:
    server.script(server.error(409, message=message))
    await ObjectsAPI(client).delete(resource, "x", "ns", uid="a", missing_ok=True)


async def test_absent_objects_are_gone(server: Any, client: Client, resource: Resource) -> None:
    server.script(server.error(404, details={"name": "x"}))
    await ObjectsAPI(client).delete(resource, "x", "ns", uid="a", missing_ok=True)


@pytest.mark.parametrize("status", [404, 409])
async def test_h2_other_errors_do_not_say_that_it_is_gone(
    server: Any, client: Client, resource: Resource, status: int
) -> None:
    server.script(server.error(status, message="not now"))
    with pytest.raises(errors.APIClientError):
        await ObjectsAPI(client).delete(resource, "x", "ns", uid="a", missing_ok=True)
