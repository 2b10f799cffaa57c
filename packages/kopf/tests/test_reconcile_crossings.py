"""``@kopf.reconcile`` where several things of ordinary life come together."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import kopf

from .conftest import make_crd

PROGRESS = "metadata.annotations['kopf.zalando.org/fn']"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def far_namespace() -> dict[str, Any]:
    """An object out of reach of garbage collection."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}}


def is_ready(message: str) -> Any:
    def check(obj: Any) -> bool:
        conditions = obj.get("status", {}).get("conditions", [])
        return any(c["message"] == message for c in conditions)

    return check


def is_over(obj: Any) -> bool:
    """The pass has come to an end, be it good or bad."""
    return is_ready("done")(obj) or bool(obj["metadata"].get("annotations"))


async def test_h2_namespaces_of_cluster_scoped_objects_are_ignored(websites: Any) -> None:
    """The API server drops them; manifests rendered by Helm or Kustomize often have them."""

    @websites.reconcile(id="fn", owns=["clusterroles.rbac.authorization.k8s.io"])
    def fn(conditions: Any, **_: Any) -> Iterator[Any]:
        yield {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "role", "namespace": "ns1"},
            "rules": [],
        }
        conditions.set("Ready", True, message="done")

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("done"))
    assert "DELETE role" not in websites.writes()
    assert websites.writes().count("PATCH role") == 1


@pytest.mark.parametrize(
    ("kind", "path", "wanted"),
    [
        pytest.param("configmaps", "*/configmaps/shared", config_map("shared"), id="near"),
        pytest.param("namespaces", "/api/v1/namespaces/far", far_namespace(), id="far"),
    ],
)
async def test_h2_objects_wanted_by_two_owners_at_once_belong_to_one(
    websites: Any, kind: str, path: str, wanted: Any
) -> None:
    """Both passes begin when there is no object yet, e.g. as the operator has started."""
    begun = {name: asyncio.Event() for name in ("first", "second")}

    @websites.reconcile(id="fn", owns=["configmaps", "namespaces"])
    async def fn(name: str, spec: Any, conditions: Any, **_: Any) -> AsyncIterator[Any]:
        yield {**far_namespace(), "metadata": {"name": name}}  # the finalizer is there since then
        if name in begun:
            begun[name].set()
            yield wanted
        conditions.set("Ready", True, message="done")

    with websites.sandbox.faults.hang(method="PATCH", path=path) as fault:
        async with websites.operating():
            for name in begun:
                await websites.apply(name)
            for name in begun:
                await begun[name].wait()
            await websites.apply("third")
            await websites.wait(websites.kind, "third", check=is_ready("done"))
            fault.release()
            owners = [await websites.wait(websites.kind, name, check=is_over) for name in begun]
            assert [is_ready("done")(owner) for owner in owners].count(True) == 1


async def test_h2_namespaces_that_cannot_be_listed_hold_up_no_other_ones(websites: Any) -> None:
    """A new namespace is served by its pattern, but there are no rights in it, or not yet."""

    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("child", x=str(spec["x"]))
        conditions.set("Ready", True, message="done" if spec["x"] > 1 else "begun")

    await websites.apply(x=1)
    path = "/api/v1/namespaces/ns3/configmaps"
    with websites.sandbox.faults.fail(403, method="GET", path=path) as fault:
        async with websites.operating(clusterwide=False, namespaces=["ns*"]):
            await websites.wait(websites.kind, "web", check=is_ready("begun"))
            await websites.sandbox.apply({**far_namespace(), "metadata": {"name": "ns3"}})
            await websites.sandbox.journal.arrived("GET", path)
            await websites.patch(x=2)
            owner = await websites.wait(websites.kind, "web", check=is_over)
    assert fault.hits
    assert is_ready("done")(owner)


async def test_h2_undiscovered_kinds_hold_the_deletion(websites: Any) -> None:
    """Their API group is broken when the operator starts: nobody knows what is there."""
    gadgets = make_crd("gadgets", "Gadget")
    gadgets["metadata"]["name"], gadgets["spec"]["group"] = "gadgets.other.com", "other.com"
    await websites.sandbox.apply(gadgets)

    @websites.reconcile(id="fn", owns=["gadgets.other.com"])
    def fn(conditions: Any, **_: Any) -> Iterator[Any]:
        metadata = {"name": "far", "namespace": "ns2"}
        yield {"apiVersion": "other.com/v1", "kind": "Gadget", "metadata": metadata, "spec": {}}
        conditions.set("Ready", True, message="done")

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("done"))
    await websites.sandbox.delete(websites.kind, "web", namespace="ns1")
    with websites.sandbox.faults.fail(503, method="GET", path="/apis/other.com/v1"):
        async with websites.operating():
            await websites.apply("other")
            await websites.wait(websites.kind, "other", jsonpath=PROGRESS)
    assert await websites.names("gadgets.other.com", "ns2") == ["far"]
    assert "web" in await websites.names(websites.kind)
    async with websites.operating():
        await websites.wait(websites.kind, "web", gone=True)
    assert await websites.names("gadgets.other.com", "ns2") == []


async def test_h2_objects_that_could_not_be_looked_at_are_still_wanted(websites: Any) -> None:
    """The errors of what is yielded can be caught: it is wanted nevertheless."""
    gadgets = make_crd("gadgets", "Gadget")
    gadgets["metadata"]["name"], gadgets["spec"]["group"] = "gadgets.other.com", "other.com"
    await websites.sandbox.apply(gadgets)
    errors: list[Exception] = []

    @websites.reconcile(id="fn", owns=["gadgets.other.com"])
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        metadata = {"name": "gadget"}
        try:
            yield {"apiVersion": "other.com/v1", "kind": "Gadget", "metadata": metadata}
        except kopf.api.APIError as e:
            errors.append(e)
        conditions.set("Ready", True, message="done" if spec["x"] > 1 else "begun")

    await websites.apply(x=1)
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("begun"))
    await websites.patch(x=2)
    # The first one is of the operator itself; the second one is of the pass.
    with websites.sandbox.faults.fail(500, method="GET", path="/apis/other.com/v1", skip=1):
        async with websites.operating():
            await websites.wait(websites.kind, "web", check=is_ready("done"))
    assert errors
    assert "DELETE gadget" not in websites.writes()


async def test_h2_labels_of_users_do_not_hide_what_is_not_wanted_anymore(websites: Any) -> None:
    """Manifests often have that label already, e.g. those that were made of Helm charts."""

    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        for name in spec["names"]:
            wanted = config_map(name)
            wanted["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "website-operator"}
            yield wanted
        conditions.set("Ready", True, message=",".join(spec["names"]))

    await websites.apply(names=["a", "b"])
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("a,b"))
        await websites.patch(names=["b"])
        await websites.wait(websites.kind, "web", check=is_ready("b"))
    assert await websites.names() == ["b"]


async def test_h2_kinds_of_the_same_name_are_not_mixed_up(websites: Any) -> None:
    """As the services of Kubernetes and of Knative: they usually have the same names, too."""
    await websites.sandbox.apply(make_crd("maps", "ConfigMap"))

    @websites.reconcile(id="fn", owns=["configmaps.v1", "maps.example.com"])
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("same")
        if spec["both"]:
            yield {**config_map("same"), "apiVersion": "example.com/v1"}
        conditions.set("Ready", True, message="both" if spec["both"] else "one")

    await websites.apply(both=True)
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("both"))
        await websites.patch(both=False)
        await websites.wait(websites.kind, "web", check=is_ready("one"))
    assert await websites.names("maps.example.com") == []
    assert await websites.names() == ["same"]


async def test_h2_other_handlers_of_the_same_function_keep_their_own_progress(
    websites: Any,
) -> None:
    """Decorators are often put on one function; so, all of them have the same id."""
    attempts: list[int] = []

    @websites.reconcile(id="fn")
    @kopf.on.create(websites.kind, id="fn", registry=websites.registry)
    def fn(retry: int, reason: str | None = None, **_: Any) -> None:
        if reason is not None:
            attempts.append(retry)
            if retry < 3:
                raise kopf.TemporaryError("Not yet.", delay=0.01)

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=lambda _: attempts[-1:] == [3])
    assert attempts == [0, 1, 2, 3]


@pytest.mark.parametrize("is_ours", [True, False], ids=["timer", "foreign"])
async def test_h2_conditions_set_amid_a_pass_are_not_lost(websites: Any, is_ours: bool) -> None:
    """Conditions are set by many: by other handlers of the object, by other controllers."""
    begun, gate = asyncio.Event(), asyncio.Event()

    @websites.reconcile(id="fn")
    async def fn(conditions: Any, **_: Any) -> None:
        begun.set()
        await gate.wait()
        conditions.set("Ready", True, message="done")

    if is_ours:

        @kopf.timer(websites.kind, interval=3600, registry=websites.registry)
        async def tick(conditions: Any, **_: Any) -> None:
            await begun.wait()
            conditions.set("Other", True, message="begun")

    await websites.apply()
    async with websites.operating():
        await begun.wait()
        if not is_ours:
            theirs = {"type": "Other", "status": "True", "reason": "Other", "message": "begun"}
            await websites.sandbox.patch(
                websites.kind,
                "web",
                {"status": {"conditions": [theirs]}},
                namespace="ns1",
                subresource="status",
            )
        await websites.wait(websites.kind, "web", check=is_ready("begun"))
        gate.set()
        owner = await websites.wait(websites.kind, "web", check=is_ready("done"))
    assert {c["type"] for c in owner["status"]["conditions"]} == {"Other", "Ready"}


@pytest.mark.parametrize(
    ("namespace", "field"),
    [
        pytest.param("ns1", "ownerReferences", id="near"),
        pytest.param("ns2", "annotations", id="far"),
    ],
)
async def test_h2_children_taken_out_of_the_family_are_taken_back(
    websites: Any, namespace: str, field: str
) -> None:
    """Otherwise, nobody deletes them when they are not wanted, or when the owner is gone.

    It must be noticed, though the changed object names no owner anymore.
    """

    @websites.reconcile(id="fn")
    def fn(conditions: Any, **_: Any) -> Iterator[Any]:
        child = config_map("child")
        child["metadata"]["namespace"] = namespace
        yield child
        conditions.set("Ready", True, message="done")

    def is_ours(child: Any) -> bool:
        return bool(child["metadata"].get(field))

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("done"))
        orphan = {"metadata": {field: None}}
        await websites.sandbox.patch("configmaps", "child", orphan, namespace=namespace)
        await websites.wait("configmaps", "child", namespace=namespace, check=is_ours)


async def test_h2_steady_states_cost_no_writes_without_the_subresource(websites: Any) -> None:
    """Each write of the status is a new generation there: no reason to write it once more."""
    crd = make_crd("websites", "Website")
    del crd["spec"]["versions"][0]["subresources"]
    await websites.sandbox.apply(crd)
    passes: list[str] = []

    @websites.reconcile(id="fn")
    def fn(name: str, conditions: Any, **_: Any) -> Iterator[Any]:
        passes.append(name)
        yield config_map(f"child-{name}")
        conditions.set("Ready", True, message="done")

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("done"))
    since = websites.now
    async with websites.operating():
        await websites.apply("other")
        await websites.wait(websites.kind, "other", check=is_ready("done"))
    assert passes.count("web") == 2
    assert "PATCH web" not in websites.writes(since)


async def test_h2_related_objects_are_listed_before_they_are_missed(websites: Any) -> None:
    """What is not known yet is not absent: the children would be deleted because of that.

    The API group of a related kind is broken at the start, and recovers later.
    """
    gadgets = make_crd("gadgets", "Gadget")
    gadgets["metadata"]["name"], gadgets["spec"]["group"] = "gadgets.other.com", "other.com"
    await websites.sandbox.apply(gadgets)
    gadget = {"apiVersion": "other.com/v1", "kind": "Gadget", "metadata": {"name": "gadget"}}
    await websites.sandbox.create(gadget, namespace="ns1")
    handled: dict[str, asyncio.Event] = {}

    @kopf.on.event(websites.kind, registry=websites.registry)
    async def see(name: str, **_: Any) -> None:
        handled.setdefault(name, asyncio.Event()).set()

    @websites.reconcile(
        id="fn", owns=["v1/configmaps"], related={"gadgets.other.com": "spec.gadget"}, backoff=0.01
    )
    async def fn(spec: Any, related: Any, conditions: Any, **_: Any) -> AsyncIterator[Any]:
        if spec["gadget"] in related["Gadget"]:
            yield config_map("child")
            conditions.set("Ready", True, message="done")

    await websites.apply(gadget="gadget")
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("done"))
    journal, faults, since = websites.sandbox.journal, websites.sandbox.faults, websites.now
    listing = "/apis/other.com/v1/gadgets"
    listings = [entry.path for entry in journal].count(listing)
    with faults.hang(method="GET", path=listing) as hanging:
        broken = faults.fail(503, method="GET", path="/apis/other.com")
        async with websites.operating():
            await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
            broken.release()
            await journal.arrived("GET", listing, count=listings + 1)
            handled.clear()
            for name in ("second", "third"):  # by then, everything earlier is handled
                await websites.apply(name, gadget="gadget")
                await handled.setdefault(name, asyncio.Event()).wait()
            hanging.release()
            await websites.wait("configmaps", "child")
    assert "DELETE child" not in websites.writes(since)


async def test_h2_copies_made_by_others_are_not_deleted(websites: Any) -> None:
    """People save a child as a file, change its name, and apply it: with all its marks."""

    @websites.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        yield config_map("child")
        conditions.set("Ready", True, message=str(spec["x"]))

    await websites.apply(x=1)
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("1"))
        child = await websites.sandbox.get("configmaps", "child", namespace="ns1")
        copy = config_map("copy")
        for field in ("labels", "annotations", "ownerReferences", "namespace"):
            copy["metadata"][field] = child["metadata"][field]
        await websites.sandbox.apply(copy)
        await websites.patch(x=2)
        await websites.wait(websites.kind, "web", check=is_ready("2"))
    assert await websites.names() == ["child", "copy"]


async def test_h2_what_functions_do_to_what_they_get_changes_nothing(websites: Any) -> None:
    """They get copies: otherwise, the child would look as if somebody else had changed it."""

    @websites.reconcile(id="fn", related={"secrets": "spec.secret"})
    def fn(spec: Any, children: Any, related: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        for child in [*children.all(), *related.all()]:
            child["data"].clear()
        live = yield config_map("child", x="1")
        live["data"]["x"] = "2"
        live["metadata"].clear()
        conditions.set("Ready", True, message=f"{spec['x']}")

    metadata = {"name": "secret", "namespace": "ns1"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"y": "eA=="}}
    await websites.sandbox.apply(secret)
    await websites.apply(x=1, secret="secret")
    async with websites.operating():
        for x in (1, 2, 3):
            await websites.patch(x=x)
            await websites.wait(websites.kind, "web", check=is_ready(f"{x}"))
    assert websites.writes().count("PATCH child") == 1
    assert (await websites.sandbox.get("configmaps", "child", namespace="ns1"))["data"] == {
        "x": "1"
    }


async def test_h2_statuses_of_manifests_are_not_wanted(websites: Any) -> None:
    """There is an empty one in manifests of many tools; but it is not the owner who sets it."""

    @websites.reconcile(id="fn", owns=["deployments"])
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        labels = {"app": "web"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "main"}]},
        }
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "child"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
            "status": {},
        }
        conditions.set("Ready", True, message=f"{spec['x']}")

    await websites.apply(x=1)
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("1"))
    await websites.sandbox.patch(
        "deployments",
        "child",
        {"status": {"replicas": 1}},
        namespace="ns1",
        subresource="status",
    )
    await websites.patch(x=2)
    since = websites.now
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("2"))
    assert "PATCH child" not in websites.writes(since)


async def test_h2_objects_that_leave_the_filters_take_no_attempts_with_them(websites: Any) -> None:
    """Otherwise, the count and the delay of long ago would come back with the label."""

    @websites.reconcile(id="fn", labels={"served": "yes"})
    def fn(**_: Any) -> None:
        raise kopf.TemporaryError("Not now.", delay=3600)

    await websites.apply()
    labels: dict[str, Any] = {"metadata": {"labels": {"served": "yes"}}}
    await websites.sandbox.patch(websites.kind, "web", labels, namespace="ns1")
    async with websites.operating():
        await websites.wait(websites.kind, "web", jsonpath=PROGRESS)
        labels = {"metadata": {"labels": None}}
        await websites.sandbox.patch(websites.kind, "web", labels, namespace="ns1")
        web = await websites.wait(
            websites.kind, "web", check=lambda web: not web["metadata"].get("annotations")
        )
    assert "labels" not in web["metadata"]


async def test_h2_cluster_scoped_objects_are_related_by_their_names(websites: Any) -> None:
    """As storage classes or issuers are: no namespace of the owner's is meant there."""

    @websites.reconcile(id="fn", related={"namespaces": "spec.target"})
    def fn(spec: Any, related: Any, conditions: Any, **_: Any) -> None:
        target = related["Namespace"].get(spec["target"])
        label = target["metadata"]["labels"]["x"] if target else "none"
        conditions.set("Ready", True, message=label)

    await websites.apply(target="far")
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("none"))
        for label in ("1", "2"):
            namespace = far_namespace()
            namespace["metadata"]["labels"] = {"x": label}
            await websites.sandbox.apply(namespace)
            await websites.wait(websites.kind, "web", check=is_ready(label))


async def test_h2_objects_that_are_not_related_anymore_are_told_of(websites: Any) -> None:
    """The new state names nobody, or somebody else; but the pass has used what was there."""

    @websites.reconcile(
        id="fn", related={"secrets": lambda secret: secret["metadata"]["labels"]["to"]}
    )
    def fn(related: Any, conditions: Any, **_: Any) -> None:
        conditions.set("Ready", True, message=",".join(related["Secret"]) or "none")

    metadata = {"name": "secret", "namespace": "ns1", "labels": {"to": "web"}}
    await websites.sandbox.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=is_ready("secret"))
        labels = {"metadata": {"labels": {"to": "other"}}}
        await websites.sandbox.patch("secrets", "secret", labels, namespace="ns1")
        await websites.wait(websites.kind, "web", check=is_ready("none"))


async def test_sim8_outcomes_of_handlers_do_not_wait_for_passes(websites: Any) -> None:
    """A pass can take long, and the handlers would be called again after a crash amid it."""
    released = asyncio.Event()
    registry = websites.registry

    @kopf.on.create(websites.kind, registry=registry)
    async def create(**_: Any) -> str:
        return "created"

    @websites.reconcile(id="fn")
    async def fn(conditions: Any, **_: Any) -> AsyncIterator[Any]:
        await released.wait()
        conditions.set("Ready", True, message="done")
        yield config_map("web-config")

    await websites.apply()
    async with websites.operating():
        await websites.wait(websites.kind, "web", check=lambda obj: "last-handled" in str(obj))
        released.set()
        await websites.wait(websites.kind, "web", check=is_ready("done"))
