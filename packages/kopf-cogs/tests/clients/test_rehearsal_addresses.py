"""What the URLs of requests are about."""

import pytest

from kopf_cogs.clients.rehearsal.addresses import parse_address


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/api/v1/pods?watch=true", ("/api/v1", "pods", None, None, None)),
        ("/api/v1/namespaces/ns/pods/x", ("/api/v1", "pods", "ns", "x", None)),
        ("/api/v1/namespaces/ns", ("/api/v1", "namespaces", None, "ns", None)),
        ("/api/v1/namespaces/ns/status", ("/api/v1", "namespaces", None, "ns", "status")),
        ("/api/v1/namespaces", ("/api/v1", "namespaces", None, None, None)),
        ("/apis/a.b/v1/ks/a%3Ab/scale", ("/apis/a.b/v1", "ks", None, "a:b", "scale")),
        ("/apis/a.b/v1", None),
        ("/apis/apps", None),
        ("/apis", None),
        ("/version", None),
        ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", None),
    ],
)
def test_n5_addresses(url: str, expected: object) -> None:
    assert parse_address(url) == expected
