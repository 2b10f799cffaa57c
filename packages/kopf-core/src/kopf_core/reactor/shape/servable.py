"""Servable resources: the resources that handlers select, and that can be served."""

import logging
from collections.abc import Collection, Mapping

from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers
from kopf_core.reactor.shape.descriptions import announce_served, describe_unresolved

logger = logging.getLogger("kopf._core.reactor.orchestration")


class ServableResources:
    """Finds the resources for the handlers. Logs the same problem only once."""

    def __init__(self, registry: OperatorRegistry) -> None:
        self._registry = registry
        self._complaints: set[str] = set()
        self._served: set[Resource] = set()

    def select(self, resources: Collection[Resource]) -> Mapping[Resource, ResourceHandlers]:
        """The resources that the selectors mean, with their handlers."""
        chosen: dict[Selector, Collection[Resource]] = {}
        for selector in self._registry.selectors:
            resolution = selector.resolve(resources)
            chosen[selector] = resolution.resources
            if resolution.rivals:
                rivals = ", ".join(sorted(str(rival) for rival in resolution.rivals))
                self._complain(
                    f"Ambiguous resources will not be served: {selector} is all of "
                    f"these: {rivals}. Specify the API group for the handlers."
                )
            elif not resolution.resources:
                self._complain(
                    "Unresolved resources cannot be served (try creating their CRDs): "
                    + describe_unresolved(selector, self._registry, resources),
                    key=f"unresolved {selector}",
                )
        served = {
            resource: handlers
            for resource, handlers in match_handlers(self._registry, chosen).items()
            if self._is_servable(resource, handlers)
        }
        announce_served(served, self._served)
        self._served = {*served}
        return served

    def _is_servable(self, resource: Resource, handlers: ResourceHandlers) -> bool:
        obstacle = find_obstacle(resource, handlers)
        if obstacle is not None:
            self._complain(obstacle)
        return bool(handlers) and obstacle is None

    def _complain(self, message: str, *, key: str = "") -> None:
        if (key or message) not in self._complaints:
            self._complaints.add(key or message)
            logger.warning(message)


def match_handlers(
    registry: OperatorRegistry, chosen: Mapping[Selector, Collection[Resource]]
) -> dict[Resource, ResourceHandlers]:
    """The handlers of each resource, by the resources that the selectors mean."""
    return {
        resource: registry.get_resource_handlers(
            resource,
            lambda selector, res=resource: res in chosen[selector],  # type: ignore[misc]
        )
        for resource in sorted({res for found in chosen.values() for res in found}, key=str)
    }


def find_obstacle(resource: Resource, handlers: ResourceHandlers) -> str | None:
    """The reason why the handlers cannot serve this resource, even with all permissions."""
    if handlers and not {"list", "watch"} <= resource.verbs:
        return f"Non-watchable resources will not be served: {resource}"
    if handlers.requires_patching and not resource.patchable:
        return f"Non-patchable resources will not be served: {resource}"
    return None
