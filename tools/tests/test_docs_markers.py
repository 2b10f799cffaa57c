"""The table of controller-gen's markers: what it names, is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import model_catalogue as catalogue
import pytest

from kopf import schema

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "markers.md"
TESTS = ROOT / "e2e" / "tests" / "test_definitions.py"
FOREIGN = {"Field", "Literal", "Annotated", "NotRequired", "Required", "Enum", "Any", "UUID"}
"""Of Python and of pydantic."""


def list_rows() -> Iterator[tuple[str, str, str]]:
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("| `") or line.startswith("| comments") or line.startswith("| the tag"):
            marker, code, test = (cell.strip() for cell in line.strip("|").split(" | "))
            yield marker, code, test


ROWS = [pytest.param(*row, id=row[0]) for row in list_rows()]


MARKERS = """
validation:Minimum validation:Maximum validation:ExclusiveMinimum validation:ExclusiveMaximum
validation:MultipleOf validation:MinLength validation:MaxLength validation:Pattern
validation:MinItems validation:MaxItems validation:UniqueItems validation:MinProperties
validation:MaxProperties validation:Enum validation:Format validation:Type
validation:XValidation:rule XPreserveUnknownFields XEmbeddedResource validation:XIntOrString
validation:EmbeddedResource validation:Schemaless validation:Required validation:Optional
required optional nullable default example title pruning:PreserveUnknownFields
validation:ExactlyOneOf validation:AtMostOneOf validation:AtLeastOneOf validation:items:*
message messageExpression reason fieldPath optionalOldSelf
listType=set listType=atomic listType=map listMapKey mapType structType
subresource:status subresource:scale printcolumn selectablefield
resource:path resource:shortName resource:categories resource:singular resource:scope
storageversion unservedversion deprecatedversion deprecatedversion:warning skipversion skip
metadata:labels metadata:annotations groupName versionName
"""
"""Those of controller-tools 0.23 without ``kubebuilder:``; and the parts of the complex ones."""


def test_all_markers_are_in_the_table() -> None:
    named = {name for row in list_rows() for name in re.findall("`([^`]+)`", row[0])}
    assert {*MARKERS.split()} - named == set()
    assert len(catalogue.CASES) >= 40


@pytest.mark.parametrize(("marker", "code", "test"), ROWS)
def test_rows_name_what_is_there(marker: str, code: str, test: str) -> None:
    names = set(re.findall(r"\b([A-Z][A-Za-z]+)\(", code)) - FOREIGN
    assert {name for name in names if not hasattr(schema, name)} == set()
    if marker == "`skipversion`, `skip`":
        return  # nothing is sent to the server, as there is no definition
    match = re.fullmatch(r"`(\w+)(?:\[(.+)\])?`", test)
    assert match is not None
    functions = {
        node.name
        for node in ast.parse(TESTS.read_text("utf-8")).body
        if isinstance(node, ast.AsyncFunctionDef)
    }
    assert match[1] in functions
    assert match[2] is None or match[2] in {case.id for case in catalogue.CASES}
