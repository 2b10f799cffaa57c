"""The signatures of decorators: declared once, but seen and checked as if they were written."""

import inspect

import pytest

from kopf_core.intents import decorators as on

DECORATORS = [
    *(on.startup, on.cleanup, on.login, on.probe),
    *(on.resume, on.create, on.update, on.delete, on.field),
    *(on.event, on.index, on.daemon, on.timer, on.subhandler, on.register),
]
IDS = [decorator.__name__ for decorator in DECORATORS]


@pytest.mark.parametrize("decorator", DECORATORS, ids=IDS)
def test_options_are_spelled_out(decorator):
    parameters = inspect.signature(decorator).parameters.values()
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert {"id", "param"} <= {p.name for p in options}
    assert all(p.default is None for p in options if (decorator, p.name) != (on.field, "field"))
    assert all(p.kind is not p.VAR_KEYWORD for p in parameters)
    assert all(p.annotation is not p.empty for p in parameters)


def test_field_is_required_for_field_handlers():
    parameter = inspect.signature(on.field).parameters["field"]
    assert parameter.default is parameter.empty
    with pytest.raises(TypeError, match=r"field\(\) needs the keyword argument field="):
        on.field("kopfexamples")


@pytest.mark.parametrize("decorator", DECORATORS, ids=IDS)
def test_unknown_options_are_errors_with_suggestions(decorator):
    message = rf"{decorator.__name__}\(\) got an unexpected keyword argument 'parm'.* 'param'"
    with pytest.raises(TypeError, match=message):
        decorator("kopfexamples", parm=1)
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument 'xyzxyz'$"):
        decorator("kopfexamples", xyzxyz=1)


@pytest.mark.parametrize(
    ("decorator", "option", "hint"),
    [
        (on.daemon, "interval", "It is an option of timer()"),
        (on.create, "owns", "It is an option of reconcile()"),
        (on.create, "retry", "Did you mean 'retries'?"),
    ],
)
def test_options_of_other_decorators_are_recognised(decorator, option, hint):
    with pytest.raises(TypeError) as error:
        decorator("kopfexamples", **{option: 5})
    expected = f"{decorator.__name__}() got an unexpected keyword argument '{option}'. {hint}"
    assert str(error.value) == expected


def test_positional_arguments_are_limited():
    with pytest.raises(TypeError, match="positional"):
        on.create("kopf.dev", "v1", "kopfexamples", "fn")
    with pytest.raises(TypeError, match="positional"):
        on.startup("kopfexamples")


def test_docstrings_stay_in_place():
    assert all(decorator.__doc__ for decorator in DECORATORS)
