"""The layers as libraries: each example runs where only its own layer is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.clusters import Cluster

from .environments import make_environment, run
from .running import Objects, running

pytestmark = pytest.mark.timeout(600)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "layers"
LAYERS = {
    "cogs": ("kopf_cogs",),
    "core": ("kopf_cogs", "kopf_core"),
    "kits": ("kopf_cogs", "kopf_core", "kopf_kits"),
}
LIST_PACKAGES = (
    "import importlib.metadata as m;"
    "print(*sorted(d.name for d in m.distributions() if d.name.startswith('kopf')))"
)


@pytest.fixture
def bin(request: pytest.FixtureRequest, wheels: Path) -> Path:
    """An environment with one layer, and with those below it."""
    name: str = request.param
    folder = make_environment(f"layer-{name}", wheels, only=LAYERS[name])
    installed = run(folder / "python", "-c", LIST_PACKAGES).split()
    assert installed == [layer.replace("_", "-") for layer in LAYERS[name]]
    return folder


@pytest.mark.parametrize("bin", ["cogs"], indirect=True)
async def test_client_in_a_script(cluster: Cluster, bin: Path, objects: Objects) -> None:
    namespace = objects.namespace
    command = [
        bin / "python",
        EXAMPLES / "cogs" / "example.py",
        namespace,
        "settings",
        "color=blue",
    ]
    async with running(cluster, *command) as script:
        await script.until_logged("Waiting for the confirmation.")
        assert (await objects.get("configmaps", "settings"))["data"] == {"color": "blue"}
        patch = {"metadata": {"annotations": {"confirmed": "yes"}}}
        await objects.patch("configmaps", "settings", patch)
        assert await script.wait() == 0
    assert script.log.splitlines() == [
        "There are config maps: settings.",
        "Waiting for the confirmation.",
        "It is confirmed.",
    ]


@pytest.mark.parametrize("bin", ["core"], indirect=True)
async def test_engine_under_another_command_line(
    cluster: Cluster, bin: Path, objects: Objects
) -> None:
    options = ["--namespace", objects.namespace, "--greeting", "Hi"]
    async with running(cluster, bin / "python", EXAMPLES / "core/example.py", *options) as operator:
        body = {"metadata": {"name": "world", "labels": {"greet": "please"}}}
        await objects.create("configmaps", body)
        await objects.until("configmaps", lambda seen: "data" in seen["world"])
        assert (await objects.get("configmaps", "world"))["data"] == {"greeting": "Hi, world!"}
        assert await operator.stop() == 0
    assert "failed temporarily: Not that fast." in operator.log
    assert "Traceback" not in operator.log


@pytest.mark.parametrize("bin", ["kits"], indirect=True)
def test_tools_alone(bin: Path) -> None:
    lines = run(bin / "python", EXAMPLES / "kits" / "example.py").splitlines()
    assert lines[0].endswith(", of parent")
    assert lines[1:] == ["Secrets left: 0"]
