"""Hints at what is missing in the roles, made of the refusals by RBAC."""

import re

_REFUSAL = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
)


def hint_at_role(exc: Exception) -> str:
    """The rule that would permit it, in a sentence to be added to the message; empty if unknown."""
    match = _REFUSAL.search(str(exc))
    if match is None:
        return ""
    group, resource, verb = match["group"], match["resource"], match["verb"]
    rule = f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{verb}]}}'
    return f" Add this rule to the role of the operator: {rule}."
