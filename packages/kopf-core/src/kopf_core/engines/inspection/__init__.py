"""The state of an object by the marks on it, and the changes of marks that people can make.

It is for people on duty. All state is on the objects, so they need no operator.
The functions are pure: they make no requests.
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
