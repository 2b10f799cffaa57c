import asyncio

import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.discovery import scan
from kopf_cogs.structs.resources import Resource


def serve(server, responses):
    for path, payload in responses.items():
        step = payload if not isinstance(payload, (dict, list)) else server.reply(payload)
        server.script(step, path=path)


CORE = {"versions": ["v1"]}
PODS = {
    "resources": [
        {
            "name": "pods",
            "singularName": "pod",
            "namespaced": True,
            "kind": "Pod",
            "verbs": ["list", "watch"],
            "shortNames": ["po"],
            "categories": ["all"],
        },
        {"name": "pods/status", "singularName": "", "namespaced": True, "kind": "Pod"},
        {"name": "pods/eviction", "kind": "Eviction"},
        {"name": "nodes", "singularName": "", "namespaced": False, "kind": "Node"},
    ]
}
GROUP = {
    "name": "kopf.dev",
    "versions": [{"version": "v1beta1"}, {"version": "v1"}],
    "preferredVersion": {"version": "v1"},
}
EXAMPLES = {"resources": [{"name": "kopfexamples", "kind": "KopfExample", "namespaced": True}]}


def facts(resource):
    return (
        resource.kind,
        resource.singular,
        resource.shortcuts,
        resource.categories,
        resource.subresources,
        resource.namespaced,
        resource.preferred,
        resource.verbs,
    )


async def test_scanning_one_by_one(server, client):
    serve(
        server,
        {
            "/api": CORE,
            "/api/v1": PODS,
            "/apis": {"groups": [GROUP]},
            "/apis/kopf.dev/v1": EXAMPLES,
            "/apis/kopf.dev/v1beta1": EXAMPLES,
        },
    )
    result = await scan(client)
    assert not result.broken_groups
    found = {str(resource): resource for resource in result.resources}
    assert set(found) == {
        "pods.v1",
        "nodes.v1",
        "kopfexamples.v1.kopf.dev",
        "kopfexamples.v1beta1.kopf.dev",
    }
    assert facts(found["pods.v1"]) == (
        "Pod",
        "pod",
        {"po"},
        {"all"},
        {"status", "eviction"},
        True,
        True,
        {"list", "watch"},
    )
    assert facts(found["nodes.v1"]) == ("Node", "node", set(), set(), set(), False, True, set())
    assert found["kopfexamples.v1.kopf.dev"].preferred
    assert not found["kopfexamples.v1beta1.kopf.dev"].preferred


def aggregated(name, versions):
    return {"metadata": {"name": name}, "versions": versions}


def aggregated_version(version, *names, **fields):
    return {
        "version": version,
        "resources": [
            {
                "resource": name,
                "responseKind": {"kind": name.capitalize()},
                "scope": "Namespaced",
                "singularResource": name[:-1],
                "verbs": ["list"],
                "shortNames": ["x"],
                "categories": ["y"],
                "subresources": [{"subresource": "status"}],
            }
            for name in names
        ],
        **fields,
    }


async def test_aggregated_scanning(server, client):
    serve(
        server,
        {
            "/api": {
                "kind": "APIGroupDiscoveryList",
                "items": [{"metadata": {}, "versions": [aggregated_version("v1", "pods")]}],
            },
            "/apis": {
                "kind": "APIGroupDiscoveryList",
                "items": [
                    aggregated(
                        "apps",
                        [
                            aggregated_version("v1", "things"),
                            aggregated_version("v1beta1", "things"),
                        ],
                    )
                ],
            },
        },
    )
    result = await scan(client)
    assert len(server.requests) == 2
    assert all("APIGroupDiscoveryList" in r.headers["Accept"] for r in server.requests)
    found = {str(resource): resource for resource in result.resources}
    assert set(found) == {"pods.v1", "things.v1.apps", "things.v1beta1.apps"}
    assert facts(found["things.v1.apps"]) == (
        "Things",
        "thing",
        {"x"},
        {"y"},
        {"status"},
        True,
        True,
        {"list"},
    )
    assert not found["things.v1beta1.apps"].preferred


async def test_specific_groups(server, client):
    serve(
        server,
        {
            "/api": CORE,
            "/api/v1": PODS,
            "/apis/kopf.dev": GROUP,
            "/apis/absent": server.error(404),
            "/apis/kopf.dev/v1": EXAMPLES,
            "/apis/kopf.dev/v1beta1": server.error(404),
        },
    )
    result = await scan(client, groups=["kopf.dev", "", "absent"])
    assert result.resources == {
        Resource("", "v1", "pods"),
        Resource("", "v1", "nodes"),
        Resource("kopf.dev", "v1", "kopfexamples"),
    }
    assert not result.broken_groups
    assert "/apis" not in {request.path for request in server.requests}


async def test_nothing_to_scan(server, client):
    assert not (await scan(client, groups=[])).resources
    assert not server.requests


@pytest.mark.parametrize("failure", ["503", "403", "html", "junk", "list", "names", "eof"])
async def test_c21_broken_groups_do_not_affect_others(server, client, settings, failure):
    settings.networking.error_backoffs = [100]  # must not be retried, as others wait for it
    broken = {
        "503": server.error(503),
        "403": server.error(403),
        "html": server.reply(b"<html>"),
        "junk": server.reply("junk"),
        "list": server.reply([1]),
        "names": server.reply({"resources": [{"kind": "NoName"}]}),
        "eof": server.raw(server.EOF),
    }[failure]
    groups = [GROUP, {"name": "metrics.k8s.io", "versions": [{"version": "v1"}]}]
    serve(
        server,
        {
            "/api": CORE,
            "/api/v1": PODS,
            "/apis": {"groups": groups},
            "/apis/kopf.dev/v1": EXAMPLES,
            "/apis/kopf.dev/v1beta1": EXAMPLES,
            "/apis/metrics.k8s.io/v1": broken,
        },
    )
    server.script(broken)  # the HTTP library repeats some of requests
    result = await scan(client)
    assert len(result.resources) == 4
    assert set(result.broken_groups) == {"metrics.k8s.io"}
    assert isinstance(result.broken_groups["metrics.k8s.io"], errors.APIError)


@pytest.mark.parametrize(
    "version",
    [
        aggregated_version("v1", freshness="Stale"),
        {"version": "v1", "resources": ["junk"]},
    ],
)
async def test_c21_broken_aggregated_groups(server, client, version):
    serve(
        server,
        {
            "/api": server.error(404),
            "/apis": {
                "kind": "APIGroupDiscoveryList",
                "items": [
                    aggregated("metrics.k8s.io", [version]),
                    aggregated("apps", [aggregated_version("v1", "things")]),
                ],
            },
        },
    )
    result = await scan(client)
    assert result.resources == {Resource("apps", "v1", "things")}
    assert set(result.broken_groups) == {"metrics.k8s.io"}


async def test_a10_nulls(server, client):
    serve(
        server,
        {
            "/api": {"versions": []},
            "/apis": {"groups": [GROUP, {"name": "x", "versions": None}]},
            "/apis/kopf.dev/v1": {"resources": None},
            "/apis/kopf.dev/v1beta1": {},
        },
    )
    result = await scan(client)
    assert not result.resources
    assert not result.broken_groups


@pytest.mark.parametrize("payload", [[], "text", 1])
async def test_senseless_indices_are_errors(server, client, payload):
    serve(server, {"/api": CORE, "/api/v1": PODS, "/apis": server.reply(payload)})
    with pytest.raises(errors.APIResponseError, match="not understood"):
        await scan(client)


async def test_forbidden_indices_are_errors(server, client):
    serve(server, {"/api": CORE, "/apis": server.error(403)})
    with pytest.raises(errors.APIForbiddenError):
        await scan(client)


@pytest.mark.parametrize("slow", ["/api", "/apis"])
async def test_b3_the_same_of_several_errors_is_raised_whichever_comes_first(server, client, slow):
    quick = {"/api": "/apis", "/apis": "/api"}[slow]
    gate = asyncio.Event()
    for path in ("/api", "/apis"):
        refusal = server.error(403, message=f'User "me" cannot get path "{path}"')
        server.script(server.raw(*([gate] if path == slow else []), *refusal.parts), path=path)
    task = asyncio.create_task(scan(client))
    await server.until(lambda requests: {quick, slow} <= {request.path for request in requests})
    gate.set()
    with pytest.raises(errors.APIForbiddenError, match='cannot get path "/api"'):
        await task
