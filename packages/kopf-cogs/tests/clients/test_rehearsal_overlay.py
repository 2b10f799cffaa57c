"""The predicted states, as readers with selectors see them."""

import pytest

from kopf_cogs.clients.rehearsal.addresses import Address
from kopf_cogs.clients.rehearsal.overlay import Entry, Overlay, identify, make_reader


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("", ["a", "b"]),
        ("metadata.name=a", ["a"]),
        ("metadata.name==a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("metadata.name!=a,metadata.namespace!=ns", []),
        ("spec.unknown!=a", ["a", "b"]),
    ],
)
def test_reh1_readers_see_the_new_objects_that_their_field_selectors_match(selector, names):
    overlay = Overlay()
    for name in ("a", "b"):
        body = {"metadata": {"name": name, "namespace": "ns"}}
        overlay.put(identify("/api/v1/pods", body), Entry(base=None, current=None), body)
    address = Address("/api/v1", "pods", None, None, None)
    reader = make_reader(address, {"fieldSelector": selector})
    found = overlay.cover(reader, [], is_first=True, is_last=True)
    assert [body["metadata"]["name"] for body in found] == names
