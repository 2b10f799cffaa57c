"""Strategic-merge patches, which are only for built-in resources."""

from __future__ import annotations

from typing import Any

from e2e.conformance.api import Api
from e2e.conformance.objects import CONTAINER, TEMPLATE
from e2e.conformance.registry import Area

area = Area("strategic-patches")

VARIABLES = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
DEPLOYMENT = {
    "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            **TEMPLATE,
            "spec": {
                "containers": [
                    {
                        **CONTAINER,
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    },
                    {"name": "side", "image": "side"},
                ]
            },
        },
    }
}
NAMES = "spec.template.spec.containers.*.name"
IMAGES = "spec.template.spec.containers.*.image"
ENV = "spec.template.spec.containers.0.env"


def containers(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": list(items), **fields}}}}


@area.behaviour("They are not for custom resources")
async def custom(api: Api) -> Any:
    await api.make("plains")
    return (await api.patch("plains/x", {"spec": {}}, "strategic")).show()


@area.behaviour("Simple fields are merged, nulls remove them")
async def fields(api: Api) -> Any:
    await api.make("configmaps", {"data": {"a": "1", "b": "2"}})
    patch = {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"l": "1"}}}
    reply = await api.patch("configmaps/x", patch, "strategic")
    return reply.show("data", "metadata.labels")


@area.behaviour("Lists of mappings are merged by their keys")
async def merged_lists(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    patch = containers({"name": "side", "image": "new"}, {"name": "third", "image": "third"})
    return (await api.patch("deployments/x", patch, "strategic")).show(NAMES, IMAGES)


@area.behaviour("Nested lists of mappings are merged by their keys")
async def nested_lists(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    env = [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    patch = containers({"name": "main", "env": env})
    return (await api.patch("deployments/x", patch, "strategic")).show(ENV)


@area.behaviour("Items are deleted by a directive")
async def deleted_items(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    patch = containers({"name": "main", "$patch": "delete"})
    return (await api.patch("deployments/x", patch, "strategic")).show(NAMES)


@area.behaviour("Lists are replaced by a directive")
async def replaced_lists(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    patch = containers({"name": "only", "image": "only"}, {"$patch": "replace"})
    return (await api.patch("deployments/x", patch, "strategic")).show(NAMES)


@area.behaviour("Mappings are replaced by a directive")
async def replaced_mappings(api: Api) -> Any:
    await api.make("configmaps", {"data": {"a": "1", "b": "2"}})
    patch = {"data": {"$patch": "replace", "c": "3"}}
    return (await api.patch("configmaps/x", patch, "strategic")).show("data")


@area.behaviour("Fields are retained by a directive, others are dropped")
async def retained_keys(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    return (await api.patch("deployments/x", patch, "strategic")).show("spec.strategy")


@area.behaviour("Items of primitive lists are merged, and deleted by a directive")
async def primitive_lists(api: Api) -> Any:
    await api.make("configmaps", {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}})
    added = {"metadata": {"finalizers": ["g.h/i"]}}
    deleted = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c", "d.e/f", "g.h/i"]}}
    return [
        (await api.patch("configmaps/x", patch, "strategic")).show("metadata.finalizers")
        for patch in (added, deleted)
    ]


@area.behaviour("Items are ordered by a directive")
async def ordered_items(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    order = [{"name": "side"}, {"name": "main"}]
    patch = {"spec": {"template": {"spec": {"$setElementOrder/containers": order}}}}
    return (await api.patch("deployments/x", patch, "strategic")).show(NAMES)


@area.behaviour("Lists without keys are replaced")
async def atomic_lists(api: Api) -> Any:
    await api.make("deployments", DEPLOYMENT)
    first = containers({"name": "main", "command": ["a", "b"]})
    second = containers({"name": "main", "command": ["c"]})
    await api.patch("deployments/x", first, "strategic")
    reply = await api.patch("deployments/x", second, "strategic")
    return reply.show("spec.template.spec.containers.0.command")
