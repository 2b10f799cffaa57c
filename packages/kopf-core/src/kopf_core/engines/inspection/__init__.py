"""What can be told of an object by the marks on it, and what people can change in them.

It is for those on duty: all state is on the objects, so no operator is needed for that.
Everything here is pure: nothing is requested, nothing is sent.
"""

from kopf_core.engines.inspection.interventions import (
    Change,
    plan_forgetting,
    plan_pause,
    plan_release,
    plan_retry,
    plan_unpause,
)
from kopf_core.engines.inspection.object_states import (
    HandlerPhase,
    HandlerProgress,
    ObjectState,
    Phase,
    find_doubtful,
    find_others,
    inspect,
)

__all__ = [
    "Change",
    "HandlerPhase",
    "HandlerProgress",
    "ObjectState",
    "Phase",
    "find_doubtful",
    "find_others",
    "inspect",
    "plan_forgetting",
    "plan_pause",
    "plan_release",
    "plan_retry",
    "plan_unpause",
]
