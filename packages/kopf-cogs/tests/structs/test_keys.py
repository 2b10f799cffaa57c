import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.keys import object_key
from kopf_cogs.structs.resources import Resource

RESOURCE = Resource("", "v1", "componentstatuses", namespaced=False)


def test_objects_are_identified_by_uids():
    body = {"metadata": {"uid": "uid1", "name": "n", "namespace": "ns"}}
    assert object_key(RESOURCE, body) == "uid1"
    assert object_key(RESOURCE, Body(body)) == "uid1"


@pytest.mark.parametrize("uid", [{}, {"uid": None}, {"uid": ""}])
def test_c17_objects_without_uids_are_identified_by_names(uid):
    key1 = object_key(RESOURCE, {"metadata": {"name": "n", "namespace": "ns", **uid}})
    key2 = object_key(RESOURCE, {"metadata": {"name": "n", "namespace": "other", **uid}})
    assert key1 == (RESOURCE, "ns", "n")
    assert key2 == (RESOURCE, "other", "n")
    assert len({key1, key2, key1}) == 2


@pytest.mark.parametrize("body", [{}, {"metadata": None}, {"metadata": {}}])
def test_c17_objects_without_names(body):
    assert object_key(RESOURCE, body) == (RESOURCE, None, None)
