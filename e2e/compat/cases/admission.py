"""Admission: the same reviews are posted to the webhook servers of both, and answered the same.

The operator posts them to itself over HTTP, and writes the answers down into the journal.
"""

from __future__ import annotations

import json
from typing import Any

from e2e.compat.definitions import API, GROUP
from e2e.compat.steps import Called

from .cases import Case

SERVER = """
import base64, json, pathlib, socket, aiohttp

JSON = {'Content-Type': 'application/json'}

class Server:
    async def __call__(self, fn):
        with socket.create_server(('127.0.0.1', 0)) as sock:
            port = sock.getsockname()[1]
        server = kopf.WebhookServer(addr='127.0.0.1', port=port, insecure=True)
        async for config in server(fn):
            asyncio.create_task(self.ask(f'http://127.0.0.1:{port}'))
            yield config

    async def ask(self, url):
        async with aiohttp.ClientSession() as session:
            await self.wait(session, url)
            for name, path, body in REVIEWS:
                data = json.dumps(body)
                async with session.post(url + path, data=data, headers=JSON) as response:
                    note(f'answer to {name}', {}, status=response.status,
                         answer=self.read(response.status, await response.text()))
        note('done', {})

    async def wait(self, session, url):
        data = json.dumps(READY[2])
        while True:  # until the resources are known
            async with session.post(url + '/ready', data=data, headers=JSON) as response:
                if response.status == 200:
                    break
            await asyncio.sleep(0.1)

    def read(self, status, text):
        answer = json.loads(text) if status == 200 else None
        if answer and 'patch' in answer['response']:
            patch = json.loads(base64.b64decode(answer['response']['patch']))
            answer['response']['patch'] = patch
        return answer

@kopf.on.startup()
async def configure(settings, **_):
    settings.admission.server = Server()

@kopf.on.event(K)
async def event(**_): pass

@kopf.on.validate(K)
async def ready(**_): pass

def seen(id, kw):
    note(id, {key: value for key, value in kw.items() if key != 'headers'})
"""

HANDLERS = """
@kopf.on.validate(K, id='plain')
def plain_fn(warnings, **kw):
    seen('plain', kw)
    warnings.append('beware')
@kopf.on.validate(K, id='errors')
async def errors_fn(spec, **kw):
    match spec.get('error'):
        case 'admission': raise kopf.AdmissionError('adm', code=499)
        case 'empty': raise kopf.AdmissionError()
        case 'permanent': raise kopf.PermanentError('perm')
        case 'temporary': raise kopf.TemporaryError('temp', delay=1)
        case 'arbitrary': raise ValueError('arb')
        case 'nameless': raise ValueError()
        case 'result': return {'ignored': True}
@kopf.on.mutate(K, id='mutate')
def mutate_fn(spec, patch, warnings, **kw):
    exec(spec.get('code', ''), dict(patch=patch, kopf=kopf, warnings=warnings))
@kopf.on.mutate(K, id='deleting', operation='DELETE')
def deleting_fn(**kw): seen('deleting', kw)
@kopf.on.validate(K, id='status', subresource='status')
def status_fn(**kw): seen('status', kw)
@kopf.on.validate(K, id='any', subresource='*')
def any_fn(**kw): seen('any', kw)
@kopf.on.validate(K, id='labels', labels={'a': 'b', 'c': kopf.PRESENT, 'd': kopf.ABSENT})
def labels_fn(**kw): seen('labels', kw)
@kopf.on.validate(K, id='when', when=lambda spec, operation, **_: operation == spec.get('op'))
def when_fn(**kw): seen('when', kw)
@kopf.on.validate(K, field='spec.field', value='v1', id='field')
def field_fn(**kw): seen('field', kw)
@kopf.on.validate(K, field='spec.field', id='Weird ID/with:all')
def weird_fn(**kw): seen('weird', kw)
@kopf.on.validate(K, id='param', param=123)
def param_fn(**kw): seen('param', kw)
"""

Review = tuple[str, str, Any]
VERSION = {"group": GROUP, "version": API.rpartition("/")[2]}


def review(name: str, path: str, spec: Any = None, **fields: Any) -> Review:
    """A review of a creation, unless the fields say otherwise."""
    metadata = {"name": "x", "namespace": "ns", **fields.pop("metadata", {})}
    kind = {**VERSION, "kind": "CompatExample"}
    resource = {**VERSION, "resource": "compatexamples"}
    request = {
        "uid": f"uid-of-{name}",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "x",
        "namespace": "ns",
        "operation": "CREATE",
        "userInfo": {"username": "me", "uid": "me-too", "groups": ["us"]},
        "object": make_object(spec, metadata),
        "oldObject": None,
        "dryRun": False,
        **fields,
    }
    request = {key: value for key, value in request.items() if value is not ...}
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return name, path, body


def make_object(spec: Any = None, metadata: Any = None) -> dict[str, Any]:
    return {
        "apiVersion": API.removeprefix("/apis/"),
        "kind": "CompatExample",
        "metadata": metadata or {"name": "x", "namespace": "ns"},
        "spec": spec or {},
    }


def change(name: str, path: str, old: Any, new: Any, **fields: Any) -> Review:
    fields = {"operation": "UPDATE", "oldObject": make_object(old), **fields}
    return review(name, path, new, **fields)


def removal(name: str, path: str, old: Any = None) -> Review:
    fields = {"operation": "DELETE", "object": None, "oldObject": make_object(old)}
    return review(name, path, **fields)


def patch(code: str, **spec: Any) -> Review:
    return review(code, "/mutate", {**spec, "code": code})


def make_case(name: str, *reviews: Review) -> Case:
    known = {"REVIEWS": reviews, "READY": review("ready", "/ready")}
    data = [f"{key} = json.loads({json.dumps(json.dumps(val))})" for key, val in known.items()]
    source = "\n".join([SERVER, *data, HANDLERS])
    return Case(f"admission-{name}", source, [Called("done")])


LABELS = {"a": "b", "c": "x"}

CASES = (
    make_case(
        "errors",
        *(
            review(error, "/errors", {"error": error})
            for error in (
                "admission",
                "empty",
                "permanent",
                "temporary",
                "arbitrary",
                "nameless",
                "result",
                "none",
            )
        ),
        change("updated", "/errors", {}, {"error": "admission"}),
        removal("deleted", "/errors", {"error": "permanent"}),
    ),
    make_case(
        "kwargs",
        review("created", "/plain", {"a": 1}),
        change("changed", "/plain", {"a": 1}, {"a": 2, "b": None}),
        removal("deleted", "/plain", {"a": 1}),
        review("dry", "/plain", dryRun=True),
        review("connected", "/plain", operation="CONNECT", object={"kind": "Options"}),
        review("labelled", "/plain", metadata={"labels": LABELS, "annotations": {"x": "y"}}),
        review("with-param", "/param"),
        review("nameless", "/plain", metadata={"name": None, "generateName": "x-"}),
        review("of-whom", "/plain", userInfo={"username": "x", "extra": {"y": ["z"]}}),
    ),
    make_case(
        "selection",
        review("main-of-status", "/status"),
        review("status-of-status", "/status", subResource="status"),
        review("scale-of-status", "/status", subResource="scale"),
        review("main-of-any", "/any"),
        review("status-of-any", "/any", subResource="status"),
        review("status-of-main", "/plain", subResource="status"),
        review("labels-match", "/labels", metadata={"labels": LABELS}),
        review("labels-differ", "/labels", metadata={"labels": {**LABELS, "d": ""}}),
        review("no-labels", "/labels"),
        review("when-match", "/when", {"op": "CREATE"}),
        review("when-differ", "/when", {"op": "UPDATE"}),
        review("field-match", "/field/spec.field", {"field": "v1"}),
        review("field-differ", "/field/spec.field", {"field": "v2"}),
        review("no-field", "/field/spec.field"),
        change("field-was", "/field/spec.field", {"field": "v1"}, {"field": "v2"}),
        change("field-becomes", "/field/spec.field", {"field": "v2"}, {"field": "v1"}),
        review("weird-id", "/Weird%20ID/with%3Aall/spec.field", {"field": 1}),
        removal("mutated-deletion", "/mutate", {"code": "warnings.append('x')"}),
        removal("deletion-as-asked", "/deleting"),
        review("creation-not-asked", "/status", operation="CREATE"),
    ),
    make_case(
        "patches",
        patch("patch.spec['a'] = 1"),
        patch("patch.spec['nosuch'] = None"),
        patch("patch.spec['old'] = None", old=1),
        patch("patch.spec['old'] = 'same'", old="same"),
        patch("patch['spec'] = {'a': 1}"),
        patch("patch.status['x'] = 1"),
        patch("patch.status['x'] = {'y': {'z': None}}"),
        patch("patch.metadata.labels['a/b'] = 'c'"),
        patch("patch.metadata.annotations['a~b/c'] = 'c'"),
        patch("patch.spec['l'] = [1, 2]"),
        patch("patch.spec['l'] = [1, 3]", l=[1, 2, 3]),
        patch("patch.spec['d'] = {'a': {'c': 2}}", d={"a": {"b": 1}}),
        patch("patch.spec['d'] = 1", d={"a": 1}),
        patch("patch.spec['n'] = 1", n=None),
        patch("patch.spec['n'] = None", n=None),
        patch("patch.fns.append(lambda body: body['spec'].update(l=[1]))"),
        patch("patch.spec['a'] = 1; raise kopf.AdmissionError('no', code=444)"),
        patch("warnings.append('x'); warnings.append(2)"),
        patch("patch.spec['x'] = {'a': 1, 'b': None}"),
    ),
    make_case(
        "protocol",
        review("no-uid", "/plain", uid=...),
        review("no-operation", "/plain", operation=...),
        review("no-dry-run", "/plain", dryRun=...),
        review("no-kind", "/plain", kind=..., requestKind=..., requestResource=...),
        review("no-object", "/plain", object=None),
        review("no-user", "/plain", userInfo=...),
        review("unknown-resource", "/plain", resource={**VERSION, "resource": "nosuch"}),
        ("not-json", "/plain", "text"),
        ("beta", "/plain", {**review("beta", "")[2], "apiVersion": "admission.k8s.io/v1beta1"}),
    ),
)
