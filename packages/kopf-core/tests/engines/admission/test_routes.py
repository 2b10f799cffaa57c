"""The URLs and names of webhooks."""

import pytest

from kopf_cogs.structs.reviews import UnknownWebhookError
from kopf_core.engines.admission import get_webhook_handlers
from kopf_core.engines.admission.routes import MAX_NAME, Routes, make_names
from kopf_core.intents import decorators as on


@pytest.fixture
def declare(registry):
    def declare(decorator, id, **options):
        decorator("kopfexamples", id=id, registry=registry, **options)(lambda **_: None)
        return get_webhook_handlers(registry)[-1]

    return declare


def get_ids(handlers):
    return [str(handler.id) for handler in handlers]


def test_handlers_are_found_by_their_ids(declare):
    one, two = declare(on.validate, "one"), declare(on.mutate, "two/spec.field")
    routes = Routes([one, two])
    assert routes.select("one") == (one,)
    assert routes.select("/one/") == (one,)
    assert routes.select("two/spec.field") == (two,)
    assert [routes.get_path(handler) for handler in (one, two)] == ["one", "two/spec.field"]


@pytest.mark.parametrize("webhook", [None, "", "/"])
def test_all_handlers_are_meant_with_no_path(declare, webhook):
    handlers = [declare(on.validate, "one"), declare(on.mutate, "two")]
    assert Routes(handlers).select(webhook) == tuple(handlers)


@pytest.mark.parametrize(
    "webhook",
    ["nosuch", "one/..", "one/../two", "../one", "one%2f..%2ftwo", "one/.", "//one//two", "ONE",
     "one\x00", "one%00", "one?x", "one/two", "%6fne%6f"],
)  # fmt: skip
def test_g7_no_path_leads_to_other_handlers(declare, webhook):
    routes = Routes([declare(on.validate, "one"), declare(on.mutate, "two")])
    with pytest.raises(UnknownWebhookError) as error:
        routes.select(webhook)
    assert error.value.status == 404
    assert webhook not in str(error.value)


@pytest.mark.parametrize("id", ["Weird ID_with/slash.and:x", "lambda:/x/y.py:1", "ключ", "a?b#c%d"])
def test_g7_paths_are_safe_for_urls(declare, id):
    handler = declare(on.validate, id)
    routes = Routes([handler])
    path = routes.get_path(handler)
    assert set(path) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%/")
    assert routes.select(path) == (handler,)
    assert routes.select(id) == (handler,)


@pytest.mark.parametrize(
    ("id", "path"),
    [
        ("one", "one"),
        ("two-1/spec.field", "two-1/spec.field"),
        ("check_replicas", "check-replicas"),
        ("check_it/spec.maxReplicas", "check-it.spec.maxreplicas"),
        ("<lambda>", "3clambda3e"),
        ("_", "webhook-b14a7b8059d9c055954c92674ce60032"),
    ],
)
def test_g7_paths_of_services_are_as_the_api_permits(declare, id, path):
    """Between slashes, there can only be names of RFC 1123: the API refuses all others."""
    handler = declare(on.validate, id)
    routes = Routes([handler])
    assert routes.get_service_path(handler) == path
    assert routes.select(path) == (handler,)
    assert routes.select(id) == (handler,)


def test_g7_paths_of_services_lead_to_one_handler_only(declare):
    handlers = [declare(on.validate, id) for id in ["a_b", "a-b", "a.b", "a/b", "a__b", "a_B"]]
    handlers += [declare(on.mutate, "a_b")]
    routes = Routes(handlers)
    paths = [routes.get_service_path(handler) for handler in handlers]
    assert len({*paths}) == len(handlers)
    assert [routes.select(path) for path in paths] == [(handler,) for handler in handlers]


def test_handlers_with_one_id_have_own_paths_and_a_common_one(declare):
    handlers = [
        declare(on.validate, "same"),
        declare(on.mutate, "same"),
        declare(on.validate, "same", operation="DELETE"),
        declare(on.validate, "same/mutating"),
    ]
    routes = Routes(handlers)
    paths = [routes.get_path(handler) for handler in handlers]
    assert paths == ["same/validating", "same/mutating/2", "same/validating/2", "same/mutating"]
    assert [routes.select(path) for path in paths] == [(handler,) for handler in handlers]
    assert routes.select("same") == tuple(handlers[:3])


def test_names_are_as_of_the_previous_generation(declare):
    ids = ["plain", "fld2/spec.field", "snake_case", "lambda:/tmp/op.py:58", "x.<locals>.y"]
    handlers = [declare(on.validate, id) for id in ids]
    assert [*make_names(handlers, "auto.kopf.dev").values()] == [
        "plain.auto.kopf.dev",
        "fld2.spec.field.auto.kopf.dev",
        "snake-case.auto.kopf.dev",
        "lambda3a.tmp.op.py3a58.auto.kopf.dev",
        "x.3clocals3e.y.auto.kopf.dev",
    ]


def test_names_are_always_valid_and_unique(declare):
    ids = ["_private_", "CamelCase", "same", "same", "Same", "//", "...", "a" * 300, "a" * 301]
    handlers = [declare(on.validate, id) for id in ids]
    names = [*make_names(handlers, "auto.kopf.dev").values()]
    assert names[:5] == [
        "private.auto.kopf.dev",
        "camelcase.auto.kopf.dev",
        "same.auto.kopf.dev",
        "same.2.auto.kopf.dev",
        "same.3.auto.kopf.dev",
    ]
    assert len(set(names)) == len(ids)
    assert all(len(name) <= MAX_NAME and ".." not in name and name[0] != "." for name in names)
