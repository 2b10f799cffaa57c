"""Declarations in files and modules: the operator that would run, and the models of its kinds."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from kopf_kits.cli.controls import CLIControls

if TYPE_CHECKING:
    from kopf_core.reactor.life.essentials import OperatorOptions
    from kopf_core.reactor.life.operator_arguments import OperatorArguments


def load_operator(
    controls: CLIControls,
    paths: Collection[str],
    modules: Collection[str],
    *,
    clusterwide: bool = False,
    namespaces: Collection[str] = (),
    **options: Any,
) -> tuple[OperatorOptions, Collection[type]]:
    """What the operator would be started with, and the models of its kinds."""
    from kopf_cogs.configs.settings import OperatorSettings
    from kopf_core.intents.registries import get_default_registry, set_default_registry
    from kopf_core.reactor.life.essentials import OperatorOptions
    from kopf_core.reactor.life.operator_arguments import adjust_settings
    from kopf_kits.definitions.collecting import collect_models
    from kopf_kits.loading import preload

    if controls.registry is not None:
        set_default_registry(controls.registry)
    models = collect_models(preload(paths, modules))
    settings = controls.settings or OperatorSettings()
    operator = OperatorOptions(
        registry=get_default_registry(),
        settings=settings,
        clusterwide=clusterwide,
        namespaces=namespaces,
    )
    adjust_settings(settings, cast("OperatorArguments", options))
    settings.peering.clusterwide |= operator.is_clusterwide
    return operator, models
