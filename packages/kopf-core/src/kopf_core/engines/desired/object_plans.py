"""The plans and facts of one object, for its reconcilers."""

from dataclasses import dataclass, field
from typing import Any

from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.patches import Patch
from kopf_core.engines.desired.fights import Fights
from kopf_core.engines.desired.triggers import NOBODY, Essence, Plan
from kopf_core.intents.causes import ResourceCause


@dataclass(slots=True)
class ObjectPlans:
    """The plans of the reconcilers for one object."""

    plans: dict[HandlerId, Plan] = field(default_factory=dict)
    fights: dict[HandlerId, Fights] = field(default_factory=dict)
    far: frozenset[HandlerId] = NOBODY
    """The reconcilers that want objects which Kubernetes does not garbage-collect."""

    awaited: frozenset[Any] = NOBODY
    """The objects of others that must be gone or released first."""

    said: Essence | None = None
    """The conditions that are on their way to the API."""

    unkept: Essence | None = None
    """The conditions that the API has accepted, but has not stored."""

    is_unobserved: bool = False
    """Whether the conditions are set, but not the generation, as other reconcilers have not
    finished.
    """

    rejections: int = 0
    """How many times in a row the API has rejected the conditions or other parts of the patch."""

    def set_far(self, id: HandlerId, is_far: bool) -> None:
        """Remember whether the reconciler wants such objects; usually, none does."""
        self.far = (self.far | {id}) if is_far else (self.far - {id} or NOBODY)

    def notice_reply(self, is_rejected: bool, is_dropped: bool) -> None:
        """Notice by the reply to a patch whether the API has accepted and stored its conditions."""
        if self.said is not None:
            self.unkept = self.said if is_dropped else None
            self.said = None
        self.rejections = self.rejections + 1 if is_rejected else 0

    def get_rest(self, now: float) -> float:
        """In how many seconds the first pass is due."""
        return max(0.0, min(plan.next_time(now) for plan in self.plans.values()) - now)

    def keep_fights(self, id: HandlerId, fights: Fights) -> None:
        """Remember the fights of the reconciler, if there are any; usually, there are none."""
        if fights:
            self.fights[id] = fights
        else:
            self.fights.pop(id, None)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an object, as far as its reconcilers need it."""

    key: ObjectKey
    cause: ResourceCause
    essence: Essence
    marks: Patch
    is_held: bool
    """Whether the object has our finalizer."""

    is_own: bool
    """Whether others have surely not changed the object after our own latest patch."""
