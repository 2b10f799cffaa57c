"""Names in the code: one name means one thing."""

import ast
import pathlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = ROOT / "packages" / "kopf-core" / "src" / "kopf_core"


def iter_names() -> Iterator[tuple[str, str]]:
    """The modules and the classes of the core, with where they are."""
    for path in CORE.rglob("*.py"):
        where = path.relative_to(CORE).as_posix()
        yield (path.parent.name if path.name == "__init__.py" else path.stem), where
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                yield node.name.lstrip("_"), where


def test_two_modules_or_classes_never_have_the_same_name() -> None:
    places = defaultdict(list)
    for name, where in iter_names():
        places[name].append(where)
    assert {name: wheres for name, wheres in places.items() if len(wheres) > 1} == {}


PACKAGES = [ROOT / "packages" / "kopf-core" / "src", ROOT / "packages" / "kopf-cogs" / "src"]
PAGES = [
    "architecture.md",
    "reference/architecture.md",
    "reference/glossary.md",
    "reference/situations.md",
    "reference/turns.md",
]
DOTTED = re.compile(r"`(\w+(?:\.\w+)+)(?:\(\))?`")


@pytest.fixture(scope="module")
def members() -> Mapping[str, set[str]]:
    """The names inside of all modules, packages, and classes, by the names of these."""
    found = defaultdict[str, set[str]](set)
    for path in [path for package in PACKAGES for path in package.rglob("*.py")]:
        where = path.parent if path.name == "__init__.py" else path
        found[where.parent.name].add(where.stem)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef):
                owner = where.stem if isinstance(node, ast.Module) else node.name
                found[owner] |= {name for child in node.body for name in iter_declared(child)}
    return found


def iter_declared(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


@pytest.mark.parametrize("page", PAGES)
def test_pages_about_the_code_name_what_is_there(
    page: str, members: Mapping[str, set[str]]
) -> None:
    named = DOTTED.findall((ROOT / "docs" / page).read_text("utf-8"))
    paths = [path.split(".") for path in named if not path.startswith(("settings.", "kopf."))]
    pairs = [pair for path in paths for pair in pairwise(path)]
    ours = [(owner, name) for owner, name in pairs if owner in members or owner[0].isupper()]
    assert [f"{owner}.{name}" for owner, name in ours if name not in members.get(owner, ())] == []
