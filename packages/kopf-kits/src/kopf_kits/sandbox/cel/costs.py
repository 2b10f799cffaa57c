"""The highest cost of an expression, as API servers estimate it before they accept a rule.

The sizes are the largest ones that the schema allows. Expressions that cannot be estimated here
raise `Unsupported`.
"""

from __future__ import annotations

from dataclasses import replace

from kopf_kits.sandbox.base.remarks import Unsupported

from . import syntax
from .callcosts import Call, estimate_call
from .shapes import Shape
from .sizes import LOST, SCALARS, Size, Value, limit, scale

_LOOPS = {
    # The costs of a macro at once, and for each item besides its body. All macros are
    # comprehensions: they test the result before each step, and make the next one with the body.
    "all": (1, 3),
    "exists": (1, 4),
    "exists_one": (2, 2),
    "map": (11, 12),
    "filter": (11, 13),
}
_KEY = Shape("string")
"""Keys of maps have no size for servers."""

_ORDERS = ("<", "<=", ">", ">=")
_LIST, _MAP, _MESSAGE = 10, 30, 40  # the costs to make them


def estimate_cost(text: str, root: Shape, *, optional: bool = False) -> int:
    """The largest cost of an expression on a value of the shape: ``self``, and ``oldSelf``.

    ``optional`` is whether there may be no ``oldSelf``. Raises `Unsupported`.
    """
    scope = {"self": Value(root.kind, 1, root, root), "oldSelf": Value(root.kind, 1, root, root)}
    if optional:
        scope["oldSelf"] = Value("optional", 1, None, root, item=scope["self"])
    return _Estimator(root).visit(syntax.parse(text), scope).cost


Scope = dict[str, Value]


class _Estimator:
    """Goes through the tree of an expression, from its leaves to the root."""

    def __init__(self, root: Shape) -> None:
        self._root = root

    def visit(self, node: syntax.Node, scope: Scope) -> Value:
        """The value that the expression has: its cost, type, and size."""
        visitor = getattr(self, f"_visit_{type(node).__name__.lower()}")
        found: Value = visitor(node, scope)
        return replace(found, cost=limit(found.cost))

    def _visit_literal(self, node: syntax.Literal, scope: Scope) -> Value:
        kinds: dict[type, str] = {bool: "bool", int: "int", float: "double", str: "string"}
        size = len(node.value) if isinstance(node.value, str) else 1
        return Value(kinds.get(type(node.value), "null"), 0, size=Size(size, size))

    def _visit_name(self, node: syntax.Name, scope: Scope) -> Value:
        if node.name in scope:
            return replace(scope[node.name], cost=1)
        # Servers measure the names of types as the root of the object.
        return Value("type", 1, self._root)

    def _visit_select(self, node: syntax.Select, scope: Scope) -> Value:
        target = self.visit(node.target, scope)
        owner = target.item if target.kind == "optional" and target.item else target
        type_ = owner.type.fields.get(node.name) if owner.kind == "object" and owner.type else None
        if owner.kind == "map" and owner.type:
            type_ = owner.type.item
        if type_ is None and owner.kind != "dyn":
            raise Unsupported(f"there is no field {node.name}")
        kind = type_.kind if type_ else "dyn"
        if node.optional or target.kind == "optional":
            return Value("optional", target.cost + 1, item=Value(kind, 0, None, type_))
        path = self._root if target.path is None else target.path.fields.get(node.name, LOST)
        return Value(kind, target.cost + (target.kind in ("object", "map")), path, type_)

    def _visit_has(self, node: syntax.Has, scope: Scope) -> Value:
        return Value("bool", self.visit(node.field.target, scope).cost)

    def _visit_index(self, node: syntax.Index, scope: Scope) -> Value:
        target, key = self.visit(node.target, scope), self.visit(node.key, scope)
        cost = 1 + target.cost + key.cost
        item = self._get_item(target)
        if node.optional or target.kind == "optional":
            return Value("optional", cost, item=replace(item, cost=0, path=None, size=None))
        return replace(item, cost=cost)

    def _visit_unary(self, node: syntax.Unary, scope: Scope) -> Value:
        item = self.visit(node.item, scope)
        if node.operator == "-" and isinstance(node.item, syntax.Literal):
            return item
        return Value("bool" if node.operator == "!" else item.kind, item.cost + 1)

    def _visit_binary(self, node: syntax.Binary, scope: Scope) -> Value:
        left, right = self.visit(node.left, scope), self.visit(node.right, scope)
        cost = left.cost + right.cost
        if node.operator in ("||", "&&"):
            return Value("bool", cost)
        if node.operator == "+":
            return _add(left, right)
        if node.operator == "in":
            most = 1 if right.kind == "map" else max(right.measure().most, right.kind == "dyn")
            return Value("bool", cost + most)
        if node.operator in ("==", "!=", *_ORDERS):
            return Value("bool", cost + _compare(node.operator, left, right))
        return Value(left.kind, cost + 1)

    def _visit_choice(self, node: syntax.Choice, scope: Scope) -> Value:
        condition = self.visit(node.condition, scope)
        yes, no = self.visit(node.yes, scope), self.visit(node.no, scope)
        cost = condition.cost + max(yes.cost, no.cost)
        return replace(_unite(yes, no), cost=cost)

    def _visit_listof(self, node: syntax.ListOf, scope: Scope) -> Value:
        items = [self.visit(item, scope) for item in node.items]
        size = Size(len(items), len(items))
        cost = _LIST + sum(item.cost for item in items)
        return Value("list", cost, size=size, item=_unite_all(items))

    def _visit_mapof(self, node: syntax.MapOf, scope: Scope) -> Value:
        pairs = [(self.visit(k, scope), self.visit(v, scope)) for k, v in node.pairs]
        size = Size(len(pairs), len(pairs))
        cost = _MAP + sum(key.cost + value.cost for key, value in pairs)
        keys, values = _unite_all([k for k, _ in pairs]), _unite_all([v for _, v in pairs])
        return Value("map", cost, size=size, item=values, key=keys)

    def _visit_message(self, node: syntax.Message, scope: Scope) -> Value:
        fields = [self.visit(value, scope) for _, value in node.fields]
        return Value("object", _MESSAGE + sum(value.cost for value in fields))

    def _visit_call(self, node: syntax.Call, scope: Scope) -> Value:
        arguments = [self.visit(argument, scope) for argument in node.arguments]
        target = None if node.target is None else self.visit(node.target, scope)
        found = estimate_call(Call(node.name, target, arguments, node.arguments))
        own = target.cost if target is not None else 0
        return replace(found, cost=found.cost + own + sum(value.cost for value in arguments))

    def _visit_macro(self, node: syntax.Macro, scope: Scope) -> Value:
        target = self.visit(node.target, scope)
        if node.name in ("optMap", "optFlatMap"):
            return self._visit_optional(node, target, scope)
        inner = {**scope, node.variable: self._get_element(target)}
        bodies = [self.visit(body, inner) for body in node.bodies]
        once, step = _LOOPS[node.name]
        count = target.measure()
        cost = target.cost + once + count.most * (step + sum(body.cost for body in bodies))
        if node.name not in ("map", "filter"):
            return Value("bool", cost)
        item = bodies[-1] if node.name == "map" else inner[node.variable]
        item = replace(item, cost=0, path=None, size=Size(0, item.measure().most))
        return Value("list", cost, size=Size(0, count.most), item=item)

    def _visit_optional(self, node: syntax.Macro, target: Value, scope: Scope) -> Value:
        value = replace(target.item or Value("dyn", 0), path=None)
        body = self.visit(node.bodies[0], {**scope, node.variable: value})
        wrapped = 1 if node.name == "optMap" else 0
        bound = wrapped + _LIST + 1 + target.cost + body.cost
        item = body if node.name == "optMap" else body.item
        return Value("optional", 1 + target.cost + max(bound, 1), item=item)

    def _get_item(self, target: Value) -> Value:
        """The estimate of the value under an index.

        If the target is no part of the object, and the size of the value is unknown otherwise,
        servers take the size of the root of the object.
        """
        owner = target.item if target.kind == "optional" and target.item else target
        path = self._root if target.path is None else target.path.item or LOST
        type_ = owner.type.item if owner.type else None
        if type_ is not None:
            return Value(type_.kind, 0, path, type_)
        item = owner.item or Value("dyn", 0)
        return replace(item, cost=0, path=path)

    def _get_element(self, target: Value) -> Value:
        """The estimate of each value that a macro goes through: items of lists, keys of maps."""
        if target.kind == "map":
            path = self._root if target.path is None else _KEY
            return Value("string", 1, path)
        # In macros, servers ignore the sizes that they know of items; under indices, they do not.
        return replace(self._get_item(target), cost=1, size=None)


def _compare(operator: str, left: Value, right: Value) -> int:
    if operator in _ORDERS and left.kind in SCALARS and right.kind in SCALARS:
        return 1
    if operator == "==" and "opaque" in (left.kind, right.kind):
        return 1
    smallest = min(left.measure().most, right.measure().most)
    cost = scale(smallest, 0.1)
    return max(1, cost) if operator in _ORDERS and "dyn" in (left.kind, right.kind) else cost


def _add(left: Value, right: Value) -> Value:
    cost, size = left.cost + right.cost, left.measure() + right.measure()
    if left.kind == "list" or right.kind == "list":
        return Value("list", cost + 1, size=size, item=left.item or right.item)
    if {left.kind, right.kind} & {"string", "bytes"} or left.kind == right.kind == "dyn":
        return Value(
            left.kind, cost + max(1 if left.kind == "dyn" else 0, scale(size.most, 0.1)), size=size
        )
    return Value(left.kind, cost + 1)


def _unite(one: Value, other: Value) -> Value:
    kind = one.kind if one.kind == other.kind else "dyn"
    size = one.measure() | other.measure()
    return Value(kind, 0, None, one.type, size=size, item=one.item or other.item)


def _unite_all(values: list[Value]) -> Value | None:
    found = values[0] if values else None
    for value in values[1:]:
        found = _unite(found, value) if found is not None else value
    return None if found is None else replace(found, size=found.measure(), path=None)
