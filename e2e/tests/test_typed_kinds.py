"""Typed dictionaries of the kinds that the cluster serves, made of what it says of them."""

from __future__ import annotations

import sys
import types
import typing
from typing import Any

import pytest

from e2e.tests.harness import World
from kopf_cogs.clients.kubeconfig import login_with_kubeconfig
from kopf_cogs.clients.session import Client
from kopf_kits.typed.fetching import fetch_kinds
from kopf_kits.typed.reading import read_structures
from kopf_kits.typed.writing import write_module

KINDS = ["deployments", "pods", "ingresses", "networkpolicies", "roles", "events",
         "events.events.k8s.io", "customresourcedefinitions", "jobs",
         "kexes.e2e.kopf.dev"]  # fmt: skip


async def write() -> str:
    credentials = login_with_kubeconfig()
    assert credentials is not None
    async with Client(credentials) as client:
        found = await fetch_kinds(client, KINDS)
    return write_module(read_structures(found), "Made by a test.")


async def test_all_kinds_can_be_written_and_imported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = types.ModuleType("kinds")
    monkeypatch.setitem(sys.modules, "kinds", kinds)  # the types name each other by it
    exec(await write(), vars(kinds))
    found: dict[str, Any] = {
        name: typing.get_type_hints(value, vars(kinds), include_extras=True)
        for name, value in vars(kinds).items()
        if hasattr(value, "__required_keys__")
    }
    optional = typing.NotRequired
    assert found["DeploymentSpec"]["selector"] is kinds.LabelSelector
    assert found["DeploymentSpec"]["replicas"] == optional[int]
    assert found["Container"]["name"] is str
    assert found["ContainerPort"]["containerPort"] is int
    assert found["ResourceRequirements"]["limits"] == optional[dict[str, int | str]]
    assert found["HTTPGetAction"]["port"] == int | str
    assert {"CoreV1Event", "EventsV1Event"} < {*found}
    assert found["CustomResourceDefinition"]["kind"] == typing.Literal["CustomResourceDefinition"]
