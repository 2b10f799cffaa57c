"""What is noticed by the helper for round trips, and what is not held against the functions."""

import dataclasses
import datetime
import enum
from typing import Annotated, Any, Literal

import pydantic
import pytest

from kopf_cogs.structs.definitions import resource
from kopf_core.intents import decorators as on
from kopf_core.intents.registries import OperatorRegistry
from kopf_kits.round_trips import check_round_trips


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclasses.dataclass
class OldSpec:
    size: int
    mode: Mode = Mode.FAST
    pages: list[str] = dataclasses.field(default_factory=list)
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    since: datetime.datetime | None = None


@resource("websites.example.com/v1beta1", kind="Website", storage=True)
@dataclasses.dataclass
class OldWebsite:
    spec: OldSpec


class NewSpec(pydantic.BaseModel):
    replicas: int
    mode: Literal["FAST", "SLOW"] = "FAST"
    pages: list[str] = []
    labels: dict[str, str] = {}
    since: datetime.datetime | None = None


@resource("websites.example.com/v1", kind="Website")
class NewWebsite(pydantic.BaseModel):
    spec: NewSpec


@resource("websites.example.com/v2", kind="Website")
class Patterned(pydantic.BaseModel):
    spec: dict[str, Annotated[str, pydantic.Field(pattern="^x{5}$")]] = pydantic.Field(min_length=1)


def make_registry(**lost: Any) -> OperatorRegistry:
    registry = OperatorRegistry()

    @on.convert(OldWebsite, NewWebsite, registry=registry)
    def up(spec: Any, **_: Any) -> None:
        spec["replicas"] = spec.pop("size")
        if "mode" in spec:
            spec["mode"] = spec["mode"].upper()
        spec.update(lost)

    @on.convert(NewWebsite, OldWebsite, registry=registry)
    async def down(body: NewWebsite, **_: Any) -> OldWebsite:
        spec = body.spec
        mode = Mode(spec.mode.lower())
        return OldWebsite(OldSpec(spec.replicas, mode, spec.pages, spec.labels, spec.since))

    return registry


def test_n8_what_comes_back_is_fine() -> None:
    check_round_trips(OldWebsite, NewWebsite, registry=make_registry())


async def test_n8_it_works_in_async_tests() -> None:
    check_round_trips(OldWebsite, NewWebsite, count=5, registry=make_registry())


def test_n8_losses_are_noticed() -> None:
    with pytest.raises(AssertionError, match=r"lost on the way from v1beta1 to v1 and back"):
        check_round_trips(OldWebsite, NewWebsite, registry=make_registry(pages=[]))


def test_n8_invalid_objects_in_between_are_noticed() -> None:
    with pytest.raises(AssertionError, match=r"it is invalid in v1: spec.pages"):
        check_round_trips(OldWebsite, NewWebsite, registry=make_registry(pages=5))


def test_n8_absent_functions_are_noticed() -> None:
    registry = OperatorRegistry()
    on.convert(OldWebsite, NewWebsite, registry=registry)(lambda **_: None)
    with pytest.raises(AssertionError, match="no functions do that"):
        check_round_trips(NewWebsite, OldWebsite, registry=registry)


def test_n8_samples_are_enough_where_values_cannot_be_made() -> None:
    registry = OperatorRegistry()

    @on.convert("v2", "v1", kind="websites.example.com", registry=registry)
    def down(body: Any, **_: Any) -> Any:
        return {**body, "spec": {"replicas": 1, "labels": body["spec"]}}

    @on.convert("v1", "v2", kind="websites.example.com", registry=registry)
    def up(body: Any, **_: Any) -> Any:
        return {**body, "spec": body["spec"]["labels"]}

    with pytest.raises(ValueError, match=r"There are no random objects of websites.example.com/v2"):
        check_round_trips(Patterned, NewWebsite, registry=registry)
    new = {"apiVersion": "example.com/v1", "spec": {"replicas": 1, "labels": {"a": "xxxxx"}}}
    old = {"apiVersion": "example.com/v2", "spec": {"a": "xxxxx"}}
    check_round_trips(Patterned, NewWebsite, samples=[new, old], count=0, registry=registry)


def test_n8_other_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two versions"):
        check_round_trips(OldWebsite)
    with pytest.raises(ValueError, match="is not a model"):
        check_round_trips(OldWebsite, int)
