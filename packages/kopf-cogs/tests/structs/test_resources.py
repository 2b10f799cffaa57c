import dataclasses

import pytest

from kopf_cogs.structs.resources import (
    CLUSTER_PEERINGS,
    CRDS,
    EVENTS,
    LEGACY_CLUSTER_PEERINGS,
    LEGACY_NAMESPACED_PEERINGS,
    MUTATING_WEBHOOK,
    NAMESPACED_PEERINGS,
    NAMESPACES,
    VALIDATING_WEBHOOK,
    Resource,
)

CORE = Resource("", "v1", "pods", namespaced=True)
CUSTOM = Resource("kopf.dev", "v1", "kopfexamples", namespaced=True)
CLUSTER = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)


def test_identity_is_only_of_group_version_plural():
    other = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample", preferred=False)
    assert other == CUSTOM
    assert hash(other) == hash(CUSTOM)
    assert other != dataclasses.replace(other, version="v2")
    assert other != dataclasses.replace(other, group="kopf")
    assert other != dataclasses.replace(other, plural="others")
    assert other != "kopfexamples.v1.kopf.dev"


def test_names():
    assert repr(CORE) == str(CORE) == f"{CORE}" == "pods.v1"
    assert repr(CUSTOM) == str(CUSTOM) == "kopfexamples.v1.kopf.dev"
    assert (CORE.name, CORE.api_version) == ("pods", "v1")
    assert (CUSTOM.name, CUSTOM.api_version) == ("kopfexamples.kopf.dev", "kopf.dev/v1")


def test_resources_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CORE.kind = "Pod"


@pytest.mark.parametrize(
    ("resource", "kwargs", "url"),
    [
        (CORE, {}, "/api/v1/pods"),
        (CUSTOM, {}, "/apis/kopf.dev/v1/kopfexamples"),
        (CUSTOM, {"namespace": "ns"}, "/apis/kopf.dev/v1/namespaces/ns/kopfexamples"),
        (
            CUSTOM,
            {"namespace": "ns", "name": "n"},
            "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/n",
        ),
        (
            CUSTOM,
            {"namespace": "ns", "name": "n", "subresource": "status", "params": {"a": "b c/d"}},
            "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/n/status?a=b+c%2Fd",
        ),
        (NAMESPACES, {"name": "n"}, "/api/v1/namespaces/n"),
        (NAMESPACES, {"server": "https://h:1/base/"}, "https://h:1/base/api/v1/namespaces"),
        (NAMESPACES, {"params": {}}, "/api/v1/namespaces"),
        (
            CORE,
            {"server": "https://h", "params": {"labelSelector": "a=b,c!=d", "watch": "true"}},
            "https://h/api/v1/pods?labelSelector=a%3Db%2Cc%21%3Dd&watch=true",
        ),
    ],
)
def test_urls(resource, kwargs, url):
    assert resource.get_url(**kwargs) == url


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("system:node", "system:node"),
        ("a?x=1", "a%3Fx=1"),
        ("a#b", "a%23b"),
        ("a b", "a%20b"),
        ("a\nb", "a%0Ab"),
        ("a/b", "a%2Fb"),
        ("../../secrets", "..%2F..%2Fsecrets"),
        ("50%", "50%25"),
        ("a+b", "a%2Bb"),
        ("é", "%C3%A9"),
    ],
)
def test_c22_names_are_escaped_in_urls(name, segment):
    base = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert CLUSTER.get_url(name=name) == f"{base}/{segment}"
    assert CORE.get_url(namespace=name) == f"/api/v1/namespaces/{segment}/pods"


@pytest.mark.parametrize("name", [".", ".."])
def test_c22_impossible_names_are_refused(name):
    with pytest.raises(ValueError, match="impossible"):
        CLUSTER.get_url(name=name)


@pytest.mark.parametrize(
    ("resource", "kwargs", "error"),
    [
        (CUSTOM, {"name": "n"}, "namespace is required"),
        (CLUSTER, {"namespace": "ns"}, "not supported for cluster-scoped"),
        (Resource("", "v1", "unknown"), {"namespace": "ns"}, "not supported for cluster-scoped"),
        (CUSTOM, {"namespace": "ns", "subresource": "status"}, "only for named objects"),
    ],
)
def test_impossible_urls_are_refused(resource, kwargs, error):
    with pytest.raises(ValueError, match=error):
        resource.get_url(**kwargs)


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (EVENTS, "events.v1"),
        (NAMESPACES, "namespaces.v1"),
        (CRDS, "customresourcedefinitions.v1.apiextensions.k8s.io"),
        (CLUSTER_PEERINGS, "clusterkopfpeerings.v1.kopf.dev"),
        (NAMESPACED_PEERINGS, "kopfpeerings.v1.kopf.dev"),
        (LEGACY_CLUSTER_PEERINGS, "clusterkopfpeerings.v1.zalando.org"),
        (LEGACY_NAMESPACED_PEERINGS, "kopfpeerings.v1.zalando.org"),
        (MUTATING_WEBHOOK, "mutatingwebhookconfigurations.v1.admissionregistration.k8s.io"),
        (VALIDATING_WEBHOOK, "validatingwebhookconfigurations.v1.admissionregistration.k8s.io"),
    ],
)
def test_well_known_resources(resource, name):
    assert str(resource) == name
    assert resource.namespaced is (
        resource in {EVENTS, NAMESPACED_PEERINGS, LEGACY_NAMESPACED_PEERINGS}
    )
