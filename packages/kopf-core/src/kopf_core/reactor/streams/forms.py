"""Which form of objects is kept for each kind: there is one for a kind in an operator."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kopf_cogs.configs.diffbase import MultiDiffBaseStorage, StatusDiffBaseStorage
from kopf_cogs.configs.forms import WHOLE, Form
from kopf_cogs.configs.progress import MultiProgressStorage, StatusProgressStorage
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.engines.desired.relations import settle
from kopf_core.intents.handlers import ResourceHandler
from kopf_core.intents.metadata import is_metadata_enough
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers

logger = logging.getLogger("kopf.reactor.forms")


class Forms:
    """Finds out the forms from what is declared in the registry and the settings."""

    def __init__(self, registry: OperatorRegistry, settings: OperatorSettings) -> None:
        self._registry = registry
        self._settings = settings
        self._complaints: set[str] = set()

    def choose(self, resource: Resource) -> Form:
        """The form for the kind. What reconcilers own is whole: it is compared to their wishes."""
        reconcilers = self._registry.reconcilers
        if _is_among(resource, (selector for one in reconcilers for selector in one.owns)):
            return WHOLE
        is_related = _is_among(resource, (sel for one in reconcilers for sel in one.related))
        return Form(
            transforms=tuple(self._settings.watching.transforms.collect(resource)),
            is_metadata=not is_related and self._is_metadata_enough(resource),
        )

    @property
    def has_referenced(self) -> bool:
        """Whether any kind can be watched only as far as its objects are referenced."""
        return self._settings.watching.referenced_only

    def is_referenced_only(self, resource: Resource) -> bool:
        """Whether the objects are needed only by reconcilers, and are always named by fields."""
        if not self.has_referenced:
            return False
        reconcilers = self._registry.reconcilers
        indices = dict.fromkeys(self._registry.index_ids)
        others = [selector for one in reconcilers for selector in (one.selector, *one.owns)]
        sources = [
            settle(source, indices)
            for one in reconcilers
            for selector, source in one.related.items()
            if selector.check(resource)
        ]
        is_named = bool(sources) and all(isinstance(source, tuple) for source in sources)
        return is_named and not _is_among(resource, filter(None, others))

    def assign(
        self, served: Mapping[Resource, ResourceHandlers]
    ) -> Mapping[Resource, ResourceHandlers]:
        """The same handlers, which know in what form they get the objects."""
        return {
            resource: handlers if form == WHOLE else replace(handlers, form=form)
            for resource, handlers in served.items()
            for form in [self.choose(resource)]
        }

    def _is_metadata_enough(self, resource: Resource) -> bool:
        """Whether it is so for all handlers; if only for some of them, that is in vain."""
        is_sought = self._settings.watching.metadata_if_enough
        handlers = self._registry.get_resource_handlers(resource)
        declared = [handler for handler in handlers.all if handler.metadata_only]
        others = [
            handler
            for handler in handlers.all
            if not handler.metadata_only and not (is_sought and is_metadata_enough(handler))
        ]
        if others or not handlers:
            reason = f"{_join(others)} can look at the rest"
        elif handlers.requires_patching and self._is_state_in_status:
            reason = "the state of handlers is kept in the status, see settings.persistence"
        else:
            return True
        if declared:
            title = f"Whole objects of {resource} are watched, not only their metadata"
            self._complain(f"{title} as declared for {_join(declared)}: {reason}.")
        return False

    @property
    def _is_state_in_status(self) -> bool:
        persistence = self._settings.persistence
        storages = (persistence.diffbase_storage, persistence.progress_storage)
        return any(_is_in_status(storage) for storage in storages)

    def _complain(self, text: str) -> None:
        if text not in self._complaints:
            self._complaints.add(text)
            logger.warning(text)


def _is_among(resource: Resource, selectors: Iterable[Selector]) -> bool:
    return any(selector.check(resource) for selector in selectors)


def _is_in_status(storage: object) -> bool:
    """Whether the storage keeps the state of objects in their status only."""
    if isinstance(storage, MultiDiffBaseStorage | MultiProgressStorage):
        return all(_is_in_status(one) for one in storage.storages)
    return isinstance(storage, StatusDiffBaseStorage | StatusProgressStorage)


def _join(handlers: Iterable[ResourceHandler]) -> str:
    return ", ".join(f"{handler}" for handler in handlers)
