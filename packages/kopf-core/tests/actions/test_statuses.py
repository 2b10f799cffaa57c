"""Statuses: what of them goes to the patch."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.context import Invocation, invocation_var
from kopf_core.actions.flushing import flush
from kopf_core.actions.statuses import update_status


@dataclasses.dataclass(frozen=True)
class Status:
    count: int
    name: str | None = None


@pytest.fixture
def cause() -> Any:
    """A daemon of an object; its changes are sent at once, and others change the object, too."""

    async def send() -> None:
        cause.patch.clear()
        cause.body = Body({"status": {"count": 2}})

    cause: Any = SimpleNamespace(body=Body({"status": {"count": 0}}), patch=Patch())
    nothing: Any = None
    token = invocation_var.set(Invocation(nothing, cause, nothing, flush=send))
    yield cause
    invocation_var.reset(token)


async def test_q_sent_statuses_are_said_again_if_others_have_changed_them(cause: Any) -> None:
    update_status({"count": 1})
    assert cause.patch == {"status": {"count": 1}}
    await flush()
    cause.patch.status["other"] = 3
    update_status({"count": 1})
    assert cause.patch == {"status": {"count": 1, "other": 3}}


async def test_q_what_is_said_by_name_wins(cause: Any) -> None:
    cause.patch.status["count"] = 5
    update_status({"count": 0, "other": 1})
    assert cause.patch == {"status": {"count": 0, "other": 1}}


async def test_q_what_a_model_leaves_as_it_was_is_not_taken_back(cause: Any) -> None:
    update_status({"other": 1})
    cause.patch.status["count"] = 5
    update_status(Status(count=0, name="x"))
    assert cause.patch == {"status": {"count": 5, "other": 1, "name": "x"}}


async def test_q_sent_models_are_compared_with_the_object(cause: Any) -> None:
    update_status(Status(count=1))
    await flush()
    cause.patch.status["other"] = 3
    update_status(Status(count=1))
    assert cause.patch == {"status": {"count": 1, "other": 3}}
