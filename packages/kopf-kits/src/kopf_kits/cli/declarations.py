"""Declarations in files and modules: the operator that would run, and the models of its kinds."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kopf_kits.cli.controls import CLIControls

if TYPE_CHECKING:
    from kopf_core.reactor.life.essentials import OperatorOptions
    from kopf_core.reactor.process.cluster_secrets import KubeconfigSecrets
    from kopf_core.reactor.process.operator_arguments import OperatorArguments


class Declarations(NamedTuple):
    """The declarations in the files and modules."""

    operator: OperatorOptions
    """The options that the operator would start with."""

    models: Collection[type]
    """The models of its kinds."""

    kubeconfigs: Collection[KubeconfigSecrets]
    """The Secrets with the kubeconfigs of its clusters."""


def load_operator(
    controls: CLIControls,
    paths: Collection[str],
    modules: Collection[str],
    *,
    clusterwide: bool = False,
    namespaces: Collection[str] = (),
    **options: Any,
) -> Declarations:
    """Load the files and modules, and find their declarations."""
    from kopf_cogs.configs.settings import OperatorSettings
    from kopf_core.intents.registries import get_default_registry, set_default_registry
    from kopf_core.reactor.life.essentials import OperatorOptions
    from kopf_core.reactor.process.cluster_secrets import KubeconfigSecrets
    from kopf_core.reactor.process.operator_arguments import adjust_settings
    from kopf_kits.definitions.collecting import collect_models, collect_objects
    from kopf_kits.loading import preload

    if controls.registry is not None:
        set_default_registry(controls.registry)
    loaded = preload(paths, modules)
    settings = controls.settings or OperatorSettings()
    operator = OperatorOptions(
        registry=get_default_registry(),
        settings=settings,
        clusterwide=clusterwide,
        namespaces=namespaces,
    )
    adjust_settings(settings, cast("OperatorArguments", options))
    settings.peering.clusterwide |= operator.is_clusterwide
    kubeconfigs = collect_objects(loaded, KubeconfigSecrets)
    return Declarations(operator, collect_models(loaded), kubeconfigs)
