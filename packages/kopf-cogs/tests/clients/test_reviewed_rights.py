"""What is missing in the role, as the API says it about all that is wanted."""

import pytest

from kopf_cogs.clients.errors import APIForbiddenError
from kopf_cogs.clients.rights import Right, explain_refusal

WANTED = [
    Right("kopf.dev", "kopfexamples", "list"),
    Right("kopf.dev", "kopfexamples", "patch"),
    Right("kopf.dev", "kopfexamples/status", "patch"),
]
REFUSAL = 'cannot list resource "kopfexamples" in API group "kopf.dev" at the cluster scope'


@pytest.fixture
async def refusal(server, client):
    server.script(server.error(403, message=REFUSAL))
    with pytest.raises(APIForbiddenError) as info:
        await client.get("/refused")
    server.requests.clear()
    return info.value


def allow(server, *verdicts):
    server.script(*[server.reply({"status": {"allowed": verdict}}) for verdict in verdicts])


@pytest.mark.parametrize("namespace", ["ns", None])
async def test_i_the_api_is_asked_of_each_right(server, client, refusal, namespace):
    allow(server, True, True, True)
    await explain_refusal(client, refusal, WANTED, namespace)
    asked = [request.json["spec"]["resourceAttributes"] for request in server.requests]
    assert {(item["resource"], item["subresource"], item["verb"]) for item in asked} == {
        ("kopfexamples", "", "list"),
        ("kopfexamples", "", "patch"),
        ("kopfexamples", "status", "patch"),
    }
    assert {(item["group"], item["namespace"]) for item in asked} == {("kopf.dev", namespace or "")}


async def test_i_all_that_is_missing_is_told_at_once(server, client, refusal):
    allow(server, False, False, False)
    hint = await explain_refusal(client, refusal, WANTED, "ns")
    assert hint == (
        ". Add these rules to the role of the operator: "
        '{apiGroups: ["kopf.dev"], resources: [kopfexamples], verbs: [list, patch]}, '
        '{apiGroups: ["kopf.dev"], resources: [kopfexamples/status], verbs: [patch]}.'
    )


@pytest.mark.parametrize("replies", ["allowed", "refused", "nonsense"])
async def test_i_otherwise_it_is_what_was_refused(server, client, refusal, replies):
    for _ in WANTED:
        match replies:
            case "allowed":
                allow(server, True)
            case "refused":
                server.script(server.error(403))
            case "nonsense":
                server.script(server.reply([]))
    hint = await explain_refusal(client, refusal, WANTED, "ns")
    assert hint == (
        ". Add this rule to the role of the operator: "
        '{apiGroups: ["kopf.dev"], resources: [kopfexamples], verbs: [list]}.'
    )
