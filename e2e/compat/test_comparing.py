"""That the comparison itself notices what it must notice."""

from __future__ import annotations

import fnmatch
import re
from typing import Any

from .cases import CASES
from .comparing import UNORDERED, Expected, check, compare
from .expected import EXPECTED
from .normalising import ASPECTS, normalise
from .proxies import Request
from .tracks import Observations

PATH = "/apis/compat.kopf.dev/v1/namespaces/compat-00000-case/compatexamples/x"


def see(
    journal: list[dict[str, Any]] | None = None, requests: list[Request] | None = None
) -> dict[str, list[str]]:
    seen = Observations(journal or [], [], requests or [], [], [], [])
    return normalise(seen, run_id="00000-case")


def call(handler: str, **kwargs: Any) -> dict[str, Any]:
    kwargs = {"name": "x", "reason": "create", **kwargs}
    return {"handler": handler, "names": sorted(kwargs), "kwargs": kwargs}


def test_lost_calls_are_noticed() -> None:
    differences = compare("c", "ours", see([call("a"), call("b")]), see([call("a")]), [])
    assert [(d.aspect, len(d.lines), d.lines[0][0]) for d in differences] == [("calls", 1, "-")]


def test_repeated_calls_are_noticed() -> None:
    differences = compare("c", "ours", see([call("a")]), see([call("a"), call("a")]), [])
    assert [(d.aspect, len(d.lines), d.lines[0][0]) for d in differences] == [("calls", 1, "+")]


def test_other_orders_are_noticed() -> None:
    theirs, ours = [call("a"), call("b")], [call("b"), call("a")]
    assert compare("c", "ours", see(theirs), see(ours), [])


def test_other_kwargs_are_noticed() -> None:
    assert compare("c", "ours", see([call("a", retry=1)]), see([call("a", retry=2)]), [])


def test_times_and_ids_are_not_compared() -> None:
    theirs = call("a", spec={"t": "2026-11-21T00:45:41.977088+00:00", "n": "compat-00000-case"})
    ours = call("a", spec={"t": "2026-11-21T00:46:42.000000+00:00", "n": "compat-00000-case"})
    assert not compare("c", "ours", see([theirs]), see([ours]), [])


def test_touches_and_preconditions_are_not_compared() -> None:
    touch = {"metadata": {"annotations": {"kopf.zalando.org/touch-dummy": "now"}}}
    plain = {"metadata": {"labels": {"l": "v"}}}
    guarded = {"metadata": {"labels": {"l": "v"}, "uid": "some"}}
    theirs = [Request("PATCH", PATH, "m", body, 200) for body in (touch, plain)]
    ours = [Request("PATCH", PATH, "m", guarded, 200)]
    assert not compare("c", "ours", see(requests=theirs), see(requests=ours), [])


def test_what_only_ours_remembers_of_cycles_is_not_compared() -> None:
    others = [{"metadata": {"annotations": {"a": "b"}}}, {"status": {"my": {"x": {}}}}]
    seen = [
        {"metadata": {"annotations": {"kopf.zalando.org/seen-states": "..."}}},
        {"status": {"my": {"seen-states": "..."}}},
        {"status": {"my": {"seen-states": None}}},
    ]
    theirs = [Request("PATCH", PATH, "m", body, 200) for body in others]
    ours = [Request("PATCH", PATH, "m", body, 200) for body in (*seen, *others)]
    assert not compare("c", "ours", see(requests=theirs), see(requests=ours), [])
    assert compare("c", "ours", see(requests=theirs), see(requests=ours[:-1]), [])


def test_only_the_expected_lines_are_excused() -> None:
    expected = [Expected("c*", "calls", r"^\+.* a\(", "So be it.")]
    theirs, ours = see([]), see([call("a"), call("b")])
    (difference,) = compare("case", "ours", theirs, ours, expected)
    assert difference.excused == {"So be it.": 1}
    assert [line[:7] for line in difference.lines] == ["+x: b(n"]


def test_missing_required_calls_are_noticed() -> None:
    calls = see([call("a", retry=1)])["calls"]
    assert not check("c", "ours", calls, [r'a\(.*"retry": 1'])
    assert check("c", "ours", calls, [r'a\(.*"retry": 2'])


def test_cases_have_different_names() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def test_parallel_functions_are_compared_with_no_order_of_their_patches() -> None:
    for case in CASES:
        functions = re.findall(r"@kopf\.(?:on\.)?(?:daemon|timer)\(", case.operator)
        assert len(functions) < 2 or case.name.startswith(UNORDERED), case.name


def test_sources_are_compilable() -> None:
    for case in CASES:
        compile(case.operator, case.name, "exec")


def test_reasons_are_one_line_each() -> None:
    for item in EXPECTED:
        assert item.reason.endswith(".")
        assert "\n" not in item.reason
        assert item.line, "an empty pattern excuses everything"
        assert any(fnmatch.fnmatch(aspect, item.aspect) for aspect in ASPECTS)
        assert any(fnmatch.fnmatch(case.name, item.cases) for case in CASES)
