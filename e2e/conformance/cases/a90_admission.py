"""Admission webhooks: when they are called, with what, and what becomes of their answers."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api, brief
from e2e.conformance.hooks import patching, serve_hooks
from e2e.conformance.normal import ABSENT
from e2e.conformance.objects import plain, strict
from e2e.conformance.registry import Area

area = Area("admission")
ADD = {"op": "add", "path": "/spec/added", "value": 1}


def denying(**status: Any) -> dict[str, Any]:
    return {"allowed": False, **({"status": status} if status else {})}


async def answer_create(api: Api, answer: Any, type: str = "validating", **options: Any) -> Any:
    """Create an object with the only webhook answering so."""
    async with serve_hooks(api) as hooks:
        await hooks.configure(type, hooks.hook("one", answer, **options))
        reply = await api.create("plains", plain(spec={}))
    return [reply.show("spec"), reply.warnings, hooks.names]


@area.behaviour("An object is changed by a mutating webhook", local=True)
async def mutation(api: Api) -> Any:
    return await answer_create(api, patching(ADD), "mutating")


@area.behaviour("An object is allowed by a validating webhook", local=True)
async def allowance(api: Api) -> Any:
    return await answer_create(api, {"allowed": True})


@area.behaviour("A denial with a message", local=True)
async def denial(api: Api) -> Any:
    return await answer_create(api, denying(message="Not today"))


@area.behaviour("A denial with a code, a reason, and a message", local=True)
async def denial_with_code(api: Api) -> Any:
    return await answer_create(api, denying(message="Not today", code=409, reason="Conflict"))


@area.behaviour("A denial with only a code", local=True)
async def denial_with_only_code(api: Api) -> Any:
    return await answer_create(api, denying(code=500))


@area.behaviour("A denial with a code of success", local=True)
async def denial_with_success(api: Api) -> Any:
    return await answer_create(api, denying(code=200, message="Well"))


@area.behaviour("A denial with nothing else", local=True)
async def bare_denial(api: Api) -> Any:
    return await answer_create(api, denying())


@area.behaviour("A denial by a mutating webhook", local=True)
async def mutating_denial(api: Api) -> Any:
    return await answer_create(api, denying(message="Not today"), "mutating")


@area.behaviour("Warnings are passed to the client, when allowed and when denied", local=True)
async def warnings(api: Api) -> Any:
    warnings = ["First", 'With "quotes" and \u00fc']
    return [
        await answer_create(api, {"allowed": True, "warnings": warnings}),
        await answer_create(api, {**denying(message="No"), "warnings": warnings}),
    ]


@area.behaviour("An unreachable webhook fails the request, or is ignored", local=True)
async def unreachable(api: Api) -> Any:
    shown = []
    for policy in ("Fail", "Ignore"):
        config = {"url": "https://127.0.0.1:1/x"}
        one = await answer_create(api, None, failurePolicy=policy, clientConfig=config)
        one[0] = {key: one[0].get(key) for key in ("code", "reason", "spec")}
        shown.append(one)
    return shown


@area.behaviour("A webhook with a certificate of another authority is not trusted", local=True)
async def untrusted(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        hook = hooks.hook("one")
        del hook["clientConfig"]["caBundle"]
        await hooks.configure("validating", hook)
        reply = await api.create("plains", plain())
    return [reply.code, reply["reason"], "certificate" in reply["message"], hooks.names]


@area.behaviour("A hanging webhook fails the request after its timeout, or is ignored", local=True)
async def hanging(api: Api) -> Any:
    shown = []
    for policy in ("Fail", "Ignore"):
        one = await answer_create(api, 5.0, timeoutSeconds=1, failurePolicy=policy)
        shown.append([{k: one[0].get(k) for k in ("code", "reason", "spec")}, one[2]])
    return shown


@area.behaviour("A webhook that fails by itself fails the request, or is ignored", local=True)
async def failing(api: Api) -> Any:
    return [
        await answer_create(api, 500),
        await answer_create(api, 500, failurePolicy="Ignore"),
    ]


@area.behaviour("A webhook that answers something else fails the request", local=True)
async def garbage(api: Api) -> Any:
    answers = ["{", "{}", {"allowed": True, "uid": "other"}]
    found = [await answer_create(api, answer) for answer in answers]
    return [[one[0]["code"], one[0].get("reason", ABSENT)] for one in found]


@area.behaviour("A mutating webhook with a wrong patch fails the request", local=True)
async def wrong_patches(api: Api) -> Any:
    answers: list[dict[str, Any]] = [
        patching({"op": "remove", "path": "/spec/none"}),
        patching({"op": "odd"}),
        {**patching(ADD), "patchType": "Odd"},
        {"allowed": True, "patchType": "JSONPatch", "patch": "bm90IGpzb24="},
        {k: v for k, v in patching(ADD).items() if k != "patchType"},
    ]
    found = [await answer_create(api, answer, "mutating") for answer in answers]
    return [[one[0]["code"], one[0].get("reason", ABSENT)] for one in found]


@area.behaviour("Mutating webhooks go first, in the order of their configurations", local=True)
async def order(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("validating"), name="a")
        await hooks.configure("mutating", hooks.hook("second", patching(ADD)), name="n")
        first = [hooks.hook("first", patching({**ADD, "path": "/spec/z"})), hooks.hook("next")]
        await hooks.configure("mutating", *first, name="m")
        hooks.calls.clear()
        reply = await api.create("plains", plain(spec={}))
    return [hooks.names, [r["object"]["spec"] for r in hooks.requests], reply["spec"]]


@area.behaviour("Validating webhooks are not called if a mutating one denies", local=True)
async def denied_early(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("validating"))
        await hooks.configure("mutating", hooks.hook("mutating", denying()))
        hooks.calls.clear()
        reply = await api.create("plains", plain())
    return [hooks.names, reply.code]


@area.behaviour("The result of mutations is pruned and checked by the schema", local=True)
async def mutated_schema(api: Api) -> Any:
    rule = {"resources": ["stricts"]}
    odd = [{**ADD, "path": "/spec/odd"}, {**ADD, "path": "/spec/number", "value": 5}]
    wrong = {**ADD, "path": "/spec/number", "value": 77}
    shown = []
    for ops in (odd, [wrong]):
        async with serve_hooks(api) as hooks:
            await hooks.configure("mutating", hooks.hook("one", patching(*ops), rule=rule))
            reply = await api.create("stricts", strict(spec={}))
            shown.append(reply.show("spec"))
    return shown


@area.behaviour("Metadata can be mutated, even the name of a new object", local=True)
async def mutated_metadata(api: Api) -> Any:
    labels = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    finalizers = {"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"]}
    async with serve_hooks(api) as hooks:
        await hooks.configure("mutating", hooks.hook("one", patching(labels, finalizers)))
        good = await api.create("plains", plain())
        renaming = {"op": "replace", "path": "/metadata/name", "value": "other"}
        hooks.answers["one"] = patching(renaming)
        bad = await api.create("plains", plain("y"))
    await api.patch("plains/x", {"metadata": {"finalizers": None}})
    fields = ("metadata.labels", "metadata.finalizers", "metadata.name")
    return [good.show(*fields), bad.show("metadata.name")]


def show_request(request: dict[str, Any]) -> Any:
    """Show a request to a webhook with only what is in the objects, not the whole objects."""
    shown = {k: v for k, v in request.items() if k not in ("object", "oldObject", "userInfo")}
    for key in ("object", "oldObject"):
        value = request.get(key)
        fields = ("spec", "status")
        shown[key] = value and {field: value.get(field, ABSENT) for field in fields}
    shown["user"] = "username" in request["userInfo"]
    return shown


@area.behaviour("What a webhook is told on creation", local=True)
async def creation_request(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("one"))
        await api.create("plains", plain(spec={"a": 1}))
    [(_, review)] = hooks.calls
    object = review["request"]["object"]
    known = {key: key in object["metadata"] for key in ("uid", "creationTimestamp", "generation")}
    return [review["apiVersion"], review["kind"], show_request(review["request"]), known]


@area.behaviour("What a webhook is told on changes, and when nothing is changed", local=True)
async def update_request(api: Api) -> Any:
    await api.make("plains", {"spec": {"a": 1}})
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("one"))
        await api.seen("plains/x", await api.patch("plains/x", {"spec": {"a": 2}}))
        await api.patch("plains/x", {"spec": {"a": 2}})
    return [show_request(request) for request in hooks.requests]


@area.behaviour("What a webhook is told on deletion", local=True)
async def deletion_request(api: Api) -> Any:
    await api.make("plains", {"spec": {"a": 1}})
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("one"))
        await api.delete("plains/x")
    return [show_request(request) for request in hooks.requests]


@area.behaviour("What a webhook is told on deletion of a collection", local=True)
async def collection_request(api: Api) -> Any:
    for name in ("a", "b"):
        await api.make("plains", name=name)
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("one"))
        await api.delete("plains")
    requests = [[r["operation"], r.get("name"), "oldObject" in r] for r in hooks.requests]
    return sorted(requests)


@area.behaviour("What a webhook is told when a finalized object is marked and released", local=True)
async def release_request(api: Api) -> Any:
    await api.make("plains", {"metadata": {"finalizers": ["a.b/c"]}})
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("one"))
        await api.seen("plains/x", await api.delete("plains/x"))
        await api.patch("plains/x", {"metadata": {"finalizers": None}})
    return [
        [r["operation"], (r["object"] or {}).get("metadata", {}).get("finalizers")]
        for r in hooks.requests
    ]


@area.behaviour("What a webhook is told about a generated name", local=True)
async def generated_name(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("one"))
        await hooks.configure("mutating", hooks.hook("two"))
        hooks.calls.clear()
        body = {**plain(), "metadata": {"generateName": "some-"}}
        await api.create("plains", body)
    told = [[r.get("name", ABSENT), r["object"]["metadata"]] for r in hooks.requests]
    return [[name == ABSENT, len(metadata.get("name", ""))] for name, metadata in told]


@area.behaviour("Subresources are only for the webhooks that ask for them", local=True)
async def subresources(api: Api) -> Any:
    await api.make("stricts")
    async with serve_hooks(api) as hooks:
        main = hooks.hook("main", rule={"resources": ["stricts"]})
        status = hooks.hook("status", rule={"resources": ["stricts/status"]})
        every = hooks.hook("every", rule={"resources": ["stricts/*"]})
        await hooks.configure("validating", main, status, every)
        status_patch = await api.patch("stricts/x/status", {"status": {"phase": "P"}})
        await api.seen("stricts/x", status_patch)
        told = sorted([name, r["request"].get("subResource", ABSENT)] for name, r in hooks.calls)
        hooks.calls.clear()
        await api.patch("stricts/x", {"spec": {"text": "a"}})
    return [told, sorted(hooks.names)]


@area.behaviour("Only the requested operations are told", local=True)
async def operations(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        each = [hooks.hook(o.lower(), rule={"operations": [o]}) for o in ("CREATE", "DELETE")]
        await hooks.configure("validating", *each)
        await api.seen("plains/x", await api.create("plains", plain()))
        await api.seen("plains/x", await api.patch("plains/x", {"spec": {}}))
        await api.delete("plains/x")
    return hooks.names


@area.behaviour("Only the resources of the requested groups, versions, and scopes", local=True)
async def rules(api: Api) -> Any:
    rules: dict[str, dict[str, Any]] = {
        "group": {"apiGroups": ["other.dev"]},
        "version": {"apiVersions": ["v2"]},
        "scope": {"scope": "Cluster"},
        "namespaced": {"scope": "Namespaced"},
        "wildcards": {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]},
        "subresources": {"resources": ["*/*"]},
    }
    async with serve_hooks(api) as hooks:
        each = [hooks.hook(name, rule=rule) for name, rule in rules.items()]
        await hooks.configure("validating", *each)
        hooks.calls.clear()
        await api.create("plains", plain())
    return sorted(hooks.names)


@area.behaviour("Only the objects with the requested labels, now or before", local=True)
async def object_selector(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        selector = {"matchLabels": {"on": "yes"}}
        await hooks.configure("validating", hooks.hook("one", objectSelector=selector))
        counts = []
        await api.seen("plains/x", await api.create("plains", plain()))
        for value in ("yes", "no", "other"):
            counts.append(len(hooks.calls))
            change = {"metadata": {"labels": {"on": value}}}
            await api.seen("plains/x", await api.patch("plains/x", change))
        counts.append(len(hooks.calls))
    return counts


@area.behaviour("Conditions of webhooks (CEL) are checked", local=True)
async def conditions(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        condition = {"name": "named", "expression": "object.metadata.name == 'y'"}
        await hooks.configure("validating", hooks.hook("one", matchConditions=[condition]))
        for name in ("x", "y"):
            await api.create("plains", plain(name))
    return [request["name"] for request in hooks.requests]


@area.behaviour("A dry run is told, and is not persisted", local=True)
async def dry_run(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        await hooks.configure("mutating", hooks.hook("one", patching(ADD)))
        reply = await api.create("plains", plain(spec={}), dryRun="All")
    told = [[r["dryRun"], r["options"]] for r in hooks.requests]
    return [reply.show("spec"), told, (await api.get("plains/x")).code]


@area.behaviour("A denied change leaves the object as it is, with no events", local=True)
async def denied_change(api: Api) -> Any:
    old = await api.make("plains", {"spec": {"a": 1}})
    async with serve_hooks(api) as hooks:
        await hooks.configure("validating", hooks.hook("one", denying(message="No")))
        async with api.watch("plains", resourceVersion=old.version) as watch:
            patched = await api.patch("plains/x", {"spec": {"a": 2}})
            deleted = await api.delete("plains/x")
            hooks.answers["one"] = {"allowed": True}
            await api.make("plains", name="marker")
            events = await watch.until("ADDED", "marker")
    return [patched.code, deleted.show(), brief(events)]


@area.behaviour("A mutation is seen in the events", local=True)
async def mutation_events(api: Api) -> Any:
    old = await api.make("plains", {"spec": {}})
    async with serve_hooks(api) as hooks:
        await hooks.configure("mutating", hooks.hook("one", patching(ADD)))
        async with api.watch("plains", resourceVersion=old.version) as watch:
            await api.patch("plains/x", {"metadata": {"labels": {"a": "b"}}})
            return brief(await watch.until("MODIFIED"), "spec", "metadata.generation")


@area.behaviour("The defaults of configurations are filled in", local=True)
async def defaults(api: Api) -> Any:
    shown = []
    async with serve_hooks(api) as hooks:
        for type in ("mutating", "validating"):
            hook = hooks.hook("one")
            del hook["namespaceSelector"]
            hook["rules"][0] |= {"apiGroups": ["absent.dev"]}
            await hooks.configure(type, hook)
            reply = await api.get(hooks.paths[-1])
            keep = ["failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy"]
            keep += ["namespaceSelector", "objectSelector", "sideEffects"]
            created = reply["webhooks.0"]
            shown.append({key: created.get(key, ABSENT) for key in keep})
            shown.append(created["rules"])
    return shown


@area.behaviour("Wrong configurations are refused", local=True)
async def wrong_configurations(api: Api) -> Any:
    async with serve_hooks(api) as hooks:
        good = hooks.hook("one")
        wrongs: list[dict[str, Any]] = [
            {**good, "sideEffects": "Some"},
            {key: value for key, value in good.items() if key != "sideEffects"},
            {**good, "admissionReviewVersions": []},
            {**good, "admissionReviewVersions": ["v7"]},
            {**good, "name": "one"},
            {**good, "timeoutSeconds": 31},
            {**good, "failurePolicy": "Odd"},
            {**good, "clientConfig": {"url": "http://127.0.0.1/"}},
            {**good, "clientConfig": {}},
            {**good, "rules": [{**good["rules"][0], "operations": ["ODD"]}]},
            *({**good, "clientConfig": {"service": {"name": "x", "namespace": "y", "path": p}}}
              for p in ("/snake_case", "/a//B", "a")),
        ]  # fmt: skip
        path = "validatingwebhookconfigurations"
        name = {"metadata": {"name": api.namespace}}
        replies = [await api.create(path, {**name, "webhooks": [wrong]}) for wrong in wrongs]
    return [[r.code, [[c["field"], c["reason"]] for c in r["details.causes"]]] for r in replies]
