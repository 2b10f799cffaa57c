"""The states on objects: written always in the same way, whatever is installed."""

import datetime
import json
import math
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from kopf_cogs.configs.healing import encode_json

# The whole Unicode takes a minute to be prepared where nothing is cached and the machine is busy.
TEXTS = st.text('aя"\\/\n\x00\x7f\u2028\ud800\U0001f600', max_size=10)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=10
)


def encode_slowly(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_the_same_as_in_the_standard_library(value: Any) -> None:
    assert encode_json(value) == encode_slowly(value)


@pytest.mark.parametrize(
    "value",
    [
        1e16,
        1.5e-7,
        7.5e-05,
        -1.25e-05,
        1e-4,
        -1e300,
        math.inf,
        math.nan,
        2**70,
        "é",
        "\x7f",
        "\ud800",
        "a/b",
        'q"q',
        "\t",
    ],
)
def test_what_differs_between_encoders(value: Any) -> None:
    assert encode_json({"field": [value]}) == encode_slowly({"field": [value]})


def test_keys_are_made_strings() -> None:
    assert encode_json({1: "value"}) == '{"1":"value"}'


@pytest.mark.parametrize("value", [object(), datetime.datetime.now(datetime.UTC)])
def test_what_cannot_be_encoded_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        encode_json({"field": value})
