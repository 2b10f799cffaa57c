"""Hints at what is missing in the roles, made of the refusals by RBAC."""

import re

_REFUSAL = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
)

_REFUSAL_OF_DISCOVERY = re.compile(r'cannot get path "/apis?[/"]')


def hint_at_role(exc: Exception) -> str:
    """The rule that would permit it, a sentence to go on the message with; empty if unknown."""
    end = "" if str(exc).endswith(".") else "."
    if _REFUSAL_OF_DISCOVERY.search(str(exc)):
        return f"{end} Bind the cluster role system:discovery to the operator."
    match = _REFUSAL.search(str(exc))
    if match is None:
        return ""
    group, resource, verb = match["group"], match["resource"], match["verb"]
    rule = f'{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{verb}]}}'
    return f"{end} Add this rule to the role of the operator: {rule}."
