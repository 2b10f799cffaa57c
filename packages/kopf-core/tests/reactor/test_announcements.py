"""What is said at the start: of the version, the scope, the cluster, and the resources."""

import logging

import pytest

from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo
from kopf_cogs.structs.resources import Resource
from kopf_core.intents import decorators as on
from kopf_core.reactor.life import announcements
from kopf_core.reactor.life.announcements import ConnectionAnnouncer, announce_start
from kopf_core.reactor.life.essentials import OperatorOptions
from kopf_core.reactor.shape.descriptions import describe_unresolved
from kopf_core.reactor.shape.servable import ServableResources

VERBS = frozenset({"list", "watch", "patch"})


@pytest.fixture(autouse=True)
def _levels(caplog):
    caplog.set_level(logging.INFO)


def make_resource(plural, group="kopf.dev"):
    kind = plural.rstrip("s").capitalize()
    return Resource(
        group, "v1", plural, kind=kind, singular=kind.lower(), verbs=VERBS, preferred=True
    )


EXAMPLES, PODS = make_resource("examples"), make_resource("pods", group="")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"clusterwide": True}, ["The scope is the whole cluster."]),
        ({"namespaces": ["ns1", "ns-*"]}, ["The scope is these namespaces: ns1, ns-*."]),
        ({}, []),  # there is a warning instead
    ],
)
def test_version_and_scope(caplog, monkeypatch, registry, options, expected):
    caplog.set_level(logging.DEBUG, "kopf._core.reactor.running")
    monkeypatch.setattr(announcements, "get_version", lambda: "1.2.3")
    announce_start(OperatorOptions(registry=registry, **options))
    assert caplog.messages == ["Starting Kopf 1.2.3.", *expected]


async def test_connection_is_named_once_and_with_no_secrets(caplog, settings):
    caplog.set_level(logging.DEBUG, "kopf._core.reactor.running")
    info = ConnectionInfo(server="https://me:secret1@host:1/path", token="secret2")
    vault = Vault({"login_fn": info, "other": info})
    announcer = ConnectionAnnouncer(vault, settings, "me@host/1/abc")
    announcer.observe([])
    announcer.observe([])
    vault.close()
    assert caplog.messages == [
        "This operator is 'me@host/1/abc'.",
        "Connected to https://host:1/path with the credentials of 'login_fn', 'other'.",
    ]


def test_resources_are_named_with_the_numbers_of_handlers(caplog, registry):
    caplog.set_level(logging.DEBUG, "kopf._core.reactor.running")
    on.event("pods", registry=registry)(lambda **_: None)
    on.create("examples", registry=registry)(lambda **_: None)
    on.timer("examples", interval=1, registry=registry)(lambda **_: None)
    servable = ServableResources(registry)
    servable.select([EXAMPLES, PODS])
    servable.select([EXAMPLES, PODS])
    servable.select([EXAMPLES])
    servable.select([EXAMPLES, PODS])
    messages = [r.message for r in caplog.records if r.levelno < logging.WARNING]
    assert messages == [
        f"Serving {EXAMPLES} (2 handlers), {PODS} (1 handler).",
        f"Serving no more: {PODS}.",
        f"Serving also {PODS} (1 handler).",
    ]


def test_lines_are_of_a_reasonable_length(caplog, registry):
    caplog.set_level(logging.DEBUG, "kopf._core.reactor.running")
    on.event(on_everything, registry=registry)(lambda **_: None)
    ServableResources(registry).select([make_resource(f"things{n:02}") for n in range(50)])
    [message] = caplog.messages
    assert message.startswith("Serving things00.v1.kopf.dev (1 handler), things01.")
    assert message.endswith("things09.v1.kopf.dev (1 handler), and 40 more.")


@pytest.mark.parametrize(
    "selector", [("example.com", "examples"), ("kopf.dev", "v5", "Example"), ("v1", "examples")]
)
def test_wrong_groups_and_versions_are_corrected(registry, selector):
    on.create(*selector, registry=registry)(lambda **_: None)
    [wanted] = registry.selectors
    text = describe_unresolved(wanted, registry, [EXAMPLES, PODS])
    assert text.endswith(f". Did you mean '{EXAMPLES}'?")


def on_everything(resource):
    return True


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("exmaples", ". Did you mean 'examples'?"),
        ("Exemple", ". Did you mean 'Example'?"),
        ("whatever", ""),
    ],
)
def test_absent_resources_are_named_with_their_handlers_and_the_nearest_kinds(
    caplog, registry, name, hint
):
    on.create(name, id="create_fn", registry=registry)(lambda **_: None)
    on.update(name, id="update_fn", registry=registry)(lambda **_: None)
    servable = ServableResources(registry)
    servable.select([EXAMPLES, PODS])
    servable.select([PODS])  # the hints are different, but it is the same problem
    [message] = caplog.messages
    assert message == (
        f"Unresolved resources cannot be served (try creating their CRDs): "
        f"Selector(any_name={name!r}), needed by handlers 'create_fn', 'update_fn'{hint}"
    )


def test_absent_kinds_of_reconcilers_are_named_with_them(caplog, registry):
    options = {"owns": ["podss"], "related": {"exmaples": "spec.name"}}
    on.reconcile("examples", id="fn", **options, registry=registry)(lambda **_: [])
    ServableResources(registry).select([EXAMPLES, PODS])
    warnings = sorted(r.message for r in caplog.records if r.levelno == logging.WARNING)
    assert [message.partition("): ")[2] for message in warnings] == [
        "Selector(any_name='exmaples'), needed by handler 'fn'. Did you mean 'examples'?",
        "Selector(any_name='podss'), needed by handler 'fn'. Did you mean 'pods'?",
    ]


@pytest.mark.parametrize("name", ["examples.kopf.com", "examples.v2.kopf.dev", "Example.kopf.com"])
def test_wrong_groups_and_versions_are_suggested_with_the_names(caplog, registry, name):
    on.event(name, registry=registry)(lambda **_: None)
    ServableResources(registry).select([EXAMPLES, PODS])
    [message] = caplog.messages
    assert message.endswith("Did you mean 'examples.v1.kopf.dev'?")
