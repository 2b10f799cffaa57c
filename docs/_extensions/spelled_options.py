"""Sphinx: what autodoc cannot find out by itself is taken from the sources.

- The decorators take three positional selectors and many options, which are declared as typed
  dictionaries. Here, their signatures are made short, and the options are described one by one.
- Aliases of types have no docstrings of their own: those in the sources are taken, and never
  the ones of the builtins that they stand for.
"""

import inspect
from typing import Any, get_args

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import kopf

OPTIONS = "kopf_core.intents.decorators.options"
FACADE: Any = kopf


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the extension."""
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-docstring", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def find_options(value: Any) -> Any:
    """The typed dictionary of the options of a decorator, if it is one."""
    wrapped = getattr(value, "__wrapped__", None)
    if wrapped is None or not inspect.isfunction(value):
        return None
    *_, last = inspect.signature(wrapped).parameters.values()
    found = get_args(last.annotation) if last.kind is last.VAR_KEYWORD else ()
    return found[0] if found and hasattr(found[0], "__required_keys__") else None


def describe_options(options: Any) -> dict[str, str]:
    """All options, in their order, with what the sources say of them."""
    found: dict[str, str] = {}
    docs = ModuleAnalyzer.for_module(options.__module__).find_attr_docs()
    docs = {**ModuleAnalyzer.for_module(OPTIONS).find_attr_docs(), **docs}
    for name in options.__annotations__:
        own = docs.get((options.__name__, name))
        texts = [own] if own else [lines for (_, key), lines in docs.items() if key == name]
        found[name] = " ".join(line.strip() for line in texts[0]).strip() if texts else ""
    return found


def shorten(
    app: Sphinx, what: str, name: str, value: Any, settings: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Say "a resource and options" instead of all their names and types."""
    options = find_options(value)
    if options is None:
        return None
    names = [*inspect.signature(value.__wrapped__).parameters][:-1]
    selectors = ["*resource"] if "arg1" in names else []
    required = sorted(options.__required_keys__)
    marks = ["*"] if required and not selectors else []
    others = [name for name in names if not name.startswith("arg")]
    return f"({', '.join([*others, *selectors, *marks, *required, '**options'])})", returned


def describe(
    app: Sphinx, what: str, name: str, value: Any, settings: Any, lines: list[str]
) -> None:
    """Put the missing descriptions in."""
    if what == "data":
        lines[:] = read_alias(name) or lines
    options = find_options(value)
    if options is None:
        return
    if "arg1" in inspect.signature(value.__wrapped__).parameters:
        text = "one to three words: a name of any form; or the group, the version, the name"
        lines += ["", f":param resource: {text}."]
    lines += ["", *(f":param {key}: {text}" for key, text in describe_options(options).items())]


def read_alias(path: str) -> list[str]:
    """What the source says of a constant, or of an alias."""
    module, _, name = path.rpartition(".")
    if module == "kopf" and name in FACADE._MODULES:
        module, name = FACADE._MODULES[name], FACADE._ORIGINALS.get(name, name)
    return ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name), [])
