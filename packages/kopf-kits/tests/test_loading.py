"""Loading of files and modules with handlers, and the explanations when it fails."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kopf_core.intents.registries import (
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)
from kopf_kits.loading import LoadingError, preload


@pytest.fixture(autouse=True)
def _imports_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def get_loaded() -> list[object]:
    """What the loaded files have left for us."""
    results: list[object] = vars(sys).setdefault("_loaded_by_tests", [])
    return results


@pytest.fixture(autouse=True)
def _results_forgotten() -> Iterator[None]:
    yield
    vars(sys).pop("_loaded_by_tests", None)


REPORT = "import sys; vars(sys).setdefault('_loaded_by_tests', []).append({!r})\n"


def test_files_are_loaded_in_order(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "handlers.py").write_text(REPORT.format(name))
    preload(["b/handlers.py", "a/handlers.py"])
    assert get_loaded() == ["b", "a"]


def test_files_find_their_neighbours(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/neighbour.py").write_text(REPORT.format("neighbour"))
    (tmp_path / "folder/handlers.py").write_text("import neighbour\n")
    preload(["folder/handlers.py"])
    assert get_loaded() == ["neighbour"]


def test_files_are_importable_by_their_own_names(tmp_path: Path) -> None:
    text = "import sys\nclass A: pass\nassert sys.modules[__name__].A is A\n"
    (tmp_path / "my-handlers.py").write_text(text)
    preload(["my-handlers.py"])


def test_modules_are_loaded_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "pkg4test").mkdir()
    (tmp_path / "pkg4test/handlers.py").write_text(REPORT.format("module"))
    preload(modules=["pkg4test.handlers"])
    assert get_loaded() == ["module"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent.py", "The file 'absent.py' does not exist."),
        ("folder", "'folder' is a folder, not a file; use -m for packages."),
        ("noext", "'noext' is not a Python file: the name must end with '.py'."),
    ],
)
def test_unsuitable_files(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "noext").write_text("pass")
    with pytest.raises(LoadingError) as err:
        preload([path])
    assert str(err.value) == message


@pytest.mark.parametrize("name", ["nosuchmodule4test", "pkg4test.nosuchmodule", "nosuchpkg.x"])
def test_absent_modules(tmp_path: Path, name: str) -> None:
    (tmp_path / "pkg4test").mkdir()
    with pytest.raises(LoadingError) as err:
        preload(modules=[name])
    assert str(err.value) == f"The module {name!r} is not found."


@pytest.mark.parametrize("name", ["../x", "./x", "pkg/x", "pkg\\x", ".x", "x.", "a..b", ""])
def test_names_that_are_not_of_modules(name: str) -> None:
    with pytest.raises(LoadingError) as err:
        preload(modules=[name])
    assert str(err.value) == f"{name!r} is not a name of a module; paths go without -m."


def test_files_instead_of_modules(tmp_path: Path) -> None:
    (tmp_path / "mod4test.py").write_text("")
    with pytest.raises(LoadingError) as err:
        preload(modules=["mod4test.py"])
    assert str(err.value) == "The module 'mod4test.py' is not found; paths go without -m."


def test_absent_imports_of_existing_modules_are_another_thing(tmp_path: Path) -> None:
    (tmp_path / "mod4test.py").write_text("\nimport nosuchmodule4test\n")
    with pytest.raises(LoadingError) as err:
        preload(modules=["mod4test"])
    expected = "mod4test.py:2: ModuleNotFoundError: No module named 'nosuchmodule4test'"
    assert str(err.value) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n1/0\n", "broken.py:2: ZeroDivisionError: division by zero"),
        ("x = 1\ny = = 2\n", "broken.py:2: SyntaxError: invalid syntax"),
        ("def f():\n  raise ValueError('a\\nb')\nf()", "broken.py:2: ValueError: a\nb"),
        (
            "import json\n\njson.loads('{')\n",
            "broken.py:3: json.decoder.JSONDecodeError: ",  # the rest differs among interpreters
        ),
        ("raise SystemExit(5)", "broken.py: it has exited when loaded (code 5)."),
    ],
)
def test_broken_files_point_to_the_line_of_the_user(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(LoadingError) as err:
        preload(["broken.py"])
    assert str(err.value).startswith(message)


def test_details_have_only_the_frames_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "helping.py").write_text("def fail():\n    raise ValueError('boo')\n")
    (tmp_path / "broken.py").write_text("import helping\nhelping.fail()\n")
    with pytest.raises(LoadingError) as err:
        preload(["broken.py"])
    lines = err.value.details.splitlines(keepends=True)
    # Some versions of Python underline the calls.
    assert "".join(line for line in lines if line.strip(" ~^\n")) == (
        "Traceback (most recent call last):\n"
        f'  File "{tmp_path}/broken.py", line 2, in <module>\n    helping.fail()\n'
        f"  File \"{tmp_path}/helping.py\", line 2, in fail\n    raise ValueError('boo')\n"
        "ValueError: boo\n"
    )


def test_details_of_wrong_syntax_have_no_frames(tmp_path: Path) -> None:
    (tmp_path / "broken4test.py").write_text("x = 1\ny = = 2\n")
    (tmp_path / "importing.py").write_text("import broken4test\n")
    with pytest.raises(LoadingError) as err:
        preload(["importing.py"])
    assert str(err.value) == "broken4test.py:2: SyntaxError: invalid syntax"
    assert err.value.details == (
        f'  File "{tmp_path}/broken4test.py", line 2\n'
        "    y = = 2\n        ^\nSyntaxError: invalid syntax\n"
    )


def test_details_of_wrong_syntax_not_in_files_are_as_of_other_errors(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\neval('1 +')\n")
    with pytest.raises(LoadingError, match=r"^broken\.py:2: SyntaxError: ") as err:
        preload(["broken.py"])
    assert err.value.details.startswith("Traceback (most recent call last):\n")


def test_details_of_installed_operators_have_their_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "mod4test.py").write_text("\n1/0\n")
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(LoadingError, match=r"mod4test\.py:2: ZeroDivisionError: ") as err:
        preload(modules=["mod4test"])
    assert err.value.details.count("  File ") == 1


def test_files_that_are_not_even_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_bytes(b"x = 1\0\n")
    with pytest.raises(LoadingError, match=r"^broken\.py:.* null bytes") as err:
        preload(["broken.py"])
    assert "importlib" not in err.value.details


def test_wrong_use_of_the_framework_points_to_the_line_of_the_user(tmp_path: Path) -> None:
    text = "from kopf_core.intents import decorators\n\ndecorators.create(field=123, nosuch=1)\n"
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(LoadingError, match=r"^broken\.py:3: TypeError: "):
        preload(["broken.py"])


HANDLERS = """
from kopf_core.intents import decorators

@decorators.create("kopfexamples")
def create_fn(**_):
    pass
"""


def load(*paths: str) -> list[object]:
    """Load them with a registry of their own, and get the handlers."""
    before = get_default_registry()
    try:
        preload(paths)
        return [handler.fn for handler in get_default_registry().resource_handlers]
    finally:
        set_default_registry(before)


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="PyPy does not tell the names")
def test_names_of_modules_above_are_suggested(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    path.write_text("import kopf\nkopf.on.reconcile\n")
    with pytest.raises(LoadingError, match=r"py:2: .*\. Did you mean: 'kopf\.reconcile'\?"):
        preload([str(path)])


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="PyPy does not tell the names")
def test_misspelt_names_are_corrected(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    path.write_text("import asyncio\nasyncio.sleeep\n")
    with pytest.raises(LoadingError) as info:
        preload([str(path)])
    text = (
        r"handlers\.py:2: AttributeError: .* 'sleeep'\. Did you mean:? '\.?sleep'"  # 3.15 has a dot
    )
    assert re.search(text, str(info.value))


def test_relative_imports_of_files_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    path.write_text("from . import helpers\n")
    text = "no known parent package; load it by its full name: kopf run -m PACKAGE.MODULE$"
    with pytest.raises(LoadingError, match=text):
        preload([str(path)])


def test_handlers_of_imported_files_are_not_registered_twice(tmp_path: Path) -> None:
    (tmp_path / "operators.py").write_text(HANDLERS)
    (tmp_path / "others.py").write_text("import operators")
    before = get_default_registry()
    set_default_registry(OperatorRegistry())
    try:
        assert len(load("others.py", "operators.py")) == 1
        assert load("operators.py") == [sys.modules["operators"].create_fn]
    finally:
        set_default_registry(before)


def test_files_are_loaded_anew_for_other_registries(tmp_path: Path) -> None:
    (tmp_path / "operators.py").write_text(HANDLERS)
    before = get_default_registry()
    try:
        found = []
        for _ in range(2):
            set_default_registry(OperatorRegistry())
            found += load("operators.py")
    finally:
        set_default_registry(before)
    assert len({id(fn) for fn in found}) == 2


def test_operators_are_not_run_by_what_is_only_loaded(tmp_path: Path) -> None:
    text = "from kopf_core.reactor.process.running import run\n\nrun(clusterwide=True)\n"
    (tmp_path / "handlers.py").write_text(text)
    with pytest.raises(LoadingError, match=r"^handlers.py:3: RuntimeError: An operator is run"):
        preload(["handlers.py"])
