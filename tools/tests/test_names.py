"""Names in the code: one name means one thing."""

import ast
import pathlib
from collections import defaultdict
from collections.abc import Iterator

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
