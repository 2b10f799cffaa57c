import pytest

from kopf_cogs.configs.selectors_map import SelectorMapping
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import EVERYTHING, Selector

DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", kind="Deployment", shortcuts=frozenset({"deploy"})
)
KEX = Resource("kopf.dev", "v1", "kopfexamples", kind="KopfExample")
PODS = Resource("", "v1", "pods", kind="Pod")


def test_values_are_collected_from_all_matching_selectors_in_order():
    mapping = SelectorMapping()
    mapping["deploy"] = "a"
    mapping["apps", EVERYTHING] = "b"
    mapping[EVERYTHING] = "c"
    mapping["kopf.dev", "v1", "kopfexamples"] = "d"
    mapping["kopf.dev/v1/kopfexamples"] = "e"  # the same as above
    mapping[Selector.of(kind="Pod")] = "f"
    mapping[lambda resource: resource.plural == "pods"] = "g"
    assert mapping.collect(DEPLOYMENTS) == ["a", "b", "c"]
    assert mapping.collect(KEX) == ["c", "e"]
    assert mapping.collect(PODS) == ["c", "f", "g"]
    assert SelectorMapping().collect(PODS) == []


def test_keys_are_accessible_in_any_notation():
    mapping = SelectorMapping({"deployments.apps": "x"})
    assert mapping["apps", "deployments"] == "x"
    assert ("apps", "deployments") in mapping
    assert "deployments" not in mapping
    assert list(mapping) == [Selector.of("apps", "deployments")]
    assert len(mapping) == 1
    del mapping["apps", "deployments"]
    assert not mapping
    with pytest.raises(KeyError):
        mapping["apps", "deployments"]


def test_representation():
    mapping = SelectorMapping({"kex": "x"})
    assert repr(mapping) == "SelectorMapping({Selector(any_name='kex'): 'x'})"


@pytest.mark.parametrize("key", [None, 123, PODS])
def test_wrong_keys_are_refused(key):
    with pytest.raises(TypeError, match="Unsupported type of a resource selector"):
        SelectorMapping()[key] = "x"
