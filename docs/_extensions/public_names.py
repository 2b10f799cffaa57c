"""Sphinx: references to names are resolved to where they are documented, under their public names.

The facade documents ``kopf.Body``, while annotations and docstrings of the sources say ``Body`` or
``kopf_cogs.structs.bodies.Body``. Names of the standard library, and those that are only in
annotations, are left as text. Everything else that is not found is a warning, i.e. an error.
"""

import builtins
import importlib
import inspect
import sys
from functools import cache

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the extension."""
    app.connect("missing-reference", resolve)
    app.connect("html-collect-pages", forget_sourceless, priority=400)  # before the pages of code
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def forget_sourceless(app: Sphinx) -> list[tuple[str, dict[str, str], str]]:
    """Drop the modules without sources: they have no pages, but would be linked to."""
    modules = app.env._viewcode_modules
    for name in [name for name, entry in modules.items() if not entry]:
        del modules[name]
    return []


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Find the public name for a reference that Sphinx has not found."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].removeprefix("~").removeprefix(".")
    documented = _collect(tuple(env.domains.python_domain.objects))
    name = documented.get(target) or documented.get(target.rpartition(".")[2])
    if name is not None and name != target:
        domain, doc = env.domains.python_domain, node["refdoc"]
        return domain.resolve_xref(env, doc, app.builder, "obj", name, node, content)
    is_in_text = "refwarn" in node
    return content if not is_in_text or _is_standard(target) else None


@cache
def _collect(names: tuple[str, ...]) -> dict[str, str]:
    """Documented names by their last parts (if there is only one), and by where they come from."""
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (not name.startswith("kopf."), name)):
        found.setdefault(name.rpartition(".")[2], name)
        module, _, attribute = name.rpartition(".")
        origin = _get_origin(module, attribute)
        if origin is not None:
            found.setdefault(origin, name)
    return found


def _get_origin(module: str, attribute: str) -> str | None:
    try:
        value = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        return None
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return None
    return f"{value.__module__}.{value.__qualname__}"


def _is_standard(name: str) -> bool:
    if hasattr(builtins, name.partition(".")[0]):
        return True
    module = name.partition(".")[0]
    return module in sys.stdlib_module_names
