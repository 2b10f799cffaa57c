import pytest

from kopf_kits.sandbox.store.resources import version_priority

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_core(client, sandbox):
    answer = await client.get("/api")
    assert answer.json["kind"] == "APIVersions"
    assert answer.json["versions"] == ["v1"]
    address = answer.json["serverAddressByClientCIDRs"][0]["serverAddress"]
    assert sandbox.url == f"http://{address}"
    answer = await client.get("/api/v1")
    found = {item["name"]: item for item in answer.json["resources"]}
    assert answer.json["groupVersion"] == "v1"
    assert found["pods"]["shortNames"] == ["po"]
    assert found["pods"]["categories"] == ["all"]
    assert found["pods"]["singularName"] == "pod"
    assert "watch" in found["pods"]["verbs"]
    assert found["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert found["namespaces"]["namespaced"] is False


async def test_groups(client, crd):
    groups = {group["name"]: group for group in (await client.get("/apis")).json["groups"]}
    assert groups["kopf.dev"] == {
        "name": "kopf.dev",
        "versions": [{"groupVersion": "kopf.dev/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "kopf.dev/v1", "version": "v1"},
    }
    assert [item["version"] for item in groups["autoscaling"]["versions"]] == ["v2", "v1"]
    answer = await client.get("/apis/kopf.dev")
    assert answer.json["kind"] == "APIGroup"
    assert answer.json["name"] == "kopf.dev"


async def test_resources(client, crd):
    answer = await client.get("/apis/kopf.dev/v1")
    assert [item["name"] for item in answer.json["resources"]] == [
        "kopfexamples",
        "kopfexamples/status",
    ]
    main = answer.json["resources"][0]
    assert main["kind"] == "KopfExample"
    assert main["shortNames"] == ["kex"]


async def test_scale_is_of_another_kind(client):
    answer = await client.get("/apis/apps/v1")
    found = {item["name"]: item for item in answer.json["resources"]}
    scale = found["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


async def test_aggregated(client, crd):
    answer = await client.get("/apis", AGGREGATED)
    assert answer.headers["Content-Type"] == AGGREGATED
    assert answer.json["kind"] == "APIGroupDiscoveryList"
    groups = {item["metadata"]["name"]: item for item in answer.json["items"]}
    [version] = groups["kopf.dev"]["versions"]
    [resource] = version["resources"]
    assert version["freshness"] == "Current"
    assert resource["resource"] == "kopfexamples"
    assert resource["scope"] == "Namespaced"
    assert resource["responseKind"] == {"group": "kopf.dev", "version": "v1", "kind": "KopfExample"}
    assert [sub["subresource"] for sub in resource["subresources"]] == ["status"]
    [core] = (await client.get("/api", AGGREGATED)).json["items"]
    assert "pods" in [item["resource"] for item in core["versions"][0]["resources"]]


async def test_version_and_health(client):
    assert (await client.get("/version")).json["major"] == "1"
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
        assert (await client.get(path)).text == "ok"
    assert "/apis" in (await client.get("/")).json["paths"]


async def test_openapi(client, crd):
    index = (await client.get("/openapi/v3")).json
    url = index["paths"]["apis/kopf.dev/v1"]["serverRelativeURL"]
    document = (await client.get(url)).json
    operation = document["paths"]["/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples/{name}"][
        "patch"
    ]
    assert "fieldValidation" in [item["name"] for item in operation["parameters"]]
    schema = document["components"]["schemas"]["dev.kopf.v1.KopfExample"]
    assert schema["properties"]["spec"]["type"] == "object"
    apps = (await client.get("/openapi/v3/apis/apps/v1")).json
    spec = apps["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    assert spec["properties"]["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert (await client.get("/openapi/v3/apis/absent.dev/v1")).status == 404


@pytest.mark.parametrize(
    "versions",
    [["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "foo1", "foo10"]],
)
def test_priority_of_versions(versions):
    shuffled = sorted(versions)
    assert sorted(shuffled, key=version_priority) == versions
