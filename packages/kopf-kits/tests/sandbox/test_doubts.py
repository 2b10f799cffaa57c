import logging

import pytest

from .conftest import OBJECTS, make_crd, make_schema

LOGGER = "kopf_kits.sandbox.http.server"


@pytest.fixture
async def serve(sandbox):
    async def serve(rules=(), **properties):
        schema = make_schema(**properties)
        spec = schema["openAPIV3Schema"]["properties"]["spec"]
        spec["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
        await sandbox.apply(make_crd(schema=schema))

    return serve


@pytest.mark.parametrize(
    ("properties", "rules", "why"),
    [
        ({"f": {"type": "string"}}, ["semver(self.f).major() == 1"], "unknown function"),
        ({"f": {"type": "string"}}, ["self === 1"], "unexpected"),
        ({"f": {"type": "string", "pattern": r"^\p{Greek}+$"}}, [], r"\\p{Greek}"),
        ({"f": {"type": "string", "format": "isbn"}}, [], "not known"),
        ({"f": {"type": "string", "not": {"pattern": r"\p{Greek}"}}}, [], r"\\p{Greek}"),
    ],
)
async def test_k33_what_cannot_be_checked_is_said(
    client, serve, make_object, caplog, properties, rules, why
):
    await serve(rules, **properties)
    caplog.set_level(logging.WARNING, LOGGER)
    for name in ("x", "y"):
        answer = await client.post(OBJECTS, make_object(name, spec={"f": "1.2.3.4"}))
        assert answer.status == 201
        [warning] = answer.headers.getall("Warning")
        assert warning.startswith('299 - "The sandbox cannot check this: kopfexamples.kopf.dev: ')
        assert why in warning
    [record] = [record for record in caplog.records if record.name == LOGGER]
    assert record.getMessage().startswith("The sandbox cannot check this: kopfexamples.kopf.dev: ")


async def test_k33_what_can_be_checked_is_not_in_doubt(client, serve, make_object, caplog):
    await serve(["duration(self.f) > duration('1m')"], f={"type": "string"})
    good = await client.post(OBJECTS, make_object("x", spec={"f": "2m"}))
    bad = await client.post(OBJECTS, make_object("y", spec={"f": "1s"}))
    assert (good.status, bad.status) == (201, 422)
    assert "Warning" not in good.headers
    assert not [record for record in caplog.records if record.name == LOGGER]


async def test_q_conversions_by_webhooks_are_said_to_be_missing(client, sandbox, caplog):
    await sandbox.apply(make_crd())
    webhook = {"clientConfig": {"url": "https://localhost/"}, "conversionReviewVersions": ["v1"]}
    spec = {"conversion": {"strategy": "Webhook", "webhook": webhook}}
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kopfexamples.kopf.dev"
    for _ in range(2):
        answer = await client.merge(crd, {"spec": spec})
        [warning] = answer.headers.getall("Warning")
        assert "conversions: the sandbox calls no webhook for them" in warning
    [record] = [record for record in caplog.records if record.name == LOGGER]
    assert "conversions: the sandbox calls no webhook for them" in record.getMessage()


async def test_k33_a_yielded_typo_is_refused_as_by_the_real_server(client):
    spec = {"replicsa": 1, "selector": {}, "template": {}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": spec}
    answer = await client.apply("/apis/apps/v1/namespaces/default/deployments/x", body)
    assert answer.status == 500
    assert answer.json["message"].endswith(".spec.replicsa: field not declared in schema")


def make_policy(kind, **spec):
    rule = {
        "apiGroups": ["kopf.dev"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["kopfexamples"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, **spec},
    }


def make_binding(kind, **spec):
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", **spec},
    }


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"validations": [{"expression": "authorizer.group('').allowed()"}]}, "authorizer"),
        ({"validations": [{"expression": "request.userInfo.username == 'x'"}]}, "userInfo"),
        ({"validations": [{"expression": "isSemver(object.spec.f)"}]}, "unknown function"),
        ({"validations": [{"expression": "true"}], "matchConditions": [
            {"name": "x", "expression": "isSemver(object.spec.f)"}]}, "unknown function"),
    ],
)  # fmt: skip
async def test_policies_that_cannot_be_evaluated_are_said(
    sandbox, client, serve, make_object, spec, why
):
    await serve(f={"type": "string"})
    await sandbox.apply(make_policy("ValidatingAdmissionPolicy", **spec))
    binding = make_binding("ValidatingAdmissionPolicyBinding", validationActions=["Deny"])
    await sandbox.apply(binding)
    answer = await client.post(OBJECTS, make_object("x", spec={"f": "1.2.3.4"}))
    assert answer.status == 201
    [warning] = answer.headers.getall("Warning")
    assert warning.startswith('299 - "The sandbox cannot check this: ')
    assert why in warning


async def test_mutations_that_cannot_be_made_are_said(sandbox, client, serve, make_object):
    await serve(f={"type": "string"})
    expression = "Object{spec: Object.spec{f: 'y'}}"
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": expression},
    }
    await sandbox.apply(make_policy("MutatingAdmissionPolicy", mutations=[mutation]))
    await sandbox.apply(make_binding("MutatingAdmissionPolicyBinding"))
    answer = await client.post(OBJECTS, make_object("x", spec={"f": "x"}))
    [warning] = answer.headers.getall("Warning")
    assert "MutatingAdmissionPolicy 'p': only JSON patches are made" in warning


async def test_policies_can_only_warn(sandbox, client, serve, make_object):
    await serve(f={"type": "string"})
    validations = [{"expression": "object.spec.f == 'good'", "message": "not good"}]
    await sandbox.apply(make_policy("ValidatingAdmissionPolicy", validations=validations))
    binding = make_binding("ValidatingAdmissionPolicyBinding", validationActions=["Warn"])
    await sandbox.apply(binding)
    good = await client.post(OBJECTS, make_object("x", spec={"f": "good"}))
    bad = await client.post(OBJECTS, make_object("y", spec={"f": "bad"}))
    assert (good.status, bad.status) == (201, 201)
    assert "Warning" not in good.headers
    [warning] = bad.headers.getall("Warning")
    assert (
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': not good" in warning
    )


async def test_policies_with_errors_deny_unless_they_are_ignored(
    sandbox, client, serve, make_object
):
    await serve(f={"type": "string"})
    validations = [{"expression": "object.spec.nosuch == 1"}]
    policy = make_policy("ValidatingAdmissionPolicy", validations=validations)
    await sandbox.apply(policy)
    binding = make_binding("ValidatingAdmissionPolicyBinding", validationActions=["Deny"])
    await sandbox.apply(binding)
    denied = await client.post(OBJECTS, make_object("x", spec={"f": "x"}))
    assert denied.status == 422
    assert "resulted in error: no such key: nosuch" in denied.json["message"]
    policy["spec"]["failurePolicy"] = "Ignore"
    await sandbox.apply(policy)
    assert (await client.post(OBJECTS, make_object("x", spec={"f": "x"}))).status == 201
