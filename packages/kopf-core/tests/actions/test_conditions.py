"""Conditions: what changes, and what does not."""

import datetime
from typing import Any

import pytest

from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.conditions import Conditions

NOW = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
EARLIER = "2029-01-01T00:00:00Z"
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Rollout",
    "message": "2 of 2",
    "lastTransitionTime": EARLIER,
    "observedGeneration": 7,
}


def make(*items: Any, generation: int | None = 7, patch: Patch | None = None) -> Conditions:
    metadata = {} if generation is None else {"generation": generation}
    body = Body({"metadata": metadata, "status": {"conditions": [*items]}})
    return Conditions(body, Patch() if patch is None else patch, now=lambda: NOW)


def test_new_conditions_have_everything_that_servers_require() -> None:
    patch = Patch()
    conditions = make(patch=patch)
    conditions.set("Ready", False)
    assert patch == {
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "Ready",
                    "message": "",
                    "lastTransitionTime": "2030-01-02T03:04:05Z",
                    "observedGeneration": 7,
                }
            ]
        }
    }


def test_the_same_again_changes_nothing() -> None:
    patch = Patch()
    conditions = make(READY, patch=patch)
    conditions.set("Ready", True, reason="Rollout", message="2 of 2")
    assert patch == {}


def test_changes_that_are_reverted_are_no_changes() -> None:
    patch = Patch()
    conditions = make(READY, patch=patch)
    conditions.set("Ready", False)
    conditions.set("Ready", True, reason="Rollout", message="2 of 2")
    assert conditions["Ready"] == READY
    assert patch == {}


def test_several_users_of_one_patch_see_each_other() -> None:
    patch = Patch()
    make(READY, patch=patch).set("Other", True)
    second = make(READY, patch=patch)
    second.set("Third", None)
    assert [*second] == ["Ready", "Other", "Third"]


def test_the_transition_time_moves_only_with_the_status() -> None:
    conditions = make(READY)
    conditions.set("Ready", True, reason="Rollout", message="3 of 3")
    assert conditions["Ready"]["lastTransitionTime"] == EARLIER
    conditions.set("Ready", False, reason="Rollout", message="3 of 3")
    assert conditions["Ready"]["lastTransitionTime"] == "2030-01-02T03:04:05Z"


def test_newer_generations_are_observed() -> None:
    conditions = make(READY, generation=8)
    conditions.set("Ready", True, reason="Rollout", message="2 of 2")
    assert conditions["Ready"]["observedGeneration"] == 8


@pytest.mark.parametrize("status", ["yes", "true", "", 2])
def test_statuses_unknown_to_kubernetes_are_refused(status: Any) -> None:
    conditions = make()
    with pytest.raises(ValueError, match=f"True, False, or None \\(unknown\\); not {status!r}"):
        conditions.set("Ready", status)
    assert "Ready" not in conditions


@pytest.mark.parametrize(
    ("status", "stored"), [(True, "True"), (None, "Unknown"), ("False", "False")]
)
def test_statuses(status: Any, stored: str) -> None:
    conditions = make(generation=None)
    conditions.set("Ready", status)
    assert conditions["Ready"]["status"] == stored
    assert "observedGeneration" not in conditions["Ready"]


def test_deletion_and_reading() -> None:
    conditions = make(READY, {"type": "Other", "status": "False"})
    assert conditions.is_true("Ready")
    assert not conditions.is_true("Other")
    assert not conditions.is_true("Absent")
    conditions.delete("Ready")
    conditions.delete("Absent")
    assert [*conditions] == ["Other"]


@pytest.mark.parametrize("junk", [None, "x", {}, [None, 1, {"status": "True"}, {"type": 5}]])
def test_junk_is_left_out(junk: Any) -> None:
    body = Body({"metadata": {}, "status": {"conditions": junk}})
    conditions = Conditions(body, Patch())
    assert len(conditions) == 0


def test_h2_plans_for_an_older_state_change_only_what_they_change() -> None:
    """E.g. those that could not be sent at once."""
    patch = Patch()
    make(READY, patch=patch).set("Other", True)
    conditions = make({**READY, "status": "False"}, {**READY, "type": "New"}, patch=patch)
    assert [*conditions] == ["Ready", "New", "Other"]
    conditions.set("Third", True)
    assert [item["type"] for item in patch["status"]["conditions"]] == [*conditions]
    assert patch["status"]["conditions"][0]["status"] == "False"
    for type in ("Other", "Third"):
        conditions.delete(type)
    assert patch == {}


@pytest.mark.parametrize(("generation", "is_news"), [(7, False), (8, False), (9, True)])
def test_h2_changes_of_the_status_are_no_news_where_they_are_counted(
    generation: int, is_news: bool
) -> None:
    """The generation is always one ahead of what is observed; more is a change of something else.

    Another condition can have been set earlier, and then it was not changed because of this.
    """
    patch, earlier = Patch(), {**READY, "type": "Other", "observedGeneration": 5}
    metadata = {"generation": generation}
    body = Body({"metadata": metadata, "status": {"conditions": [READY, earlier]}})
    conditions = Conditions(body, patch, is_counted=True, now=lambda: NOW)
    for type in ("Ready", "Other") if generation == 8 else ("Ready",):
        conditions.set(type, True, reason="Rollout", message="2 of 2")
    assert bool(patch) == is_news
    conditions.set("Ready", True, reason="Rollout", message="3 of 3")
    assert conditions["Ready"]["observedGeneration"] == generation
