"""Which form of objects is kept for each kind: there is one for a kind in an operator."""

from collections.abc import Mapping
from dataclasses import replace

from kopf_cogs.configs.forms import WHOLE, Form
from kopf_cogs.configs.settings import WatchingSettings
from kopf_cogs.structs.resources import Resource
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers


class Forms:
    """Finds out the forms from what is declared in the registry and the settings."""

    def __init__(self, registry: OperatorRegistry, settings: WatchingSettings) -> None:
        self._registry = registry
        self._settings = settings

    def choose(self, resource: Resource) -> Form:
        """The form for the kind. What reconcilers own is whole: it is compared to their wishes."""
        transforms = self._settings.transforms.collect(resource)
        if not transforms or self._is_owned(resource):
            return WHOLE
        return Form(transforms=tuple(transforms))

    def assign(
        self, served: Mapping[Resource, ResourceHandlers]
    ) -> Mapping[Resource, ResourceHandlers]:
        """The same handlers, which know in what form they get the objects."""
        forms = {resource: self.choose(resource) for resource in served}
        return {
            resource: handlers
            if forms[resource] == WHOLE
            else replace(handlers, form=forms[resource])
            for resource, handlers in served.items()
        }

    def _is_owned(self, resource: Resource) -> bool:
        owned = (selector for h in self._registry.reconcilers for selector in h.owns)
        return any(selector.check(resource) for selector in owned)
