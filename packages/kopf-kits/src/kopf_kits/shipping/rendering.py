"""Rendering of our own chart with no Helm. ``make deploy-check`` compares it with Helm's one."""

from __future__ import annotations

import importlib.resources
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from kopf_kits.shipping.expressions import RenderingError, Scope, evaluate, show

_ACTION = re.compile(r"(?s)(?:[ \t\r\n]*\{\{-|\{\{)\s*(/\*.*?\*/|.*?)\s*(?:-\}\}[ \t\r\n]*|\}\})")
_OPENING = ("if", "with", "range", "define")
_RANGE = re.compile(r"^(\$\w+), (\$\w+) := (.+)$")

CHART = importlib.resources.files("kopf_kits.shipping") / "chart"


@dataclass
class Block:
    """An action with the parts inside of it, up to its ``else`` or ``end``."""

    verb: str
    argument: str
    body: list[str | Block] = field(default_factory=list)
    otherwise: list[str | Block] = field(default_factory=list)


class Templates:
    """The templates of a chart, with the definitions that other templates include."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self._parsed = [_parse(text) for text in texts]
        self._defined = {
            block.argument.strip('"'): block.body
            for block in itertools.chain.from_iterable(self._parsed)
            if isinstance(block, Block) and block.verb == "define"
        }

    def render(self, context: Mapping[str, Any]) -> Iterator[str]:
        scope = Scope(context, context, include=self._include)
        for parts in self._parsed:
            yield "".join(self._play(parts, scope))

    def _include(self, name: str, dot: Any) -> str:
        return "".join(self._play(self._defined[name], Scope(dot, dot, include=self._include)))

    def _play(self, parts: Sequence[str | Block], scope: Scope) -> Iterator[str]:
        for part in parts:
            if isinstance(part, str):
                yield part
            elif part.verb == "show":
                yield show(evaluate(part.argument, scope))
            elif part.verb == "range":
                yield from self._repeat(part, scope)
            elif part.verb != "define":
                value = evaluate(part.argument, scope)
                inner = scope.focus(value) if part.verb == "with" and value else scope
                yield from self._play(part.body if value else part.otherwise, inner)

    def _repeat(self, block: Block, scope: Scope) -> Iterator[str]:
        named = _RANGE.match(block.argument)
        items = evaluate(named[3] if named else block.argument, scope)
        if not items:
            yield from self._play(block.otherwise, scope)
        for index, item in enumerate(items or ()):
            names = {named[1]: index, named[2]: item} if named else {}
            yield from self._play(block.body, scope.focus(item, **names))


def _parse(text: str) -> list[str | Block]:
    root = Block("root", "")
    stack, target, start = [root], root.body, 0
    for found in _ACTION.finditer(text):
        target.append(text[start : found.start()])
        start = found.end()
        verb, _, argument = found[1].partition(" ")
        if found[1].startswith("/*"):
            continue
        if verb in _OPENING:
            block = Block(verb, argument)
            target.append(block)
            stack.append(block)
            target = block.body
        elif verb == "else":
            target = stack[-1].otherwise
        elif verb == "end":
            closed = stack.pop()
            target = _find_target(stack[-1], closed)
        else:
            target.append(Block("show", found[1]))
    target.append(text[start:])
    if len(stack) > 1:
        raise RenderingError(f"The block {stack[-1].verb!r} of a template has no end.")
    return root.body


def _find_target(parent: Block, child: Block) -> list[str | Block]:
    return parent.otherwise if any(one is child for one in parent.otherwise) else parent.body


def render_chart(
    values: Mapping[str, Any],
    *,
    name: str,
    namespace: str,
    chart: str = "kopf-operator",
    version: str | None = None,
) -> list[dict[str, Any]]:
    """The objects of our chart with these values over its own, as Helm would make them.

    The ``version`` of the application is that of Kopf unless specified.

    Raises :class:`RenderingError` if the chart refuses the values.
    """
    folder = CHART / "templates"
    texts = [
        one.read_text("utf-8")
        for one in sorted(folder.iterdir(), key=lambda one: one.name)
        if one.name.endswith((".yaml", ".tpl"))
    ]
    context = {
        "Values": merge_values(values),
        "Release": {"Name": name, "Namespace": namespace, "Service": "kopf"},
        "Chart": {"Name": chart, "AppVersion": version or read_version()},
    }
    rendered = Templates(texts).render(context)
    return [body for text in rendered for body in yaml.safe_load_all(text) if body]


def read_version() -> str:
    """The version of the application in our chart, which is the default."""
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["appVersion"])


def merge_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values over the values of the chart itself: mappings merge, all else is replaced."""
    return _merge(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")), values)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        known = merged.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            value = _merge(known, value)
        merged[key] = value
    return merged
