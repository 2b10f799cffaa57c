"""Whose webhooks are in a configuration: decided by names and by field managers."""

import pytest

from kopf_core.engines.admission import get_webhook_handlers
from kopf_core.engines.admission.managing import find_shared, find_unwanted, make_manager
from kopf_core.intents import decorators as on


def make_entry(manager, *names, operation="Apply"):
    keys = {f'k:{{"name":"{name}"}}': {} for name in names}
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:webhooks": keys}}


def make_configuration(*names, managers=()):
    return {
        "metadata": {"name": "x", "managedFields": [*managers]},
        "webhooks": [{"name": name} for name in names],
    }


def test_unwanted_webhooks_are_found_from_the_end():
    body = make_configuration("a", "b", "c", "d")
    assert find_unwanted(body, {"a", "c", "nosuch"}) == [2, 0]
    assert find_unwanted(body, set()) == []
    assert find_unwanted({"metadata": {}}, {"a"}) == []


def test_webhooks_of_other_operators_are_told_apart():
    managers = [
        make_entry("kopf-1", "ours", "both"),
        make_entry("kopf-2", "theirs", "both", "gone"),
        make_entry("kopf", "of-predecessor", operation="Update"),
    ]
    body = make_configuration("ours", "theirs", "both", "of-predecessor", managers=managers)
    assert find_shared(body, "kopf-1") == {"theirs", "both"}
    assert find_shared(make_configuration("ours"), "kopf-1") == set()


@pytest.fixture
def manager_of(registry):
    def get(*ids, decorator=on.validate):
        for id in ids:
            decorator("kopfexamples", id=id, registry=registry)(lambda **_: None)
        handlers = get_webhook_handlers(registry)
        return make_manager(handlers[-len(ids) :])

    return get


def test_managers_are_the_same_for_the_same_handlers(manager_of):
    assert manager_of("a", "b") == manager_of("b", "a")
    assert len({manager_of("a"), manager_of("b"), manager_of("a", decorator=on.mutate)}) == 3
    assert manager_of("a").startswith("kopf-")
