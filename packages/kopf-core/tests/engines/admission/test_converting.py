"""From a conversion review to the functions, and to the response."""

import asyncio
import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pydantic
import pytest

from kopf_cogs.helpers.callbacks import exit_listener
from kopf_cogs.structs.definitions import resource
from kopf_cogs.structs.markers import Name
from kopf_cogs.structs.reviews import ReviewError, UnknownWebhookError
from kopf_core.engines.admission.conversion_keeping import build_conversion, is_kept
from kopf_core.engines.admission.converting import Converter
from kopf_core.engines.admission.reviewing import Reviewer
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry

KIND = "websites.example.com"


@dataclasses.dataclass
class OldSpec:
    size: int


@dataclasses.dataclass
class NewSpec:
    replicas: int


@resource("websites.example.com/v1beta1", kind="Website")
@dataclasses.dataclass
class OldWebsite:
    spec: OldSpec


@resource("websites.example.com/v1", kind="Website")
@dataclasses.dataclass
class NewWebsite:
    spec: NewSpec


@pytest.fixture
def registry():
    return OperatorRegistry()


@pytest.fixture
def convert(registry):
    """Ask for a conversion of some objects, as API servers do."""
    threads = ThreadPoolExecutor(20)

    async def convert(wanted, *objects, kind=KIND):
        converter = Converter(registry.conversions, threads)
        request = {"uid": "u1", "desiredAPIVersion": f"example.com/{wanted}", "objects": objects}
        review = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": request | {"objects": [*objects]},
        }
        answer = await converter(review, f"convert/{kind}")
        assert (answer["kind"], answer["apiVersion"]) == ("ConversionReview", review["apiVersion"])
        assert answer["response"]["uid"] == "u1"
        return answer["response"]

    yield convert
    threads.shutdown()


def website(version="v1beta1", name="web", **fields):
    meta = {"name": name, "namespace": "ns", "uid": "u", "labels": {"a": "b"}}
    return {
        "apiVersion": f"example.com/{version}", "kind": "Website", "metadata": meta, **fields
    }  # fmt: skip


async def test_n8_bodies_are_changed_in_place(registry, convert):
    @on.convert("v1beta1", "v1", kind=KIND, registry=registry)
    def up(spec, labels, **_):
        spec["replicas"] = spec.pop("size")
        labels["c"] = "d"

    original = website(spec={"size": 1, "other": 2})
    response = await convert("v1", original)
    assert response["result"] == {"status": "Success"}
    [converted] = response["convertedObjects"]
    assert converted["apiVersion"] == "example.com/v1"
    assert converted["spec"] == {"replicas": 1, "other": 2}
    assert converted["metadata"] == website()["metadata"] | {"labels": {"a": "b", "c": "d"}}
    assert "status" not in converted
    assert original == website(spec={"size": 1, "other": 2})


async def test_n8_models_are_converted(registry, convert):
    @on.convert(OldWebsite, NewWebsite, registry=registry)
    def up(body: OldWebsite, **_) -> NewWebsite:
        return NewWebsite(NewSpec(body.spec.size))

    response = await convert("v1", website(spec={"size": 1}, status={"x": "y"}))
    [converted] = response["convertedObjects"]
    assert converted == website("v1", spec={"replicas": 1}, status={"x": "y"})


async def test_q_annotations_are_changed_beside_a_returned_model(registry, convert):
    @on.convert(OldWebsite, NewWebsite, registry=registry)
    def up(body: OldWebsite, labels, annotations, **_) -> NewWebsite:
        labels.pop("a")
        annotations["example.com/size"] = str(body.spec.size)
        return NewWebsite(NewSpec(body.spec.size))

    [converted] = (await convert("v1", website(spec={"size": 1})))["convertedObjects"]
    annotations = {"example.com/size": "1"}
    assert converted["metadata"] == {
        "name": "web", "namespace": "ns", "uid": "u", "annotations": annotations
    }  # fmt: skip


async def test_n_labels_and_annotations_are_removed_as_a_whole(registry, convert):
    @on.convert("v1beta1", "v1", kind=KIND, registry=registry)
    def up(body, **_):
        del body["metadata"]["labels"], body["metadata"]["annotations"]

    [converted] = (await convert("v1", website(spec={"size": 1})))["convertedObjects"]
    assert converted["metadata"] == {"name": "web", "namespace": "ns", "uid": "u"}


NULLABLE = {"tier": str | None, "labels": dict[str, str | None], "free": dict[str, Any]}


def declare_pydantic():
    part = pydantic.create_model("Part", a=(int | None, ...))
    fields = {name: (hint, ...) for name, hint in NULLABLE.items()}
    note = (str | None, pydantic.Field(None, alias="theNote"))
    spec = pydantic.create_model("Spec", **fields, note=note, parts=(list[part], []))
    return lambda: pydantic.create_model("Website", spec=(spec, ...))


def declare_dataclass():
    part = dataclasses.make_dataclass("Part", [("a", int | None)])
    note = ("note", Annotated[str | None, Name("theNote")], None)
    parts = ("parts", list[part], dataclasses.field(default_factory=list))
    spec = dataclasses.make_dataclass("Spec", [*NULLABLE.items(), note, parts])
    return lambda: dataclasses.make_dataclass("Website", [("spec", spec)])


@pytest.mark.parametrize("declare", [declare_dataclass, declare_pydantic])
async def test_n_nulls_of_users_are_not_lost_by_models(registry, convert, declare):
    make = declare()
    old, new = (resource(f"{KIND}/{v}", kind="Website")(make()) for v in ("v1beta1", "v1"))

    def upgrade(body, **_):
        return new(spec=body.spec)

    upgrade.__annotations__["body"] = old
    on.convert(old, new, registry=registry)(upgrade)
    spec = {
        "tier": None,
        "labels": {"a": None, "b": "c"},
        "free": {"x": None, "y": [None, {"z": None}]},
        "parts": [{"a": None}, {"a": 1}],
    }
    response = await convert("v1", website(spec=spec))
    assert response["result"] == {"status": "Success"}
    assert response["convertedObjects"][0]["spec"] == spec


async def test_n8_the_kind_is_known_from_the_annotations(registry, convert):
    @on.convert("v1beta1", "v1", registry=registry)
    def up(body: OldWebsite, **_) -> NewWebsite:
        return NewWebsite(NewSpec(body.spec.size))

    [handler] = registry.conversions
    assert (handler.kind, handler.source, handler.target) == (KIND, "v1beta1", "v1")


async def test_n8_bodies_are_returned_by_async_functions(registry, convert):
    @on.convert("v1beta1", "v1", kind=KIND, registry=registry)
    async def up(body, name, source, target, param, **_):
        return {"metadata": {"name": "another"}, "spec": {"x": f"{name} {source} {target} {param}"}}

    response = await convert("v1", website(spec={"size": 1}), website(name="b"))
    first, second = response["convertedObjects"]
    assert first == website("v1", spec={"x": "web v1beta1 v1 None"})
    assert second["metadata"]["name"] == "b"


async def test_n8_chains_go_through_the_version_in_between(registry, convert):
    for source, target in [("v1alpha1", "v1beta1"), ("v1beta1", "v1"), ("v1", "v1beta1")]:

        @on.convert(source, target, kind=KIND, registry=registry)
        def fn(spec, source, target, **_):
            spec["way"] = [*spec.get("way", []), f"{source}-{target}"]

    response = await convert("v1", website("v1alpha1"))
    assert response["convertedObjects"][0]["spec"]["way"] == ["v1alpha1-v1beta1", "v1beta1-v1"]
    response = await convert("v1alpha1", website("v1"))
    assert response["result"] == {
        "status": "Failed",
        "message": "Website ns/web of example.com/v1 cannot be converted to "
        "example.com/v1alpha1: no functions do that.",
    }


async def test_n8_failures_are_explained(registry, convert, caplog):
    @on.convert("v1beta1", "v1", kind=KIND, registry=registry, id="up")
    def up(body: OldWebsite, name, **_):
        raise ValueError("boo!")

    text = "Website ns/web of example.com/v1beta1 could not be converted from v1beta1 to v1 by 'up'"
    response = await convert("v1", website(spec={"size": 1}))
    assert response["result"] == {"status": "Failed", "message": f"{text}: ValueError: boo!"}
    assert caplog.messages == [response["result"]["message"]]
    response = await convert("v1", website(spec={}))
    message = response["result"]["message"]
    assert message.endswith("InvalidObjectError: The object is invalid: spec.size: is required")


@pytest.mark.parametrize("part", [{"replicas": 1}, {}])
async def test_conv2_a_returned_part_of_the_object_is_refused(registry, convert, part):
    """If the spec alone was taken for the object, all other fields would be lost."""

    @on.convert("v1beta1", "v1", kind=KIND, registry=registry, id="up")
    def up(**_):
        return part

    response = await convert("v1", website(spec={"size": 1}))
    assert response["result"]["status"] == "Failed"
    assert f"it has returned no field of an object: {[*part]}" in response["result"]["message"]


@pytest.mark.parametrize("value", [object(), float("nan")])
async def test_n8_functions_whose_objects_are_no_json_are_named(registry, convert, value):
    @on.convert("v1beta1", "v1", kind=KIND, registry=registry, id="up")
    def up(spec, name, **_):
        spec["value"] = value if name == "bad" else 1

    response = await convert("v1", website(spec={}), website(name="bad", spec={}))
    assert response["result"]["status"] == "Failed"
    assert response["result"]["message"].startswith("Website ns/bad of example.com/v1beta1 could ")
    assert "from v1beta1 to v1 by 'up': " in response["result"]["message"]


@pytest.fixture
async def expire(monkeypatch):
    """Let the latest timeout expire, also from threads; by themselves, timeouts never do."""
    loop, original = asyncio.get_running_loop(), asyncio.timeout
    scopes = []

    def make_timeout(_delay):
        scopes.append(original(None))
        return scopes[-1]

    monkeypatch.setattr(asyncio, "timeout", make_timeout)
    return lambda: loop.call_soon_threadsafe(scopes[-1].reschedule, 0.0)


@pytest.mark.parametrize("is_async", [True, False])
async def test_n8_functions_that_hang_are_named(registry, convert, caplog, expire, is_async):
    """API servers give up in silence: they name neither the function nor the object."""
    release = threading.Event()

    def hang(name, **_):
        if name == "bad":
            expire()
            release.wait()

    async def hang_async(name, **_):
        if name == "bad":
            expire()
            await asyncio.Event().wait()

    fn = hang_async if is_async else hang
    on.convert("v1beta1", "v1", kind=KIND, registry=registry, id="up")(fn)
    objects = [website(spec={}), website(name="bad", spec={})]
    response = await convert("v1", *objects)
    release.set()
    assert response["result"]["status"] == "Failed"
    assert response["result"]["message"] == (
        "Website ns/bad of example.com/v1beta1 could not be converted from v1beta1 to v1 "
        "by 'up': it has not ended in 25 seconds"
    )
    assert caplog.messages == [response["result"]["message"]]


async def test_n8_ten_at_once(registry, convert):
    barrier = threading.Barrier(10)

    @on.convert("v1beta1", "v1", kind=KIND, registry=registry)
    def up(**_):
        barrier.wait(timeout=30)

    responses = await asyncio.gather(*(convert("v1", website(name=f"w{i}")) for i in range(10)))
    names = [response["convertedObjects"][0]["metadata"]["name"] for response in responses]
    assert names == [f"w{i}" for i in range(10)]


@pytest.mark.parametrize("is_async", [False, True])
async def test_n8_k39_conversions_can_ask_to_exit(registry, convert, is_async):
    def up(**_):
        raise SystemExit(7)

    async def up_async(**_):
        raise SystemExit(7)

    fn = up_async if is_async else up
    on.convert("v1beta1", "v1", id="up", kind=KIND, registry=registry)(fn)
    wishes = []
    token = exit_listener.set(wishes.append)
    try:
        response = await convert("v1", website())
    finally:
        exit_listener.reset(token)
    assert response["result"]["status"] == "Failed"
    assert [wish.code for wish in wishes] == [7]


def make_request(**fields):
    return {"request": {"uid": "u", "objects": [], "desiredAPIVersion": "example.com/v1"} | fields}


@pytest.mark.parametrize(
    "review",
    [
        {},
        {"request": 1},
        {"request": {"objects": 1}},
        {"request": {"objects": [1]}},
        make_request(objects=[website() | {"metadata": 5}]),
        make_request(objects=[website(name=5)]),
        make_request(desiredAPIVersion=1),
        make_request(uid=float("inf")),
        make_request() | {"apiVersion": 1},
    ],
)
async def test_n8_nonsense_is_refused(registry, review):
    @on.convert("v1beta1", "v1", kind=KIND, registry=registry)
    def up(**_):
        pass

    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(ReviewError):
            await Converter(registry.conversions, threads)(review, f"convert/{KIND}")
        with pytest.raises(UnknownWebhookError):
            await Converter(registry.conversions, threads)(review, "convert/others.example.com")


async def test_n8_conversions_do_not_wait_until_admission_is_ready(registry, make_reviewer):
    @on.convert("v1beta1", "v1", kind=KIND, registry=registry)
    def up(**_):
        pass

    reviewer: Reviewer = make_reviewer(is_serving=False)
    with ThreadPoolExecutor(1) as threads:
        reviewer._converter = Converter(registry.conversions, threads)
        request = {"uid": "u", "desiredAPIVersion": "example.com/v1", "objects": []}
        review = {"kind": "ConversionReview", "request": request}
        answer = await reviewer(review, webhook=f"convert/{KIND}")
    assert answer["response"]["result"]["status"] == "Success"


@pytest.mark.parametrize("kind", [None, "websites"])
def test_n8_the_kind_must_be_known(registry, kind):
    with pytest.raises(TypeError, match="It is not clear which kind"):
        on.convert("v1beta1", "v1", kind=kind, registry=registry)(lambda **_: None)


def test_n8_addresses_are_compared_with_what_is_known():
    service = {"name": "s", "namespace": "n"}
    wanted = build_conversion({"service": service, "caBundle": "x"}, KIND)
    client = wanted["webhook"]["clientConfig"]
    assert client == {
        "url": None,
        "caBundle": "x",
        "service": service | {"path": f"/convert/{KIND}"},
    }
    known = {"url": None, "caBundle": "x", "service": client["service"] | {"port": 443}}
    assert is_kept(
        {"strategy": "Webhook", "webhook": wanted["webhook"] | {"clientConfig": known}}, wanted
    )
    assert not is_kept({"strategy": "None"}, wanted)
    assert not is_kept(None, wanted)
