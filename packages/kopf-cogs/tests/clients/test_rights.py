"""What is missing in the roles."""

import pytest

from kopf_cogs.clients.errors import APIForbiddenError
from kopf_cogs.clients.rights import hint_at_role


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            'kexes.kopf.dev "x" is forbidden: User "me" cannot patch resource "kexes/status" '
            'in API group "kopf.dev" in the namespace "ns"',
            '. Add this rule to the role of the operator: {apiGroups: ["kopf.dev"], '
            "resources: [kexes/status], verbs: [patch]}.",
        ),
        (
            'pods is forbidden: User "me" cannot list resource "pods" in API group "" '
            "at the cluster scope",
            '. Add this rule to the role of the operator: {apiGroups: [""], resources: [pods], '
            "verbs: [list]}.",
        ),
        (
            'forbidden: User "me" cannot get path "/api"',
            ". Bind the cluster role system:discovery to the operator.",
        ),
        (
            'forbidden: User "me" cannot get path "/apis/kopf.dev/v1"',
            ". Bind the cluster role system:discovery to the operator.",
        ),
        ('forbidden: User "me" cannot get path "/metrics"', ""),
        ("admission webhook denied the request", ""),
    ],
)
def test_i_refusals_are_hints_at_roles(message: str, expected: str) -> None:
    assert hint_at_role(APIForbiddenError(status=403, message=message)) == expected
