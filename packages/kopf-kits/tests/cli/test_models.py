"""The command `kopf models`: the kinds of the cluster as typed dictionaries."""

from __future__ import annotations

import importlib.util
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import click.testing
import pytest

from kopf_cogs.clients.kinds import UnknownKindError
from kopf_kits.cli.groups import main
from kopf_kits.sandbox import SandboxThread

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["domain", "size"],
    "properties": {
        "domain": {"type": "string", "description": "Where it is, e.g. example.com. Not a URL."},
        "size": {"type": "integer", "default": 1},
        "port": {"x-kubernetes-int-or-string": True},
        "tier": {"type": "string", "enum": ["free", "paid"], "nullable": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "class": {
            "type": "object",
            "required": ["from"],
            "properties": {"from": {"type": "string"}},
        },
        "pages": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path"],
                "properties": {"path": {"type": "string"}, "rank": {"type": "number"}},
            },
        },
    },
}  # fmt: skip
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "sites", "kind": "Site"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {"spec": SPEC},
                    }
                },
            }
        ],
    },
}


def run(*args: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["models", *args], catch_exceptions=False)


@pytest.fixture
def load(kopf_sandbox: SandboxThread, tmp_path: Path) -> Any:
    """Write the kinds into a module, and import it."""

    def load(*kinds: str) -> ModuleType:
        path = tmp_path / "kinds.py"
        assert run("-o", str(path), *kinds).exit_code == 0
        spec = importlib.util.spec_from_file_location("kinds", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def get_types(module: ModuleType, name: str) -> dict[str, Any]:
    return typing.get_type_hints(getattr(module, name), vars(module), include_extras=True)


def list_classes(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if hasattr(value, "__required_keys__")]


def test_builtin_kinds_come_with_what_they_refer_to(load: Any) -> None:
    module = load("deploy")
    assert list_classes(module)[:2] == ["Deployment", "ObjectMeta"]
    assert {"DeploymentSpec", "PodSpec", "Container"} < {*list_classes(module)}
    assert "StatefulSet" not in list_classes(module)
    types = get_types(module, "Deployment")
    assert types["apiVersion"] == typing.Literal["apps/v1"]
    assert types["kind"] == typing.Literal["Deployment"]
    assert types["spec"] == typing.NotRequired[module.DeploymentSpec]


def test_required_keys_are_those_of_the_api(load: Any) -> None:
    module = load("apps/v1/deployments", "configmaps")
    types = get_types(module, "DeploymentSpec")
    assert types["selector"] is module.LabelSelector
    assert types["replicas"] == typing.NotRequired[int]
    assert get_types(module, "Container")["name"] is str
    assert get_types(module, "ContainerPort")["containerPort"] is int
    assert get_types(module, "ConfigMap")["data"] == typing.NotRequired[dict[str, str]]


def test_quantities_and_ports_are_numbers_or_strings(load: Any) -> None:
    module = load("pods")
    limits = get_types(module, "ResourceRequirements")["limits"]
    assert limits == typing.NotRequired[dict[str, int | str]]
    assert get_types(module, "HTTPGetAction")["port"] == int | str


def test_kinds_with_several_names_are_written_once(load: Any) -> None:
    names = list_classes(load("pods", "po", "deployments"))
    assert len(names) == len({*names})


def test_same_names_of_different_groups_are_told_apart(load: Any) -> None:
    module = load("events", "events.events.k8s.io")
    assert {"CoreV1Event", "EventsV1Event"} < {*list_classes(module)}


def test_custom_kinds_get_names_for_their_nested_structures(
    load: Any, kopf_sandbox: SandboxThread
) -> None:
    kopf_sandbox.apply(CRD)
    module = load("sites")
    assert list_classes(module) == [
        "Site", "ObjectMeta", "ManagedFieldsEntry", "OwnerReference",
        "SiteSpec", "SiteSpecClass", "SiteSpecPagesItem",
    ]  # fmt: skip
    assert get_types(module, "Site")["spec"] is module.SiteSpec
    optional = typing.NotRequired
    assert get_types(module, "SiteSpec") == {
        "domain": str,
        "size": optional[int],
        "port": optional[int | str],
        "tier": optional[typing.Literal["free", "paid"] | None],
        "labels": optional[dict[str, str]],
        "any": optional[Any],
        "class": optional[module.SiteSpecClass],
        "pages": optional[list[module.SiteSpecPagesItem]],
    }
    assert get_types(module, "SiteSpecPagesItem")["path"] is str
    assert module.SiteSpecClass.__required_keys__ == {"from"}


def test_first_sentences_are_kept(kopf_sandbox: SandboxThread) -> None:
    text = run("configmaps", "pods").output
    assert '    """ConfigMap holds configuration data for pods to consume."""\n' in text
    assert max(map(len, text.splitlines())) <= 100


def test_unknown_kinds_are_named(kopf_sandbox: SandboxThread) -> None:
    with pytest.raises(UnknownKindError, match="There is no such kind in the cluster: nosuch"):
        run("nosuch")
