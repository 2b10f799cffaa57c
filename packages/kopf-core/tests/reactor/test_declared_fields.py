"""Fields that handlers declare, but the schemas of their kinds do not have."""

from idleness import until

from kopf_cogs.structs.selectors import EVERYTHING
from kopf_core.intents import decorators as on
from kopf_core.reactor.shape.declared_fields import FieldChecker, find_gap

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kopfexamples.kopf.dev"
INTEGER = {"type": "integer"}
SPEC = {"type": "object", "properties": {"replicas": INTEGER, "secretName": {"type": "string"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": SPEC,
        "labels": {"type": "object", "additionalProperties": SPEC},
        "list": {"type": "array", "items": SPEC},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def make_definition(*schemas, **fields):
    names = {"kind": "KopfExample", "plural": "kopfexamples", "singular": "kopfexample"}
    versions = [
        {"name": f"v{n}", "served": True, "schema": {"openAPIV3Schema": schema}}
        for n, schema in enumerate(schemas, start=1)
    ]
    return {
        "metadata": {"name": "kopfexamples.kopf.dev"},
        "spec": {"group": "kopf.dev", "names": names, "versions": versions, **fields},
    }


def test_gaps_are_found_only_where_the_schema_is_complete():
    assert find_gap(SCHEMA, ("sepc", "replicas")).depth == 0
    assert find_gap(SCHEMA, ("spec", "replicsa")).depth == 1
    assert find_gap(SCHEMA, ("labels", "any", "replicsa")).depth == 2
    for path in (
        ("spec",),
        ("spec", "replicas"),
        ("metadata", "labels", "x"),
        ("labels", "any", "replicas"),
        ("list", "0", "x"),
        ("open", "x"),
        ("spec", "replicas", "x"),
    ):
        assert find_gap(SCHEMA, path) is None


def test_senseless_schemas_have_no_gaps():
    for schema in (None, [], {}, {"type": "array"}):
        assert find_gap(schema, ("spec",)) is None


def test_misspelled_fields_are_warned_of_once(registry, caplog):
    on.update("kopfexamples", field="sepc.replicas", registry=registry)(lambda **_: None)
    on.event("kopfexamples", id="fn", field="spec.unlike", registry=registry)(lambda **_: None)
    checker = FieldChecker(registry)
    for _ in range(2):
        checker.look(make_definition(SCHEMA))
    update, event = caplog.messages
    text = "has the field 'sepc.replicas', which is not in the schema of kopfexamples.kopf.dev."
    assert update.endswith(f"{text} Did you mean 'spec.replicas'?")
    assert event.endswith("'spec.unlike', which is not in the schema of kopfexamples.kopf.dev.")


def test_misspelled_relations_are_warned_of(registry, caplog):
    on.index("pods", id="names", registry=registry)(lambda **_: None)
    related = {
        "secrets": "spec.secretNmae",
        "configmaps": "spec.secretName",
        "pods": "names",
        "nodes": lambda **_: [],
        "services": "sepc",
    }
    on.reconcile("kopfexamples", id="fn", related=related, registry=registry)(lambda **_: [])
    FieldChecker(registry).look(make_definition(SCHEMA))
    assert [message.partition(" has ")[2] for message in caplog.messages] == [
        f"the relation by the field {wrong!r}, which is not in the schema of "
        f"kopfexamples.kopf.dev. Did you mean {meant!r}?"
        for wrong, meant in (("spec.secretNmae", "spec.secretName"), ("sepc", "spec"))
    ]


def test_fields_that_can_exist_are_not_warned_of(registry, caplog):
    on.event("kopfexamples", field="spec.replicas", registry=registry)(lambda **_: None)
    on.event("others", field="spec.size", registry=registry)(lambda **_: None)
    on.event("kopf.dev", EVERYTHING, field="spec.size", registry=registry)(lambda **_: None)
    checker = FieldChecker(registry)
    checker.look(make_definition({"type": "object"}, SCHEMA))
    checker.look(make_definition({"type": "object"}, preserveUnknownFields=True))
    checker.look({"metadata": {"name": "x"}})
    assert caplog.messages == []


async def test_operators_look_at_the_schemas_of_the_cluster(cluster, operate, registry, caplog):
    on.event("kopfexamples", id="fn", field="sepc.size", registry=registry)(lambda **_: None)
    definition = await cluster.client.get(CRD)
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": SCHEMA}
    await cluster.redefine(definition)
    async with operate():
        await until(lambda: "which is not in the schema of kopfexamples.kopf.dev" in caplog.text)
