"""What is shown of objects in the logs."""

from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.secrecy import show


def test_managed_fields_are_not_shown():
    body = {"metadata": {"name": "x", "managedFields": [{"manager": "kubectl"}]}, "spec": {"a": 1}}
    shown = show(Resource("kopf.dev", "v1", "kopfexamples"), body)
    assert shown == repr({"metadata": {"name": "x"}, "spec": {"a": 1}})
    assert body["metadata"]["managedFields"]
