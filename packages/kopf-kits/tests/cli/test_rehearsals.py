"""What is shown of rehearsals, and what they end with."""

import json
from typing import Any

import click.testing
import pytest

from kopf_cogs.clients.rehearsal.addresses import ObjectKey
from kopf_cogs.clients.rehearsal.overlay import Difference
from kopf_core.reactor.life.once import Once
from kopf_kits.cli.groups import main
from kopf_kits.cli.rehearsals import get_code, iter_lines, make_change, report


def make_body(**fields: Any) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "ns", "uid": "1", "resourceVersion": "5"}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **fields}


def make_difference(before: Any, after: Any, plural: str = "things") -> Difference:
    return Difference(ObjectKey(f"/api/v1/{plural}", "ns", "x"), before, after)


CREATED = make_difference(None, make_body(spec={"b": [1], "a": {"c": True}}))
CHANGED = make_difference(make_body(spec={"a": 1, "b": 2}), make_body(spec={"a": 3, "x.y": "z"}))
DELETED = make_difference(make_body(spec={"a": 1}), None)


def test_n5_differences_are_shown_in_lines() -> None:
    assert [*iter_lines([CREATED, CHANGED, DELETED])] == [
        "+ Thing ns/x (v1)",
        "  + spec.a.c: true",
        "  + spec.b: [1]",
        "~ Thing ns/x (v1)",
        "  ~ spec.a: 1 -> 3",
        "  - spec.b: 2",
        '  + spec."x.y": "z"',
        "- Thing ns/x (v1)",
        "Rehearsed: 1 to create, 1 to change, 1 to delete. Nothing is committed.",
    ]


@pytest.mark.parametrize("before", [None, {"data": {"k": "c2VjcmV0Cg=="}}])
def test_n5_secrets_are_not_shown(before: Any) -> None:
    notes = {"annotations": {"last": "c2VjcmV0Mg=="}}
    after = make_body(data={"k": "c2VjcmV0Mg==", "other": "c2VjcmV0Mg=="})
    after["metadata"] |= notes
    known = None if before is None else make_body(**before)
    found = make_difference(known, after, plural="secrets")
    text = json.dumps(make_change(found)) + "".join(iter_lines([found]))
    assert "c2Vj" not in text
    assert "data.k" in text
    assert "(hidden)" in text


@pytest.mark.parametrize(
    ("differences", "unfinished", "code"),
    [([], [], 0), ([CREATED], [], 3), ([CREATED], ["something"], 4), ([], ["something"], 4)],
)
def test_n5_exit_codes(
    differences: list[Difference],
    unfinished: list[str],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    once = Once(dry_run=True, differences=differences, unfinished=unfinished)
    assert get_code(once) == code
    report(once, "json")
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["changes"]) == len(differences)
    assert captured.err == "".join(f"Unfinished: {line}\n" for line in unfinished)


def test_q_unfinished_work_is_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    report(Once(unfinished=["one: a\nb", "two: \x1b[2J"]), "text")
    assert capsys.readouterr().err == "Unfinished: one: a\\nb\nUnfinished: two: \\x1b[2J\n"


@pytest.mark.parametrize("option", ["--dry-run", "--patience=1", "--timeout=1", "-ojson"])
def test_n5_options_are_refused_without_once(option: str) -> None:
    result = click.testing.CliRunner().invoke(main, ["run", option])
    assert result.exit_code == 2
    assert "with --once" in result.output
