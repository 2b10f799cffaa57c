"""The facade: all the public names are there, as they were, and nothing is loaded before needed."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kopf

DATA = Path(__file__).with_name("signatures.txt")

# What is ours, additionally to what was there before.
ADDED = {
    "Again",
    "AsyncWishes",
    "Children",
    "Cluster",
    "Condition",
    "Conditions",
    "Related",
    "Wishes",
    "content_hash",
    "flush",
    "owner_of",
    "reconcile",
    "DigestDiffBaseStorage",
    "ExponentialBackoff",
    "HashingDiffBaseStorage",
    "Impersonation",
    "Happening",
    "Trigger",
    "KubeconfigSecrets",
    "WebhookServiceServer",
    "adjust_namespace",
    "api",
    "harmonize_naming",
    "lifecycles",
    "on",
    "resource",
    "schema",
    "sync_api",
    "trigger",
    "update_status",
}


def read_section(section: str) -> Iterator[tuple[str, str]]:
    current = ""
    for line in DATA.read_text("utf-8").splitlines():
        if line.startswith("["):
            current = line.strip("[]")
        elif line and not line.startswith("#") and current == section:
            name, _, rest = line.partition(" ")
            yield name, rest


NAMES = [
    pytest.param(module, name, signature, id=f"{module}.{name}")
    for module in ("kopf", "kopf.on")
    for name, signature in read_section(module)
]


@pytest.mark.parametrize(("module", "name", "signature"), NAMES)
def test_names_and_signatures(module: str, name: str, signature: str) -> None:
    obj = getattr(importlib.import_module(module), name)
    if signature != "?":
        check_signature(inspect.signature(obj), signature)


def check_signature(actual: inspect.Signature, text: str) -> None:
    """All that could be passed before can be passed now, and means the same if not passed."""
    args = ast.parse(f"def fn{text}: ...").body[0].args  # type: ignore[attr-defined]
    defaults = [None] * (len(args.posonlyargs + args.args) - len(args.defaults)) + args.defaults
    positional = [arg.arg for arg in args.posonlyargs + args.args]
    expected = dict(zip(positional, defaults, strict=True))
    expected |= {
        arg.arg: value for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    }
    parameters = {p.name.rpartition("__")[2]: p for p in actual.parameters.values()}
    is_open = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name, default in expected.items():
        if name not in parameters and is_open and name not in positional:
            continue
        if default is not None and not (isinstance(default, ast.Constant) and default.value is ...):
            assert parameters[name].default == ast.literal_eval(default), name
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ours = [name for name, parameter in parameters.items() if parameter.kind in by_position]
    assert ours[: len(positional)] == positional
    for name, parameter in parameters.items():
        is_variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if name not in expected and not is_variadic:
            assert parameter.default is not parameter.empty, name


@pytest.mark.filterwarnings("ignore:.* Please do not configure it:DeprecationWarning")
@pytest.mark.parametrize(("name", "default"), list(read_section("kopf.OperatorSettings")))
def test_settings_and_their_defaults(name: str, default: str) -> None:
    value: Any = kopf.OperatorSettings()
    for part in name.split("."):
        value = getattr(value, part)
    if default != "...":
        expected = ast.literal_eval(default)
        assert (tuple(value) if isinstance(expected, tuple) else value) == expected


def test_nothing_else_is_public() -> None:
    known = {name for name, _ in read_section("kopf")} | ADDED
    assert set(kopf.__all__) - known == set()
    assert set(kopf.__all__) <= set(dir(kopf))


def test_star_import_has_everything() -> None:
    namespace: dict[str, Any] = {}
    exec("from kopf import *", namespace)
    assert set(kopf.__all__) <= namespace.keys()


def test_submodules_need_no_importing() -> None:
    code = (
        "import kopf; kopf.on.create, kopf.lifecycles.asap, kopf.testing.KopfRunner, kopf.cli.main"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_is_there() -> None:
    version = kopf.__version__
    assert version.split(".")[0] == "1"


def test_absent_names_are_told_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'kopf' has no attribute 'nosuch'"):
        kopf.nosuch  # noqa: B018


def test_decorators_are_suggested_where_they_are() -> None:
    with pytest.raises(AttributeError, match=r"'create'\. Did you mean: 'kopf\.on\.create'\?"):
        kopf.create  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    """The stub is made by ``python tools/facade.py``."""
    source = Path(kopf.__file__).with_suffix(".pyi").read_text("utf-8")
    seen: dict[str, tuple[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
            seen |= {name: (node.module or "", original) for name, original in names.items()}
        elif isinstance(node, ast.Assign):
            assert sorted(ast.literal_eval(node.value)) == kopf.__all__
    submodules = {name for name, (module, _) in seen.items() if module == "kopf"}
    assert submodules == {"api", "cli", "lifecycles", "on", "schema", "sync_api", "testing"}
    for name in kopf.__all__:
        module, original = seen.pop(name)
        value = getattr(importlib.import_module(module), original)
        assert getattr(kopf, name) is (getattr(kopf, name) if module == "kopf" else value)
    assert set(seen) == {"cli", "testing"}


@pytest.mark.parametrize("name", ["on", "api", "testing"])
def test_submodules_are_modules(name: str) -> None:
    assert inspect.ismodule(getattr(kopf, name))


def test_names_are_stated_once() -> None:
    source = Path(kopf.__file__).read_text("utf-8").partition("_SOURCES = ")[2]
    for name in ("ABSENT", "Impersonation", "WebhookServiceServer", "adopt", "warn"):
        assert len(re.findall(rf"\b{name}\b", source)) == 1, name


# As measured with the interpreter itself at 8-9 MB. It is generous, since it depends on platforms.
MEMORY_LIMIT = 32 * 1024 * 1024


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def test_importing_loads_no_networking() -> None:
    code = (
        "import sys, kopf\n"
        "@kopf.on.create('kopfexamples')\n"
        "@kopf.on.event('kopfexamples', labels={'x': kopf.PRESENT})\n"
        "def fn(**_): raise kopf.TemporaryError('x')\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    heavy = {"aiohttp", "yaml", "click", "kubernetes", "pykube", "cryptography", "uvloop", "ssl"}
    assert heavy & set(run_python(code).split()) <= {"ssl"}  # this one comes with asyncio


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no way to measure")
@pytest.mark.skipif(sys.implementation.name != "cpython", reason="it is about CPython")
def test_importing_takes_little_memory() -> None:
    code = "import kopf, kopf.on; print(open('/proc/self/status').read())"
    [line] = [line for line in run_python(code).splitlines() if line.startswith("VmHWM:")]
    assert int(line.split()[1]) * 1024 <= MEMORY_LIMIT


def test_module_is_a_command() -> None:
    command = [sys.executable, "-m", "kopf", "--version"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.startswith("kopf, version ")
