"""Expressions of CEL, as far as they are used in schemas, webhooks, and policies: the evaluation.

An expression is compiled into a function of the variables. Unsupported ones raise
`Unsupported`: the callers let such expressions pass, and say so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kopf_kits.sandbox.base.remarks import Unsupported

from . import functions, syntax
from .errors import EvaluationError
from .optionals import Optional
from .types import TYPES

Scope = dict[str, Any]
Evaluate = Callable[[Scope], Any]


@lru_cache(maxsize=1000)
def compile_expression(text: str) -> Evaluate:
    """Compile an expression; raises `Unsupported` if it cannot be understood."""
    return _guarded(_compile(syntax.parse(text)))


def _guarded(inner: Evaluate) -> Evaluate:
    """Fail on wrong types in the evaluation, as there is no check of types ahead of it."""

    def evaluate(scope: Scope) -> Any:
        try:
            return inner(scope)
        except (TypeError, AttributeError) as error:
            raise EvaluationError(f"no such overload: {error}") from None

    return evaluate


def _compile(node: syntax.Node) -> Evaluate:  # a case for each type of nodes
    match node:
        case syntax.Literal(value):
            return lambda scope: value
        case syntax.Name(name):
            return _variable(name)
        case syntax.Select(target, name, optional):
            return _field(_compile(target), name, optional=optional)
        case syntax.Has(field):
            return _has(_compile(field))
        case syntax.Index(target, key, optional):
            return _index(_compile(target), _compile(key), optional=optional)
        case syntax.Unary(operator, item):
            inner = _compile(item)
            return (lambda scope: not inner(scope)) if operator == "!" else lambda s: -inner(s)
        case syntax.Binary(operator, left, right):
            return _combine(operator, _compile(left), _compile(right))
        case syntax.Choice(condition, yes, no):
            return _choose(_compile(condition), _compile(yes), _compile(no))
        case syntax.Call(name, target, arguments):
            return _call(name, target, arguments)
        case syntax.Macro(name, target, variable, bodies):
            return _iterate(name, _compile(target), variable, [_compile(body) for body in bodies])
        case _:
            return _construct(node)


def _construct(node: syntax.ListOf | syntax.MapOf | syntax.Message) -> Evaluate:
    match node:
        case syntax.ListOf(items):
            listed = [_compile(item) for item in items]
            return lambda scope: [item(scope) for item in listed]
        case syntax.MapOf(pairs):
            mapped = [(_compile(key), _compile(value)) for key, value in pairs]
            return lambda scope: {key(scope): value(scope) for key, value in mapped}
        case syntax.Message("JSONPatch", fields):
            named = [(name, _compile(value)) for name, value in fields]
            return lambda scope: {name: value(scope) for name, value in named}
    raise Unsupported(f"{node.name}{{...}}")


def _choose(condition: Evaluate, yes: Evaluate, no: Evaluate) -> Evaluate:
    return lambda scope: yes(scope) if condition(scope) else no(scope)


def _call(name: str, target: syntax.Node | None, arguments: tuple[syntax.Node, ...]) -> Evaluate:
    values = [_compile(argument) for argument in arguments]
    if target is None:
        return lambda scope: functions.call_function(name, [value(scope) for value in values])
    owner = _compile(target)
    return lambda scope: functions.call_method(
        name, owner(scope), [value(scope) for value in values]
    )


def _iterate(name: str, target: Evaluate, variable: str, bodies: list[Evaluate]) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        items = target(scope)
        scopes = [{**scope, variable: item} for item in items]
        return functions.call_macro(name, items, scopes, bodies)

    return evaluate


def _variable(name: str) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        if name not in scope and name not in TYPES:
            raise Unsupported(f"unknown variable {name}")
        return scope[name] if name in scope else TYPES[name]

    return evaluate


def _field(target: Evaluate, name: str, *, optional: bool) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        value = target(scope)
        if optional or isinstance(value, Optional):
            return _open(value).get(name)
        if not isinstance(value, dict) or name not in value:
            raise EvaluationError(f"no such key: {name}")
        return value[name]

    return evaluate


def _open(value: Any) -> Optional:
    return value if isinstance(value, Optional) else Optional((value,))


def _has(argument: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> bool:
        try:
            value = argument(scope)
        except EvaluationError:
            return False
        return value.has_value() if isinstance(value, Optional) else value is not None

    return evaluate


def _index(target: Evaluate, key: Evaluate, *, optional: bool) -> Evaluate:
    def evaluate(scope: Scope) -> Any:
        value = target(scope)
        if optional or isinstance(value, Optional):
            return _open(value).get(key(scope))
        try:
            return value[key(scope)]
        except (KeyError, IndexError, TypeError):
            raise EvaluationError(f"no such key: {key(scope)}") from None

    return evaluate


def _combine(operator: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if operator in ("||", "&&"):
        return _shortcut(left, right, decisive=operator == "||")
    apply = functions.BINARY[operator]

    def evaluate(scope: Scope) -> Any:
        try:
            return apply(left(scope), right(scope))
        except (TypeError, ZeroDivisionError) as error:
            raise EvaluationError(f"no such overload: {error}") from None

    return evaluate


def _shortcut(left: Evaluate, right: Evaluate, *, decisive: bool) -> Evaluate:
    """Either side can decide, even if the other one fails."""

    def evaluate(scope: Scope) -> bool:
        try:
            if bool(left(scope)) is decisive:
                return decisive
        except EvaluationError:
            if bool(right(scope)) is decisive:
                return decisive
            raise
        return bool(right(scope))

    return evaluate
