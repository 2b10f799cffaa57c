"""What is written to the cluster: a pure function of handlers, resources, and the server."""

import pytest

from kopf_cogs.structs.resources import Resource
from kopf_core.engines.admission import get_webhook_handlers
from kopf_core.engines.admission.configurations import build_webhooks, extend_client_config
from kopf_core.engines.admission.routes import Routes
from kopf_core.intents import decorators as on
from kopf_core.intents.filters import ABSENT, PRESENT
from kopf_core.intents.webhooks import WebhookType

PLAIN = {
    "name": "fn.auto.kopf.dev",
    "clientConfig": {"url": "https://host/fn"},
    "sideEffects": "None",
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "rules": [
        {
            "apiGroups": ["kopf.dev"],
            "apiVersions": ["v1"],
            "resources": ["kopfexamples"],
            "operations": ["*"],
            "scope": "*",
        }
    ],
    "objectSelector": {},
    "timeoutSeconds": 30,
    "admissionReviewVersions": ["v1", "v1beta1"],
}


@pytest.fixture
def build(registry, resource):
    def build(decorator=on.validate, resources=None, **options):
        decorator("kopfexamples", id="fn", registry=registry, **options)(lambda **_: None)
        handlers = get_webhook_handlers(registry)
        return build_webhooks(
            handlers[-1].type,
            {handler: [resource] if resources is None else resources for handler in handlers},
            Routes(handlers),
            client_config={"url": "https://host/"},
            suffix="auto.kopf.dev",
        )

    return build


def test_defaults_are_as_of_the_previous_generation(build):
    assert build() == [PLAIN]
    assert build(on.mutate) == [PLAIN | {"clientConfig": {"url": "https://host/fn/mutating"}}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"side_effects": True}, {"sideEffects": "NoneOnDryRun"}),
        ({"ignore_failures": True}, {"failurePolicy": "Ignore"}),
        ({"timeout_seconds": 5}, {"timeoutSeconds": 5}),
        ({"match_policy": "Exact"}, {"matchPolicy": "Exact"}),
        (
            {"namespace_selector": {"env": "prod", "x": PRESENT}},
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "env", "operator": "In", "values": ["prod"]},
                        {"key": "x", "operator": "Exists"},
                    ]
                }
            },
        ),
        (
            {"namespace_selector": {"matchLabels": {"env": "prod"}}},
            {"namespaceSelector": {"matchLabels": {"env": "prod"}}},
        ),
        (
            {"match_conditions": {"not-me": "request.userInfo.username != 'me'"}},
            {
                "matchConditions": [
                    {"name": "not-me", "expression": "request.userInfo.username != 'me'"}
                ]
            },
        ),
        (
            {"labels": {"a": "b", "c": PRESENT, "d": ABSENT, "e": lambda v, **_: v, "f": ""}},
            {
                "objectSelector": {
                    "matchExpressions": [
                        {"key": "a", "operator": "In", "values": ["b"]},
                        {"key": "c", "operator": "Exists"},
                        {"key": "d", "operator": "DoesNotExist"},
                        {"key": "f", "operator": "In", "values": [""]},
                    ]
                }
            },
        ),
    ],
)
def test_options_are_passed_to_the_api(build, options, expected):
    assert build(**options) == [PLAIN | expected]


def test_reinvocation_is_of_mutating_webhooks_only(build):
    [webhook] = build(on.mutate, reinvocation_policy="IfNeeded")
    assert webhook["reinvocationPolicy"] == "IfNeeded"
    with pytest.raises(TypeError, match="reinvocation_policy"):
        build(on.validate, reinvocation_policy="IfNeeded")


@pytest.mark.parametrize(
    ("options", "operations"),
    [
        ({"operation": "CREATE"}, ["CREATE"]),
        ({"operations": ["CREATE", "UPDATE"]}, ["CREATE", "UPDATE"]),
        ({"operations": "DELETE"}, ["DELETE"]),
        ({"operation": "*"}, ["*"]),
    ],
)
def test_operations_are_in_the_rules(build, options, operations):
    assert build(**options)[0]["rules"][0]["operations"] == operations


@pytest.mark.parametrize(
    ("subresource", "rule"),
    [(None, "kopfexamples"), ("status", "kopfexamples/status"), ("*", "kopfexamples/*")],
)
def test_subresources_are_in_the_rules(build, subresource, rule):
    assert build(subresource=subresource)[0]["rules"][0]["resources"] == [rule]


def test_rules_are_in_a_stable_order(build, resource):
    others = [Resource("b", "v1", "y"), Resource("", "v1", "z"), Resource("b", "v1", "x")]
    [webhook] = build(resources=others)
    found = [(*rule["apiGroups"], *rule["resources"]) for rule in webhook["rules"]]
    assert found == [("", "z"), ("b", "x"), ("b", "y")]


def test_what_does_not_exist_is_not_configured(build):
    assert build(resources=[]) == []


def test_each_type_is_configured_apart(build, registry):
    build(on.validate)
    handlers = get_webhook_handlers(registry)
    assert (
        build_webhooks(
            WebhookType.MUTATING,
            {handlers[0]: []},
            Routes(handlers),
            client_config={},
            suffix="x",
        )
        == []
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"url": "https://h/p/"}, {"url": "https://h/p/fn"}),
        ({"url": "https://h", "caBundle": "CA"}, {"url": "https://h/fn", "caBundle": "CA"}),
        ({"url": "https://h", "caBundle": None}, {"url": "https://h/fn"}),
        (
            {"service": {"name": "s", "namespace": "n"}, "caBundle": "CA"},
            {"service": {"name": "s", "namespace": "n", "path": "/fn"}, "caBundle": "CA"},
        ),
        (
            {"service": {"name": "s", "namespace": "n", "path": "p/q/", "port": None}},
            {"service": {"name": "s", "namespace": "n", "path": "/p/q/fn"}},
        ),
    ],
)
def test_paths_of_handlers_are_added_to_addresses(config, expected):
    assert extend_client_config(config, "fn", "fn") == expected


def test_g7_paths_of_services_differ_from_those_of_urls():
    service = {"name": "s", "namespace": "n"}
    extended = extend_client_config({"service": service}, "check_it", "check-it")
    assert extended == {"service": {"name": "s", "namespace": "n", "path": "/check-it"}}
    extended = extend_client_config({"url": "https://h"}, "check_it", "check-it")
    assert extended == {"url": "https://h/check_it"}
