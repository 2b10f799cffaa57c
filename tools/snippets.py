"""The code of the documentation: found in the pages, changed to be quick, and driven by objects.

A block is executed, then an operator with its handlers works on a sandbox, while objects of their
kinds are created, changed, and deleted. The bodies of all decorated functions must be run to their
ends, and may fail only by what they raise themselves. Comments before a block tell what differs:

- ``<!-- not run: reason -->``: the block is not executed at all;
- ``<!-- not called: name, name: reason -->``: these functions are not expected to be called;
- ``<!-- objects: [...] -->``: objects (in YAML) to be handled instead of the generated ones;
- ``<!-- memo: ... -->``: the operator's memo, an expression in the block;
- ``<!-- changes: [...] -->``: merge patches (in YAML) for all the objects, not the generated ones.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import logging
import re
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

BLOCK = re.compile(
    r"(?P<comments>(?:^<!-- [^\n]*-->\n+)*)^```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL
)
COMMENT = re.compile(r"^<!-- (not run|not called|objects|changes|memo): (.*?) *-->$", re.MULTILINE)
QUICK = {
    "backoff",
    "cancellation_backoff",
    "cancellation_timeout",
    "cooldown",
    "delay",
    "every",
    "idle",
    "initial_delay",
    "interval",
}
"""The options and arguments in seconds which are shortened."""

SHORT = 0.02
MISTAKES = (NameError, AttributeError, TypeError, ImportError, SyntaxError)
"""What nobody raises on purpose."""


@dataclass(frozen=True)
class Block:
    """A block of code in a page, with what the comments before it say."""

    page: str
    line: int
    code: str
    hints: dict[str, str]

    def __str__(self) -> str:
        return f"{self.page}-{self.line}"

    @property
    def not_run(self) -> str | None:
        """Why it is not executed; none if it is."""
        return self.hints.get("not run")

    @property
    def not_called(self) -> set[str]:
        """The functions that are not expected to be called."""
        names, _, reason = self.hints.get("not called", "").partition(":")
        assert bool(names) == bool(reason), f"Why are they not called? {self}"
        return {name.strip() for name in names.split(",") if name}

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The objects to be handled instead of the generated ones."""
        return list(yaml.safe_load(self.hints.get("objects", "[]")))

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The changes to be made in all the objects."""
        return list(yaml.safe_load(self.hints.get("changes", "[]")))


def read_blocks(page: Path) -> Iterator[Block]:
    """Find the blocks of Python in a page."""
    text = page.read_text("utf-8")
    for match in BLOCK.finditer(text):
        line = text[: match.start("code")].count("\n") + 1
        hints = dict(COMMENT.findall(match["comments"]))
        assert all(hints.values()), f"A comment with no reason: {page.name}:{line}"
        name = page.stem if page.parent.name != "reference" else f"reference/{page.stem}"
        yield Block(name, line, match["code"], hints)


@dataclass
class Journal:
    """Which functions were called, and which failed by mistake."""

    entered: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    failed: list[BaseException] = field(default_factory=list)
    raises: set[int] = field(default_factory=set)
    """The lines with ``raise``."""

    def enter(self, name: str) -> None:
        """Note that the function is called."""
        self.entered.append(name)

    def end(self, name: str) -> None:
        """Note that the function has run to its end."""
        self.ended.add(name)

    def fail(self, name: str, error: BaseException) -> None:
        """Note that the function has failed, be it on purpose or not."""
        if (
            isinstance(error, asyncio.CancelledError | GeneratorExit)
            or type(error).__module__.startswith("kopf_core.")
            or self._is_deliberate(error)
        ):
            self.ended.add(name)
        else:
            self.failed.append(error)

    def _is_deliberate(self, error: BaseException) -> bool:
        if type(error).__module__.startswith("kopf_core."):
            return True
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        frame = traceback.tb_frame.f_code.co_filename if traceback is not None else ""
        is_here = traceback is not None and frame == "example.py"
        is_raised = is_here and traceback is not None and traceback.tb_lineno in self.raises
        return is_raised and not isinstance(error, MISTAKES)


class Instrument(ast.NodeTransformer):
    """Shorten the delays; tell the journal of the calls."""

    def __init__(self) -> None:
        self.decorated: set[str] = set()
        self.raises: set[int] = set()

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.raises.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        value = node.value
        seconds = value.value if isinstance(value, ast.Constant) else None
        if node.arg in QUICK and isinstance(seconds, int | float) and seconds > SHORT:
            node.value = ast.copy_location(ast.Constant(SHORT), value)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._wrap(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._wrap(node)

    def _wrap(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        if not any("kopf." in ast.unparse(decorator) for decorator in node.decorator_list):
            return cast(ast.AST, node)
        self.decorated.add(node.name)
        wrapped = ast.parse(
            f"_journal.enter({node.name!r})\n"
            "try:\n    pass\n"
            "except BaseException as _error:\n"
            f"    _journal.fail({node.name!r}, _error)\n    raise\n"
            "else:\n    pass\n"
            "finally:\n    pass\n"
        ).body
        end = ast.parse(f"_journal.end({node.name!r})").body
        attempt: Any = wrapped[1]
        attempt.body = self._with_ends(node.body, end) + end
        node.body = wrapped
        return cast(ast.AST, ast.fix_missing_locations(node))

    @staticmethod
    def _with_ends(body: list[ast.stmt], end: list[ast.stmt]) -> list[ast.stmt]:
        """What is returned is computed first, then the end is told."""
        module = ast.Module(body, [])
        return list(Returns(end).visit(module).body)


class Returns(ast.NodeTransformer):
    """Make ``return X`` into ``_result = X; ended; return _result``; not in nested functions."""

    def __init__(self, end: list[ast.stmt]) -> None:
        self.end = end

    def visit_Return(self, node: ast.Return) -> Any:
        if node.value is None:
            return [*self.end, node]
        assign = ast.Assign([ast.Name("_result", ast.Store())], node.value)
        result = ast.Return(ast.Name("_result", ast.Load()))
        return [ast.copy_location(assign, node), *self.end, ast.copy_location(result, node)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node


def load(block: Block) -> tuple[types.CodeType, set[str], Journal]:
    """Prepare a block: the code, the names of the decorated functions, and what watches them."""
    instrument = Instrument()
    tree = ast.fix_missing_locations(instrument.visit(ast.parse(block.code, "example.py")))
    journal = Journal(raises=instrument.raises)
    return compile(tree, "example.py", "exec"), instrument.decorated, journal


def hasten(module: types.ModuleType) -> None:
    """Let the functions of the module sleep only briefly."""

    async def sleep_async(delay: float, result: Any = None) -> Any:
        return await asyncio.sleep(min(delay, SHORT), result)

    def sleep(delay: float) -> None:
        time.sleep(min(delay, SHORT))

    replacements: dict[str, tuple[types.ModuleType, Callable[..., Any]]] = {
        "asyncio": (asyncio, sleep_async),
        "time": (time, sleep),
    }
    for name, (original, function) in replacements.items():
        if getattr(module, name, None) is original:
            shim = types.ModuleType(name)
            shim.__dict__.update(original.__dict__, sleep=function)
            setattr(module, name, shim)


@contextlib.contextmanager
def preserved_loggers() -> Iterator[None]:
    """Put all loggers back as they were: some blocks show how to configure or silence them."""
    before = {name: _get_state(logging.getLogger(name)) for name in _list_loggers()}
    try:
        yield
    finally:
        for name in _list_loggers():
            logger = logging.getLogger(name)
            level, logger.disabled, logger.filters = before.get(name, (logging.NOTSET, False, []))
            logger.setLevel(level)


def _list_loggers() -> list[str]:
    return ["root", *logging.root.manager.loggerDict]


def _get_state(logger: logging.Logger) -> tuple[int, bool, list[Any]]:
    return logger.level, logger.disabled, [*logger.filters]
