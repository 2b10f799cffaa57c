"""Who is related to whom: by fields, by indices, by functions."""

from typing import Any

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_core.engines.desired.relations import Relation, parse_names


def primary(name: str, **spec: Any) -> Body:
    return Body({"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def secret(name: str, namespace: str = "ns") -> Any:
    return {"kind": "Secret", "metadata": {"name": name, "namespace": namespace}}


def test_fields_name_the_related() -> None:
    relation = Relation(("spec", "secretName"), indices={})
    relation.track("u1", primary("p1", secretName="s1"))
    relation.track("u2", primary("p2", secretName=["s1", "s2", "other/s3"]))
    relation.track("u3", primary("p3"))
    assert relation.find_primaries(secret("s1")) == {"u1", "u2"}
    assert relation.find_primaries(secret("s2")) == {"u2"}
    assert relation.find_primaries(secret("s2", "other")) == set()
    assert relation.find_primaries(secret("s3", "other")) == {"u2"}
    assert set(relation.get_names("u1")) == {("ns", "s1")}


def test_cluster_scoped_objects_are_related_in_all_namespaces() -> None:
    relation = Relation(("spec", "classes"), indices={})
    relation.track("u1", primary("p1", classes=["c1", "c2"]))
    relation.track("u2", primary("p2", classes="other/c2"))
    classes: list[Any] = [{"metadata": {"name": name}} for name in ("c1", "c2")]
    assert [relation.find_primaries(body) for body in classes] == [{"u1"}, {"u1", "u2"}]
    relation.track("u1", primary("p1", classes=["other/c2"]))
    assert [relation.find_primaries(body) for body in classes] == [set(), {"u1", "u2"}]
    relation.forget("u1")
    assert [relation.find_primaries(body) for body in classes] == [set(), {"u2"}]


def test_changed_fields_change_the_relation() -> None:
    relation = Relation(("spec", "secretName"), indices={})
    relation.track("u1", primary("p1", secretName="s1"))
    relation.track("u1", primary("p1", secretName="s2"))
    assert relation.find_primaries(secret("s1")) == set()
    assert relation.find_primaries(secret("s2")) == {"u1"}
    relation.forget("u1")
    assert relation.find_primaries(secret("s2")) == set()


def test_functions_find_the_primary_ones() -> None:
    relation = Relation(lambda body: body["metadata"]["name"].split("-"), indices={})
    relation.track("u1", primary("p1"))
    relation.track("u2", primary("p2"))
    assert relation.find_primaries(secret("p1-p2-p3")) == {"u1", "u2"}
    assert [*relation.find_related("u1", [secret("p1"), secret("p2")])] == [secret("p1")]


@pytest.fixture
def moving() -> Relation:
    """By a label, which can be absent; and seen by a pass when it was of the first one."""
    relation = Relation(lambda body: body["metadata"]["labels"]["to"], indices={})
    relation.track("u1", primary("p1"))
    relation.track("u2", primary("p2"))
    assert [*relation.find_related("u1", [make_state("s", 1, to="p1")])]
    return relation


def find_both(relation: Relation, body: Any) -> set[Any]:
    return {*relation.find_former(body), *relation.find_primaries(body)}


def test_functions_find_those_who_were_related_before(moving: Relation) -> None:
    assert find_both(moving, make_state("s", 2, to="p2")) == {"u1", "u2"}
    assert find_both(moving, make_state("s", 3, to="p2")) == {"u2"}
    assert find_both(moving, make_state("s", 4, to="nobody")) == {"u2"}
    assert find_both(moving, make_state("s", 5, to="nobody")) == set()


def test_failing_functions_relate_to_nobody_since_then(moving: Relation) -> None:
    state = make_state("s", 2, to="")
    state["metadata"]["labels"] = {}
    assert moving.find_former(state) == {"u1"}
    with pytest.raises(KeyError):
        moving.find_primaries(state)
    assert moving.find_former(state) == set()


def test_former_relations_are_known_also_after_passes_that_were_faster(moving: Relation) -> None:
    """Our own writes are read before they are told of, and so are those that come amid them."""
    state = make_state("s", 2, to="p2")
    assert [*moving.find_related("u2", [state])]
    assert find_both(moving, state) == {"u1", "u2"}
    assert find_both(moving, make_state("s", 3, to="p2")) == {"u2"}


def test_former_relations_outlive_many_other_objects(moving: Relation) -> None:
    assert [*moving.find_related("u1", [make_state(f"s{n}", 1, to="p1") for n in range(10)])]
    assert not [*moving.find_related("u2", [make_state("s", 1, to="p1")])]
    assert find_both(moving, make_state("s1", 2, to="p2")) == {"u1", "u2"}


def test_nothing_is_remembered_of_those_who_are_gone(moving: Relation) -> None:
    remains: Any = {"metadata": {"name": "s", "namespace": "ns", "uid": "s"}}
    assert moving.forget_related(remains) == {"u1"}
    assert moving.forget_related(remains) == set()
    assert not moving._known
    assert [*moving.find_related("u1", [make_state("s", 2, to="p1")])]
    assert not [*moving.find_related("u1", [make_state("s", 3, to="p2")])]
    for key in ("u1", "u2"):
        moving.forget(key)
    assert not moving._known
    assert not moving._untold


def make_state(name: str, version: int, to: str) -> Any:
    meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return {"metadata": meta | {"labels": {"to": to}}}


def test_functions_are_called_once_for_each_state() -> None:
    calls: list[str] = []

    def find(body: Any) -> Any:
        calls.append(body["metadata"]["name"])
        return body["metadata"]["labels"]["to"]

    relation = Relation(find, indices={})
    relation.track("u1", primary("p1"))
    relation.track("u2", primary("p2"))
    states = [make_state("a", 1, "p1"), make_state("b", 1, "p2")]
    for _ in range(3):
        assert [*relation.find_related("u1", states)] == states[:1]
        assert [*relation.find_related("u2", states)] == states[1:]
    assert calls == ["a", "b"]
    states[1] = make_state("b", 2, "p1")
    assert [*relation.find_related("u1", states)] == states
    assert calls == ["a", "b", "b"]


def test_functions_that_fail_relate_nothing() -> None:
    relation = Relation(lambda body: body["nothing"], indices={})
    relation.track("u1", primary("p1"))
    assert [*relation.find_related("u1", [make_state("a", 1, "p1")])] == []
    assert [*relation.find_related("unknown", [make_state("a", 1, "p1")])] == []


def test_functions_find_cluster_scoped_primary_ones() -> None:
    relation = Relation(lambda body: ["p1", "elsewhere/p2"], indices={})
    relation.track("u1", Body({"metadata": {"name": "p1"}}))
    relation.track("u2", Body({"metadata": {"name": "p2", "namespace": "elsewhere"}}))
    assert relation.find_primaries(secret("s1", "any")) == {"u1", "u2"}


def test_indices_know_the_primary_ones() -> None:
    indices: Any = {"by_secret": {("ns", "s1"): [{"name": "p1"}], "s2": ["p2"]}}
    relation = Relation("by_secret", indices=indices)
    relation.track("u1", primary("p1"))
    relation.track("u2", primary("p2"))
    assert relation.find_primaries(secret("s1")) == {"u1"}
    assert relation.find_primaries(secret("s2")) == {"u2"}
    assert relation.find_primaries(secret("s3")) == set()


def test_indices_are_turned_to_know_the_related_ones() -> None:
    index: dict[Any, list[Any]] = {
        ("ns", "s1"): [{"name": "p1"}, "elsewhere/p2"],
        ("other", "s1"): ["ns/p1"],
        "s2": ["p2", ("elsewhere", "p3")],
        (1, 2, 3): ["p1"],
        5: [None],
    }
    relation = Relation("by_secret", indices={"by_secret": index})
    relation.track("u1", primary("p1"))
    relation.track("u2", primary("p2"))
    relation.track("u3", Body({"metadata": {"name": "p3", "namespace": "elsewhere"}}))
    relation.track("u4", Body({"metadata": {"name": "p1"}}))
    assert relation.get_names("u1") == [("ns", "s1"), ("other", "s1"), ("ns", (1, 2, 3))]
    assert relation.get_names("u2") == [("ns", "s2")]
    assert relation.get_names("u3") is None  # the secret can be in any namespace
    assert relation.get_names("u4") is None  # it is in no namespace itself
    assert relation.get_names("unknown") is None
    del index["ns", "s1"]
    relation.renew()
    assert relation.get_names("u1") == [("other", "s1"), ("ns", (1, 2, 3))]


def test_what_is_not_in_the_index_anymore_is_not_related() -> None:
    index: dict[Any, list[Any]] = {"s1": ["p1"]}
    relation = Relation("by_secret", indices={"by_secret": index})
    relation.track("u1", primary("p1"))
    assert relation.get_names("u1") == [("ns", "s1")]
    index.clear()  # and it is not told
    assert [*relation.find_related("u1", [secret("s1")])] == []


def test_recreated_objects_take_the_names_over() -> None:
    relation = Relation(lambda body: "p1", indices={})
    relation.track("u1", primary("p1"))
    relation.track("u2", primary("p1"))
    relation.forget("u1")
    assert relation.find_primaries(secret("s")) == {"u2"}


def test_o5_failing_functions_relate_to_nobody_and_stop_nobody() -> None:
    """One odd object must not stop all those whose related objects are looked for among others."""
    relation = Relation(lambda body: body["metadata"]["labels"]["thing"], indices={})
    relation.track("u1", primary("p1"))
    good, odd = secret("s1"), secret("s2")
    good["metadata"]["labels"] = {"thing": "p1"}
    assert [*relation.find_related("u1", [odd, good])] == [good]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, []),
        ("", []),
        ("a", [("ns", "a")]),
        ("x/a", [("x", "a")]),
        (("x", "a"), [("x", "a")]),
        ((None, "a"), [(None, "a")]),
        (["a", "x/b"], [("ns", "a"), ("x", "b")]),
        ({"name": "a"}, [("ns", "a")]),
        ([{"name": "a", "namespace": "x"}, {"other": 1}], [("x", "a")]),
        ([{"name": "a", "namespace": ["x"]}, {"name": "b", "namespace": {}}], [("ns", "b")]),
        (5, []),
    ],
)
def test_notations_of_names(value: Any, names: list[Any]) -> None:
    assert [*parse_names(value, "ns")] == names
