"""What is known of one object by its reconcilers."""

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
    """What is planned for one object, by its reconcilers."""

    plans: dict[HandlerId, Plan] = field(default_factory=dict)
    fights: dict[HandlerId, Fights] = field(default_factory=dict)
    far: frozenset[HandlerId] = NOBODY
    """Those who want something out of reach of garbage collection."""

    awaited: frozenset[Any] = NOBODY
    """Which objects of others must be gone or released first."""

    said: Essence | None = None
    """What the conditions are that are on their way to the API."""

    unkept: Essence | None = None
    """What the conditions were which the API has accepted, but has not stored."""

    is_unobserved: bool = False
    """Whether the conditions are told, but not the generation: others are not done with it."""

    rejections: int = 0
    """How many times in a row the conditions, or whatever else is patched, were rejected."""

    def set_far(self, id: HandlerId, is_far: bool) -> None:
        """Remember whether the reconciler wants anything there; mostly, nobody does."""
        self.far = (self.far | {id}) if is_far else (self.far - {id} or NOBODY)

    def notice_reply(self, is_rejected: bool, is_dropped: bool) -> None:
        """The patch is answered: see if the conditions in it were accepted, and are stored."""
        if self.said is not None:
            self.unkept = self.said if is_dropped else None
            self.said = None
        self.rejections = self.rejections + 1 if is_rejected else 0

    def get_rest(self, now: float) -> float:
        """In how many seconds the first of the passes is to be made."""
        return max(0.0, min(plan.next_time(now) for plan in self.plans.values()) - now)

    def keep_fights(self, id: HandlerId, fights: Fights) -> None:
        """Remember the fights of the reconciler, if there are any: mostly, there are none."""
        if fights:
            self.fights[id] = fights
        else:
            self.fights.pop(id, None)


@dataclass(frozen=True, slots=True)
class Step:
    """An object in the course of processing, as far as its reconcilers need it."""

    key: ObjectKey
    cause: ResourceCause
    essence: Essence
    marks: Patch
    is_held: bool
    """Whether the object has our finalizer."""
