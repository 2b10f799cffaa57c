"""The choice of forms: which part of the objects an operator keeps, for each kind."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kopf_cogs.configs.diffbase import MultiDiffBaseStorage, StatusDiffBaseStorage
from kopf_cogs.configs.forms import WHOLE, Form
from kopf_cogs.configs.progress import MultiProgressStorage, StatusProgressStorage
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.engines.desired.relations import settle
from kopf_core.intents.handlers import ReconcilingHandler, ResourceHandler
from kopf_core.intents.metadata import is_metadata_enough
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers

logger = logging.getLogger("kopf.reactor.forms")


class Forms:
    """Chooses the forms by the declarations in the registry, and by the settings."""

    def __init__(self, registry: OperatorRegistry, settings: OperatorSettings) -> None:
        self._registry = registry
        self._settings = settings
        self._complaints: set[str] = set()

    def choose(self, resource: Resource) -> Form:
        """Choose the form in which handlers get the objects of the kind.

        Owned objects are whole, because Kopf compares them with the objects that reconcilers yield.
        """
        owners = [one for one in self._registry.reconcilers if _is_among(resource, one.owns)]
        obstacle = self._find_obstacle(resource, owners)
        if obstacle is not None:
            self._complain(resource, obstacle)
        if owners:
            return WHOLE
        transforms = tuple(self._settings.watching.transforms.collect(resource))
        return Form(transforms=transforms, is_metadata=obstacle is None)

    def choose_observed(self, resource: Resource) -> Form:
        """Choose the form in which reconcilers get the objects of the kind: never only metadata."""
        return self.choose(resource)._replace(is_metadata=False)

    @property
    def has_referenced(self) -> bool:
        """Whether the setting permits to watch only the referenced objects of a kind."""
        return self._settings.watching.referenced_only

    def is_referenced_only(self, resource: Resource) -> bool:
        """Whether reconcilers need only those objects of the kind that fields name."""
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
        """Return the same handlers, but with the forms of their objects."""
        return {
            resource: handlers if form == WHOLE else replace(handlers, form=form)
            for resource, handlers in served.items()
            for form in [self.choose(resource)]
        }

    def _find_obstacle(
        self, resource: Resource, owners: Collection[ReconcilingHandler]
    ) -> str | None:
        """Find the reason why the metadata is not enough; ``None`` if all parts need no more."""
        if owners:
            return f"they are owned by {_join(owners)}"
        relatives = [one for one in self._registry.reconcilers if _is_among(resource, one.related)]
        if relatives and not self.is_referenced_only(resource):
            return f"they are related objects of {_join(relatives)}"
        is_sought = self._settings.watching.metadata_if_enough
        handlers = self._registry.get_resource_handlers(resource)
        others = [
            handler
            for handler in handlers.all
            if not handler.metadata_only and not (is_sought and is_metadata_enough(handler))
        ]
        if others or not handlers:
            return f"{_join(others)} can look at the rest"
        if handlers.requires_patching and self._is_state_in_status:
            return "the state of handlers is kept in the status, see settings.persistence"
        return None

    def _complain(self, resource: Resource, obstacle: str) -> None:
        """Tell once that the declarations ``metadata_only=True`` of the kind have no effect."""
        handlers = self._registry.get_resource_handlers(resource).all
        declared = [handler for handler in handlers if handler.metadata_only]
        title = f"Whole objects of {resource} are watched, not only their metadata"
        text = f"{title} as declared for {_join(declared)}: {obstacle}."
        if declared and text not in self._complaints:
            self._complaints.add(text)
            logger.warning(text)

    @property
    def _is_state_in_status(self) -> bool:
        persistence = self._settings.persistence
        storages = (persistence.diffbase_storage, persistence.progress_storage)
        return any(_is_in_status(storage) for storage in storages)


def _is_among(resource: Resource, selectors: Iterable[Selector]) -> bool:
    return any(selector.check(resource) for selector in selectors)


def _is_in_status(storage: object) -> bool:
    """Whether the storage keeps the state of handlers only in the status of objects."""
    if isinstance(storage, MultiDiffBaseStorage | MultiProgressStorage):
        return all(_is_in_status(one) for one in storage.storages)
    return isinstance(storage, StatusDiffBaseStorage | StatusProgressStorage)


def _join(handlers: Iterable[ResourceHandler]) -> str:
    return ", ".join(f"{handler}" for handler in handlers)
