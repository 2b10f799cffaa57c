import asyncio
import base64
import datetime
import ipaddress
import json
import ssl

import pytest
from aiohttp import web

x509 = pytest.importorskip("cryptography.x509")  # there are no wheels of it for PyPy
hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")

OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
CONFIGS = "/apis/admissionregistration.k8s.io/v1"
PATIENCE = 120.0


class Hooks:
    """Webhooks on a real port; they answer with what they are told, and remember the requests."""

    def __init__(self) -> None:
        self.requests = []
        self.answers = {}
        self.url = ""
        self.bundle = ""

    async def handle(self, request):
        review = await request.json()
        name = request.path.strip("/")
        self.requests.append((name, review["request"]))
        answer = self.answers.get(name, {})
        if callable(answer):
            answer = answer(review["request"])
        if isinstance(answer, web.Response):
            return answer
        response = {"uid": review["request"]["uid"], "allowed": True, **answer}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                                  "response": response})  # fmt: skip

    def patch(self, name, *operations):
        encoded = base64.b64encode(json.dumps(operations).encode()).decode()
        self.answers[name] = {"patchType": "JSONPatch", "patch": encoded}

    def names(self):
        return [name for name, _ in self.requests]


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A file with a key and a certificate for the local address: webhooks are called via HTTPS."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hooks")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    path = tmp_path_factory.mktemp("certificates") / "hooks.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + built.public_bytes(serialization.Encoding.PEM)
    )
    return path, built.public_bytes(serialization.Encoding.PEM)


class Server(web.Server):
    """It knows when its connections are over: those with TLS are closed for longer than it runs."""

    def __init__(self, handler):
        super().__init__(handler)
        self.opened = set()
        self.lost = asyncio.Event()

    def connection_made(self, handler, transport):
        self.opened.add(handler)
        super().connection_made(handler, transport)

    def connection_lost(self, handler, exc=None):
        self.opened.discard(handler)
        self.lost.set()
        super().connection_lost(handler, exc)

    async def wait_closed(self):
        while self.opened:
            self.lost.clear()
            await self.lost.wait()


@pytest.fixture
async def hooks(certificate):
    hooks = Hooks()
    path, public = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)
    server = Server(hooks.handle)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    hooks.url = "https://{}:{}".format(*runner.addresses[0])
    hooks.bundle = base64.b64encode(public).decode()
    yield hooks
    await runner.cleanup()
    async with asyncio.timeout(PATIENCE):
        await server.wait_closed()


@pytest.fixture
def configure(sandbox, crd, hooks):
    async def configure(kind, *names, **fields):
        rule = {"apiGroups": ["kopf.dev"], "apiVersions": ["*"], "operations": ["*"],
                "resources": ["kopfexamples"], **fields.pop("rule", {})}  # fmt: skip
        webhooks = [
            {
                "name": f"{name}.hooks.kopf.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "clientConfig": {"url": f"{hooks.url}/{name}", "caBundle": hooks.bundle},
                "rules": [rule],
                **fields,
            }
            for name in names
        ]
        await sandbox.apply(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": f"config-{names[0]}"},
                "webhooks": webhooks,
            }
        )

    return configure


async def test_validation_of_all_operations(client, hooks, configure, make_object):
    await configure("Validating", "v")
    await client.post(OBJECTS, make_object(spec={"a": 1}))
    await client.merge(f"{OBJECTS}/x", {"spec": {"a": 2}})
    await client.delete(f"{OBJECTS}/x")
    created, updated, deleted = (request for _, request in hooks.requests)
    assert [r["operation"] for r in (created, updated, deleted)] == ["CREATE", "UPDATE", "DELETE"]
    assert created["object"]["spec"] == {"a": 1}
    assert created["oldObject"] is None
    assert created["name"] == "x"
    assert created["namespace"] == "default"
    assert created["kind"] == {"group": "kopf.dev", "version": "v1", "kind": "KopfExample"}
    assert created["resource"]["resource"] == "kopfexamples"
    assert created["dryRun"] is False
    assert created["userInfo"]["username"]
    assert updated["object"]["spec"] == {"a": 2}
    assert updated["oldObject"]["spec"] == {"a": 1}
    assert deleted["object"] is None
    assert deleted["oldObject"]["spec"] == {"a": 2}


async def test_denial(client, hooks, configure, make_object):
    await configure("Validating", "v")
    hooks.answers["v"] = {"allowed": False, "status": {"message": "no way", "code": 499}}
    answer = await client.post(OBJECTS, make_object())
    assert answer.status == 499
    assert answer.json["message"] == (
        'admission webhook "v.hooks.kopf.dev" denied the request: no way'
    )
    hooks.answers["v"] = {"allowed": False}
    answer = await client.post(OBJECTS, make_object())
    assert answer.status == 400
    assert answer.json["message"].endswith("denied the request without explanation")
    assert (await client.get(f"{OBJECTS}/x")).status == 404


async def test_denied_deletion(client, hooks, configure, make_object):
    await client.post(OBJECTS, make_object())
    await configure("Validating", "v", rule={"operations": ["DELETE"]})
    hooks.answers["v"] = {"allowed": False, "status": {"message": "keep it"}}
    assert (await client.delete(f"{OBJECTS}/x")).status == 400
    assert (await client.get(f"{OBJECTS}/x")).status == 200


async def test_mutation(client, hooks, configure, make_object):
    await configure("Mutating", "m1", "m2")
    await configure("Validating", "v")
    hooks.patch("m1", {"op": "add", "path": "/spec", "value": {"a": 1}})
    hooks.patch("m2", {"op": "add", "path": "/spec/b", "value": 2})
    answer = await client.post(OBJECTS, make_object())
    assert answer.json["spec"] == {"a": 1, "b": 2}
    assert hooks.names() == ["m1", "m2", "v"]
    assert hooks.requests[2][1]["object"]["spec"] == {"a": 1, "b": 2}


async def test_reinvocation(client, hooks, configure, make_object):
    await configure("Mutating", "m1", "m2", reinvocationPolicy="IfNeeded")
    hooks.patch("m2", {"op": "add", "path": "/spec", "value": {"a": 1}})
    await client.post(OBJECTS, make_object())
    assert hooks.names() == ["m1", "m2", "m1"]


async def test_warnings(client, hooks, configure, make_object):
    await configure("Validating", "v")
    hooks.answers["v"] = {"warnings": ["be careful"]}
    answer = await client.post(OBJECTS, make_object())
    assert answer.status == 201
    assert answer.headers["Warning"] == '299 - "be careful"'


@pytest.mark.parametrize(
    "broken",
    [
        web.Response(status=500, text="oops"),
        web.Response(text="nonsense"),
        {"uid": "another"},
    ],
)
async def test_failures(client, hooks, configure, make_object, broken):
    await configure("Validating", "v")
    hooks.answers["v"] = lambda request: broken
    answer = await client.post(OBJECTS, make_object())
    assert answer.status == 500
    assert answer.json["reason"] == "InternalError"
    assert 'failed calling webhook "v.hooks.kopf.dev": ' in answer.json["message"]


async def test_refused_connections_are_told_as_by_the_real_server(
    client, hooks, configure, make_object
):
    url = "https://127.0.0.1:1/v"  # nobody listens there
    await configure("Validating", "v", clientConfig={"url": url, "caBundle": hooks.bundle})
    answer = await client.post(OBJECTS, make_object())
    reason = "dial tcp 127.0.0.1:1: connect: connection refused"
    assert answer.json["message"].endswith(f'Post "{url}?timeout=10s": {reason}')


async def test_failures_can_be_ignored(client, hooks, configure, make_object):
    await configure("Validating", "v", failurePolicy="Ignore",
                    clientConfig={"url": "https://127.0.0.1:1/"})  # fmt: skip
    assert (await client.post(OBJECTS, make_object())).status == 201


async def test_unreachable(client, hooks, configure, make_object):
    await configure("Validating", "v", clientConfig={"url": "https://127.0.0.1:1/x"})
    answer = await client.post(OBJECTS, make_object())
    assert answer.status == 500
    assert (
        'failed to call webhook: Post "https://127.0.0.1:1/x?timeout=10s"'
        in answer.text.replace('\\"', '"')
    )


async def test_selectors(client, hooks, configure, make_object):
    await configure("Validating", "v1", objectSelector={"matchLabels": {"a": "b"}})
    await configure("Validating", "v2", namespaceSelector={
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                              "values": ["default"]}]})  # fmt: skip
    await client.post(OBJECTS, make_object())
    assert hooks.names() == []
    await client.merge(f"{OBJECTS}/x", {"metadata": {"labels": {"a": "b"}}})
    assert hooks.names() == ["v1"]


async def test_conditions(client, hooks, configure, make_object):
    condition = {"name": "named", "expression": "object.metadata.name == 'y'"}
    await configure("Validating", "v", matchConditions=[condition])
    await client.post(OBJECTS, make_object("x"))
    await client.post(OBJECTS, make_object("y"))
    assert [request["name"] for _, request in hooks.requests] == ["y"]


async def test_warnings_of_denials(client, hooks, configure, make_object):
    await configure("Validating", "v")
    hooks.answers["v"] = {"allowed": False, "warnings": ["be careful"]}
    answer = await client.post(OBJECTS, make_object())
    assert answer.status == 400
    assert answer.headers["Warning"] == '299 - "be careful"'


async def test_mutating_webhooks_come_before_the_names(client, hooks, configure):
    await configure("Mutating", "m")
    await configure("Validating", "v")
    await client.post(OBJECTS, {"metadata": {"generateName": "some-"}})
    told = [request.get("name", "") for _, request in hooks.requests]
    assert told[0] == ""
    assert told[1].startswith("some-")


async def test_subresources(client, hooks, configure, make_object):
    await configure("Validating", "v1", rule={"resources": ["kopfexamples/status"]})
    await configure("Validating", "v2", rule={"resources": ["kopfexamples/*"]})
    await client.post(OBJECTS, make_object())
    assert hooks.names() == ["v2"]
    await client.merge(f"{OBJECTS}/x/status", {"status": {"a": 1}})
    assert sorted(hooks.names()[1:]) == ["v1", "v2"]  # they are called at once
    assert [request["subResource"] for _, request in hooks.requests[1:]] == ["status", "status"]


async def test_dry_run(client, hooks, configure, make_object):
    await configure("Validating", "v")
    await client.post(f"{OBJECTS}?dryRun=All", make_object())
    assert hooks.requests[0][1]["dryRun"] is True


async def test_changes_meanwhile_are_not_lost(sandbox, client, hooks, configure, make_object):
    await client.post(OBJECTS, make_object())
    await configure("Validating", "v")
    store = sandbox.cluster.registry.find("kex").resource.store

    def interfere(request):
        if len(hooks.requests) == 1:
            stored = store.get(("default", "x"))
            obj = {**stored.obj, "metadata": {**stored.obj["metadata"], "labels": {"l": "m"}}}
            store.put(stored.key, obj)
        return {}

    hooks.answers["v"] = interfere
    answer = await client.merge(f"{OBJECTS}/x", {"spec": {"a": 1}})
    assert answer.json["spec"] == {"a": 1}
    assert answer.json["metadata"]["labels"] == {"l": "m"}
    assert len(hooks.requests) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "short"), ("sideEffects", None), ("admissionReviewVersions", []),
     ("timeoutSeconds", 31)],
)  # fmt: skip
async def test_invalid_configurations(client, field, value):
    hook = {"name": "v.hooks.kopf.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1/"}, field: value}  # fmt: skip
    body = {"metadata": {"name": "config"}, "webhooks": [hook]}
    answer = await client.post(f"{CONFIGS}/validatingwebhookconfigurations", body)
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == f"webhooks[0].{field}"
