"""Hints at what is missing in the roles, made of the refusals by RBAC."""

import re

_REFUSAL = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
)


def hint_at_role(exc: Exception) -> str:
    """The rule that would permit it, a sentence to go on the message with; empty if unknown."""
    match = _REFUSAL.search(str(exc))
    if match is None:
        return ""
    group, resource, verb = match["group"], match["resource"], match["verb"]
    rule = f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{verb}]}}'
    end = "" if str(exc).endswith(".") else "."
    return f"{end} Add this rule to the role of the operator: {rule}."
