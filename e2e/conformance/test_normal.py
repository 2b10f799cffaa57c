"""The observations are comparable, and nothing more than that is done to them."""

from __future__ import annotations

from typing import Any

from e2e.conformance.normal import ABSENT, normalise, pick, without_messages


def make_failure(*causes: tuple[str, str]) -> dict[str, Any]:
    text = ", ".join(f"{field}: {message}" for field, message in causes)
    details = {"causes": [{"field": field, "message": message} for field, message in causes]}
    return {"message": f"x is invalid: [{text}]", "details": details}


def test_volatile_values_are_replaced() -> None:
    value = {
        "metadata": {"uid": "x", "resourceVersion": "1", "namespace": "ns-1", "name": "keep"},
        "text": "in ns-1 at 2020-01-01T00:00:00Z of 01234567-89ab-cdef-0123-456789abcdef",
        "list": ["ns-1/x", 5, None],
    }
    assert normalise(value, "ns-1") == {
        "metadata": {
            "uid": "(uid)",
            "resourceVersion": "(version)",
            "namespace": "(ns)",
            "name": "keep",
        },
        "text": "in (ns) at (time) of (uid)",
        "list": ["(ns)/x", 5, None],
    }


def test_empty_volatile_values_are_kept() -> None:
    assert normalise({"continue": "", "uid": None}, "ns") == {"continue": "", "uid": None}


def test_order_of_causes_does_not_matter() -> None:
    one, two = ("spec.a", "wrong, very"), ("spec.b", "absent")
    failures = [make_failure(one, two), make_failure(two, one)]
    first, second = (normalise(failure, "ns") for failure in failures)
    assert first == second == make_failure(one, two)


def test_other_causes_do_matter() -> None:
    failures = [make_failure(("spec.a", "wrong"), ("b", field)) for field in ("c", "d")]
    first, second = (normalise(failure, "ns") for failure in failures)
    assert first != second


def test_message_with_other_texts_than_the_causes_is_kept() -> None:
    failure = {**make_failure(("a", "b"), ("c", "d")), "message": "x is invalid: [odd]"}
    assert normalise(failure, "ns") == failure


def test_picking() -> None:
    source = {"a": [{"b": 1}, {"b": 2}, {}], "c": {"d": None}}
    assert pick(source, "a.1.b") == 2
    assert pick(source, "a.*.b") == [1, 2, ABSENT]
    assert pick(source, "c.d") is None
    assert pick(source, "c.d.e") == ABSENT
    assert pick(source, "a.7") == ABSENT


def test_dropping_messages() -> None:
    value = {"code": 404, "message": "x", "details": {"causes": [{"message": "y", "field": "f"}]}}
    assert without_messages(value) == {"code": 404, "details": {"causes": [{"field": "f"}]}}
