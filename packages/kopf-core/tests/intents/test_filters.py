"""One value against one criterion, and the combinators of callbacks."""

import pytest

from kopf_core.intents.filters import (
    ABSENT,
    MISSING,
    PRESENT,
    all_,
    any_,
    none_,
    not_,
    validate_meta_filter,
    value_matches,
)


def yes(*_, **__):
    return True


def no(*_, **__):
    return False


def refuse():
    pytest.fail("The keyword arguments must not be made unless there is a callback.")


@pytest.mark.docs("filtering/field")
@pytest.mark.parametrize(
    ("criterion", "value", "expected"),
    [
        ("x", "x", True),
        ("x", "y", False),
        ("x", MISSING, False),
        ("", "", True),
        ("", MISSING, False),
        (0, 0, True),
        (0, MISSING, False),
        (False, False, True),
        (False, MISSING, False),
        ([1], [1], True),
        ({}, {}, True),
        (PRESENT, "x", True),
        (PRESENT, "", True),
        (PRESENT, 0, True),
        (PRESENT, MISSING, False),
        (ABSENT, "x", False),
        (ABSENT, "", False),
        (ABSENT, MISSING, True),
    ],
)
def test_literals_and_markers(criterion, value, expected):
    assert value_matches(criterion, value, refuse) is expected


@pytest.mark.docs("filtering/value-callbacks")
@pytest.mark.parametrize(("value", "given"), [("x", "x"), (MISSING, None), ("", "")])
def test_callbacks_get_the_value_positionally_with_kwargs(value, given):
    calls = []

    def check(value, /, **kwargs):
        calls.append((value, kwargs))
        return "truthy"

    assert value_matches(check, value, lambda: {"name": "n", "value": "of a kwarg"}) is True
    assert calls == [(given, {"name": "n", "value": "of a kwarg"})]


@pytest.mark.docs("filtering/value-callbacks")
@pytest.mark.parametrize("falsy", [False, None, "", 0, []])
def test_callbacks_with_falsy_results_do_not_match(falsy):
    assert value_matches(lambda *_, **__: falsy, "x", dict) is False


@pytest.mark.docs("filtering/helpers")
@pytest.mark.parametrize(
    ("fns", "expected"),
    [
        ([], (True, False, True)),
        ([yes], (True, True, False)),
        ([no], (False, False, True)),
        ([yes, no], (False, True, False)),
        ([no, no], (False, False, True)),
        ([yes, yes], (True, True, False)),
    ],
)
def test_combinators(fns, expected):
    assert (all_(fns)(), any_(fns)(), none_(fns)()) == expected


@pytest.mark.docs("filtering/helpers")
def test_negation():
    assert not_(no)() is True
    assert not_(yes)() is False


@pytest.mark.docs("filtering/helpers")
@pytest.mark.parametrize(
    "combine", [all_, any_, none_, lambda fns: not_(fns[0])], ids=["all_", "any_", "none_", "not_"]
)
def test_combinators_pass_everything_to_callbacks(combine):
    calls = []

    def fn(*args, **kwargs):
        calls.append((args, kwargs))

    combine([fn])("value", name="n")
    assert calls == [(("value",), {"name": "n"})]


@pytest.mark.docs("filtering/helpers")
def test_combinators_can_be_combined():
    assert all_([any_([no, yes]), none_([no]), not_(no)])() is True


@pytest.mark.docs("filtering/metadata")
@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_none_as_a_metadata_criterion_is_refused_with_a_hint(kind):
    with pytest.raises(ValueError, match=rf"{kind}.*kopf\.PRESENT or kopf\.ABSENT"):
        validate_meta_filter(kind, {"x": None})


@pytest.mark.parametrize("criteria", [None, {}, {"x": ""}, {"x": PRESENT}, {"x": yes}])
def test_good_metadata_criteria_are_accepted(criteria):
    validate_meta_filter("labels", criteria)
