"""Rules of CEL: the declared ones, and the ones made of other markers."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from kopf_cogs.structs.markers import AtLeastOneOf, AtMostOneOf, ExactlyOneOf, Rule

_RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import",
        "in", "let", "loop", "namespace", "null", "package", "return", "true", "var", "void",
        "while",
    }
)  # fmt: skip
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def make_rule(rule: Rule) -> dict[str, Any]:
    """A rule as it is in schemas."""
    texts = {
        "rule": rule.rule,
        "message": rule.message,
        "messageExpression": rule.message_expression,
        "reason": rule.reason,
        "fieldPath": rule.field_path,
        "optionalOldSelf": rule.optional_old_self,
    }
    return {name: text for name, text in texts.items() if text is not None}


def make_group_rule(group: ExactlyOneOf | AtMostOneOf | AtLeastOneOf) -> dict[str, Any]:
    """A rule on how many of the fields are set."""
    words = {ExactlyOneOf: ("== 1", "exactly one"), AtMostOneOf: ("<= 1", "at most one"),
             AtLeastOneOf: (">= 1", "at least one")}  # fmt: skip
    operator, text = words[type(group)]
    fields = ", ".join(f"has(self.{escape(name)})" for name in group.names)
    return {
        "rule": f"[{fields}].filter(x, x == true).size() {operator}",
        "message": f"{text} of the fields in [{' '.join(group.names)}] must be set",
    }


def make_kept_rule(name: str, message: str) -> dict[str, Any]:
    """A rule that an optional field is not removed after it is set."""
    field = escape(name)
    return {"rule": f"!has(oldSelf.{field}) || has(self.{field})", "message": message}


def make_keys_rule(keys: Iterable[str]) -> dict[str, Any]:
    """A rule on the allowed keys of a mapping."""
    listed = ", ".join(quote(key) for key in keys)
    return {"rule": f"self.all(key, key in [{listed}])"}


def make_choice_rule(values: Collection[Any]) -> dict[str, Any]:
    """A rule on the allowed values. Lists of CEL are of one type, unless ``dyn()`` hides it."""
    listed = [json.dumps(value, ensure_ascii=False) for value in values]
    if len({*map(type, values)}) > 1:
        listed = [f"dyn({value})" for value in listed]
    return {"rule": f"self in [{', '.join(listed)}]"}


def quote(text: str) -> str:
    """A text as it is written in expressions."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def escape(name: str) -> str:
    """The name of a field as it is written in expressions."""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda match: _ESCAPES[match[0]], name)
