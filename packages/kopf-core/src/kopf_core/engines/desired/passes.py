"""One pass of one reconciler over one object: Kopf calls the function, and applies its wishes."""

from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from kopf_cogs.helpers import jsons
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.bases import Fn
from kopf_core.actions.threads import Door
from kopf_core.engines.desired.applying import (
    Applier,
    BlockedError,
    FinalizerNeededError,
    NamespaceLeavingError,
)
from kopf_core.engines.desired.driving import drive
from kopf_core.engines.desired.farewells import delete_child
from kopf_core.engines.desired.ownership import get_identity
from kopf_core.engines.desired.sources import Source
from kopf_core.engines.desired.triggers import Again
from kopf_core.engines.desired.wishes import check_wish
from kopf_core.intents.causes import ReconcilingCause

LEAVING_DELAY = 60.0
"""When to look again (in seconds) at an object whose namespace is being deleted."""


@dataclass(slots=True)
class Pass:
    """One call of a reconciler. Attempts use it in place of the function itself."""

    fn: Fn
    cause: ReconcilingCause
    applier: Applier
    executor: Executor | None
    door: Door
    aside: AbstractContextManager[Any]
    """The context that is held while an async function waits for its own work."""

    prune: bool

    unlisted: str | None = None
    """A kind that matters, but is not listed yet: its unknown objects are not absent ones."""

    again: float | None = None
    """In how many seconds the function wants the next call: the least of its wishes."""

    is_interrupted: bool = False
    """Whether our finalizer must hold the owner before the pass can go on."""

    is_complete: bool = False
    """Whether all wanted objects are known, and applied."""

    @property
    def is_unsure(self) -> bool:
        """Whether some objects that matter could not be looked at."""
        return self.unlisted is not None or bool(self.applier.unseen)

    @property
    def _owner(self) -> str:
        return self.cause.body.metadata.uid or ""

    async def run(self, **kwargs: Any) -> None:
        """Call the function with these arguments. Raises its errors."""
        if self.unlisted is not None:
            raise BlockedError(f"It must wait until {self.unlisted} are listed.")
        try:
            await drive(
                self.fn,
                kwargs,
                accept=self._accept,
                executor=self.executor,
                door=self.door,
                aside=self.aside,
            )
            if self.prune:
                await self._prune()
        except FinalizerNeededError:
            self.is_interrupted = True
        except NamespaceLeavingError:
            self.applier.logger.debug("The namespace is being deleted; nothing is applied there.")
            self.again = LEAVING_DELAY
        else:
            self.is_complete = True

    async def _accept(self, item: Any) -> Any:
        if isinstance(item, Again):
            self.again = item.after if self.again is None else min(self.again, item.after)
            return None
        stored = await self.applier.apply(check_wish(item))
        self.applier.badges.claims.add(self._owner, stored)
        return jsons.clone(stored)

    async def _prune(self) -> None:
        """Delete the objects of earlier passes that are not wanted now."""
        applier, claims = self.applier, self.applier.badges.claims
        for resource, source, body in self._find_applied():
            if applier.is_wanted(resource, body):
                continue
            if not claims.cover(self._owner, body):
                claims.tell_of_left(body, applier.logger)
            else:
                applier.fights.forget(get_identity(resource, body))  # no fight: it is deleted by us
                await delete_child(
                    applier.api, source, body, applier.logger, why="it is not wanted anymore"
                )

    def _find_applied(self) -> Iterable[tuple[Resource, Source, RawBody]]:
        applier = self.applier
        for resource, source in applier.sources.items():
            for body in list(source.owned_by(self._owner)):
                if applier.badges.get_reconciler(body) == applier.reconciler:
                    yield resource, source, body
