import asyncio
import datetime

import pytest

from kopf_kits.sandbox import Journal
from kopf_kits.sandbox.http.calls import Call

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"


@pytest.mark.usefixtures("crd")
async def test_requests_are_recorded(sandbox, client, make_object):
    await client.post(f"{OBJECTS}?fieldManager=me", make_object())
    await client.merge(f"{OBJECTS}/absent", {"spec": {}})
    created, patched = sandbox.journal
    assert (created.method, created.path, created.status) == ("POST", OBJECTS, 201)
    assert created.query == {"fieldManager": "me"}
    assert created.agent == "tester/1.0"
    assert created.json == make_object()
    assert (patched.content_type, patched.status) == ("application/merge-patch+json", 404)
    assert (created.number, patched.number) == (1, 2)
    assert created.time <= patched.time
    assert sandbox.journal.select("PATCH") == [patched]
    assert sandbox.journal.select(path="*/absent") == [patched]
    assert sandbox.journal.select(since=1) == [patched]
    assert str(patched) == f"PATCH {OBJECTS}/absent -> 404"


@pytest.mark.usefixtures("crd")
async def test_watches_are_recorded_when_they_start(sandbox, client):
    async with client.session.get(f"{OBJECTS}?watch=true"):
        [entry] = await sandbox.journal.wait(path=OBJECTS)
        assert entry.watch
        assert entry.status == 200


async def test_waiting(sandbox, client):
    waiting = asyncio.create_task(sandbox.journal.wait("GET", "/version", count=2))
    await client.get("/version")
    assert not waiting.done()
    await client.get("/version")
    assert len(await waiting) == 2


def test_size_is_bounded():
    journal = Journal(lambda: datetime.datetime.now(datetime.UTC), size=3)
    for number in range(5):
        journal.record(Call("GET", f"/{number}"))
    assert [entry.path for entry in journal] == ["/2", "/3", "/4"]
    assert journal[0].number == 3
    assert len(journal) == 3
    journal.clear()
    assert not list(journal)
