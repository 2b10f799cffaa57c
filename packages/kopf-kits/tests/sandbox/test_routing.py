import pytest

from kopf_kits.sandbox.http.routing import Target, parse


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api", Target("")),
        ("/api/v1", Target("", "v1")),
        ("/api/v1/", Target("", "v1")),
        ("/apis/g", Target("g")),
        ("/apis/g/v", Target("g", "v")),
        ("/api/v1/pods", Target("", "v1", "pods")),
        ("/api/v1/namespaces", Target("", "v1", "namespaces")),
        ("/api/v1/namespaces/ns", Target("", "v1", "namespaces", None, "ns")),
        ("/api/v1/namespaces/ns/status", Target("", "v1", "namespaces", None, "ns", "status")),
        ("/api/v1/namespaces/ns/finalize", Target("", "v1", "namespaces", None, "ns", "finalize")),
        ("/api/v1/namespaces/ns/pods", Target("", "v1", "pods", "ns")),
        ("/api/v1/namespaces/ns/pods/x", Target("", "v1", "pods", "ns", "x")),
        ("/apis/g/v/namespaces/n/things/x/status", Target("g", "v", "things", "n", "x", "status")),
        ("/apis/g/v/things/a%2Fb", Target("g", "v", "things", None, "a/b")),
        ("/apis/g/v/watch/things", Target("g", "v", "things", watch=True)),
        ("/api/v1/namespaces/ns/pods/x/a/b", None),
        ("/api/v1//pods", None),
        ("/", None),
        ("", None),
        ("/version", None),
        ("/apis", None),
    ],
)  # fmt: skip
def test_paths(path, target):
    assert parse(path) == target
