"""Triggers: why and when a pass is due for an object. Pure: no loop, no clock."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

from kopf_cogs.helpers import jsons
from kopf_core.engines.records.holds import Loop

NEVER = float("inf")

NOBODY: frozenset[Any] = frozenset()
"""One empty set for all objects, as each takes hundreds of bytes."""

Essence = bytes
"""A digest to recognise content later: it takes little memory even for large content."""

URGENT = frozenset({"changed", "unblocked"})
"""The triggers that are a reason to retry at once: the failed work can succeed now."""

NEWS = frozenset({"appeared", "changed"})
"""The triggers that are of the object itself."""


def digest(content: Any) -> Essence:
    """Digest the content, which can be any part of an object."""
    return hashlib.blake2b(jsons.dumps(content), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Again:
    """Yielded or returned by a reconciler: call it once more after so many seconds."""

    after: float

    def __post_init__(self) -> None:
        if not isinstance(self.after, int | float) or not 0 <= self.after < NEVER:
            raise ValueError(f"The delay must be a number of seconds, not {self.after!r}.")


@dataclass(frozen=True, slots=True, repr=False)
class Trigger:
    """One of the reasons why a reconciler is called: for logs, tests, and decisions.

    The triggers of one call are in its argument ``triggers``. Equal triggers are merged.
    """

    kind: str
    """``appeared``, ``changed``, ``child``, ``related``, ``external``, ``unblocked``, ``every``,
    ``again``, or ``retry``. Unblocked means that the awaited change has happened, e.g. a kind is
    served.
    """

    subject: str = ""
    """The changed object, e.g. ``Deployment ns/web``; empty for the primary object itself.

    For external happenings, it is their reason.
    """

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}" if self.subject else self.kind

    def __repr__(self) -> str:
        return f"<{self}>"  # people see it in printed sets


CHANGED = Trigger("changed")


@dataclass(slots=True)
class Plan:
    """The plan of one reconciler for one object. All times are monotonic, in seconds."""

    triggers: frozenset[Trigger] = NOBODY
    """The triggers that no pass has seen yet: any number of them make one pass."""

    essence: Essence | None = None
    """The essence of the object in the latest pass, without its status and our marks."""

    expected: Essence | None = None
    """The essence as the latest pass has left it, if the status is a trigger, too."""

    due: dict[str, float] = field(default_factory=dict)
    """When to make a pass even if nothing happens, by the kinds of triggers."""

    rested: float = 0.0
    """The earliest time of the next pass: the object has a rate limit."""

    retry: float | None = None
    """When to retry after a failure: all but the :data:`URGENT` triggers wait for it."""

    since: float | None = None
    """When the first attempt has started, if no attempt has succeeded since then."""

    loop: Loop | None = None
    """The loop of passes that change their own object, if the latest pass has done so."""

    is_partial: bool = False
    """Whether some objects can still need to be applied or pruned, as some kinds were not listed.
    """

    awaited: frozenset[Any] = NOBODY
    """The objects of others that must be gone or released before this one can be as wanted."""

    is_complete: bool = False
    """Whether everything was as wanted in the latest pass."""

    is_going: bool = False
    """Whether a pass is running now: the changes that it waits for are not known yet."""

    @property
    def is_hampered(self) -> bool:
        """Whether work is left, or can be, that was not possible before."""
        return self.retry is not None or self.is_partial or self.is_going

    @property
    def is_settled(self) -> bool:
        """Whether everything is as the current state of the object wants it."""
        return self.is_complete and all(trigger.kind not in NEWS for trigger in self.triggers)

    def notice(self, essence: Essence) -> bool:
        """Notice the object: it is new, or changed, or the same. Return whether it has changed."""
        has_changed = self.essence is not None and essence not in (self.essence, self.expected)
        if self.essence is None:
            self.add(Trigger("appeared"))
        elif has_changed:
            self.add(CHANGED)
        self.essence = essence
        return has_changed

    def go_round(self, now: float, *, is_own: bool) -> None:
        """The object has changed. If the latest pass itself has done that, the next one can
        wait.
        """
        if self.loop is not None:
            self.loop = self.loop.went_round(now) if is_own else None

    def add(self, trigger: Trigger) -> None:
        """Make a pass for this reason, too."""
        self.triggers |= {trigger}

    def ripen(self, now: float) -> None:
        """Turn the due times into triggers."""
        for kind, at in list(self.due.items()):
            if at <= now:
                del self.due[kind]
                self.add(Trigger(kind))
        if self.retry is not None and self.retry <= now:
            self.retry = None
            self.add(Trigger("retry"))

    def next_time(self, now: float) -> float:
        """When to make the next pass; a time up to ``now`` means at once."""
        times = [*self.due.values()]
        if self.retry is not None:
            is_urgent = any(trigger.kind in URGENT for trigger in self.triggers)
            times = [now if is_urgent else self.retry]
        elif self.loop is not None and self.triggers == {CHANGED}:
            times.append(max(now, self.loop.until))
        elif self.triggers:
            times = [now]
        return max(min(times, default=NEVER), self.rested)

    def take_triggers(self) -> frozenset[Trigger]:
        """Take the triggers for a pass; none of them is left for the next one."""
        self.is_going = True
        triggers, self.triggers = self.triggers, NOBODY
        self.due.clear()
        self.retry = None
        return triggers
