"""``--kubeconfig`` and ``--context``: which cluster is meant, and how it is told."""

import json
import os
from collections.abc import Iterator

import click.testing
import pytest

from kopf_cogs.structs.credentials import LoginError
from kopf_kits.cli import main
from kopf_kits.cli.groups import COMMANDS
from kopf_kits.sandbox import SandboxThread

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
NOWHERE = "http://127.0.0.1:1"
LOCAL = {"handlers", "init", "manifests", "sandbox"}
"""The commands that need no cluster."""


@pytest.fixture
def config(world, tmp_path):
    """A kubeconfig of two contexts; the current one leads to nowhere."""
    clusters = {"nowhere": NOWHERE, "right": world.sandbox.url}
    path = tmp_path / "contexts.json"
    content = {
        "current-context": "nowhere",
        "clusters": [{"name": k, "cluster": {"server": v}} for k, v in clusters.items()],
        "contexts": [{"name": name, "context": {"cluster": name}} for name in clusters],
    }
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("name", sorted({*COMMANDS} - LOCAL))
def test_k27_all_commands_can_be_told_of_the_cluster(name):
    output = click.testing.CliRunner().invoke(main, [name, "--help"]).output
    assert "--context NAME" in output
    assert "--kubeconfig PATH" in output


def test_k27_kubeconfig_and_context_are_chosen(world, invoke, config, monkeypatch):
    world.create()
    monkeypatch.setenv("KUBECONFIG", str(config))
    before = dict(os.environ)
    result = invoke("objects", "kex", "--context", "right")
    assert (result.exit_code, result.stdout.split()[-2:]) == (0, ["obj", "unknown"])
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    result = invoke("objects", "kex", "--context", "right", "--kubeconfig", str(config))
    assert (result.exit_code, result.stdout.split()[-2:]) == (0, ["obj", "unknown"])
    assert dict(os.environ) == {**before, "KUBECONFIG": "/nonexistent"}


def test_k27_the_chosen_cluster_is_preferred_over_that_of_the_pod(
    world, invoke, config, monkeypatch, tmp_path
):
    (tmp_path / "token").write_text("token")
    monkeypatch.setattr("kopf_cogs.clients.incluster._FOLDER", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "nowhere.invalid")
    world.create()
    result = invoke("objects", "kex", "--context", "right", "--kubeconfig", str(config))
    assert (result.exit_code, result.stdout.split()[-2:]) == (0, ["obj", "unknown"])


@pytest.fixture
def other(crd_path) -> Iterator[SandboxThread]:
    with SandboxThread() as sandbox:
        sandbox.apply(crd_path)
        yield sandbox


@pytest.fixture
def both(world, other, tmp_path):
    """A kubeconfig of three contexts; nobody is in the third one."""
    clusters = {"east": world.sandbox.url, "west": other.url, "down": NOWHERE}
    path = tmp_path / "both.json"
    content = {
        "clusters": [{"name": k, "cluster": {"server": v}} for k, v in clusters.items()],
        "contexts": [{"name": name, "context": {"cluster": name}} for name in clusters],
    }
    path.write_text(json.dumps(content))
    return path


def test_o_objects_of_several_clusters_are_shown_in_one_table(world, invoke, other, both):
    world.create("one")
    body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "two"}}
    other.create(body, namespace="default")
    args = ["objects", "kex", f"--kubeconfig={both}", "--context=west", "--context=east"]
    result = invoke(*args)
    assert result.exit_code == 0
    assert [line.split()[:3] for line in result.stdout.splitlines()] == [
        ["CLUSTER", "NAME", "STATE"],
        ["west", "two", "unknown"],
        ["east", "one", "unknown"],
    ]
    assert "2 objects: 2 unknown." in result.stderr
    items = json.loads(invoke(*args, "-o", "json").stdout)["items"]
    assert [(item["cluster"], item["name"]) for item in items] == [("west", "two"), ("east", "one")]


def test_o_a_cluster_that_is_down_does_not_hide_the_objects_of_others(
    world, invoke, both, monkeypatch
):
    monkeypatch.setattr("kopf_kits.cli.duty.options.BACKOFFS", ())
    world.create("one")
    result = invoke("objects", "kex", f"--kubeconfig={both}", "--context=down", "--context=east")
    assert result.exit_code == 1
    assert ["east", "one", "unknown"] in [line.split()[:3] for line in result.stdout.splitlines()]
    assert "Error: Cluster down: " in result.stderr
    assert NOWHERE.removeprefix("http://127.0.0.1") in result.stderr


def test_k27_unknown_contexts_and_files_are_named(invoke, config):
    result = invoke("objects", "kex", "--context", "wrong", "--kubeconfig", str(config))
    assert isinstance(result.exception, LoginError)
    assert str(result.exception) == "There is no context 'wrong' in the kubeconfig."
    result = invoke("objects", "kex", "--kubeconfig", "/nonexistent")
    assert result.exit_code == 2
    assert "'/nonexistent' does not exist" in result.stderr


@pytest.mark.parametrize(
    ("args", "loss"),
    [
        (
            ["release", "-A", "--all"],
            "The finalizers are lost. Objects that are being deleted vanish",
        ),
        (["forget", "kex", "obj"], "The progress and the last handled states are lost"),
        (["pause", "kex", "obj", "--wait=0"], "Nothing is lost"),
    ],
)
def test_k27_questions_name_the_cluster_and_the_loss(world, invoke, config, args, loss):
    annotations = {"kopf.zalando.org/last-handled-configuration": "{}"}
    world.create(finalizers=[FINALIZER], annotations=annotations)
    options = ["--context", "right", "--kubeconfig", str(config)]
    result = invoke(*args, *options, answer="n\n")
    assert loss in result.stderr
    question = f"Change 1 object at {world.sandbox.url} (context 'right')? [y/N]"
    assert question in result.stderr
    assert world.get_finalizers() == [FINALIZER]


def test_k27_clusters_with_no_kubeconfig_are_named_by_their_servers(
    world, invoke_with, config, monkeypatch
):
    from kopf_cogs.clients.vault import Vault
    from kopf_cogs.structs.credentials import ConnectionInfo
    from kopf_kits.cli.controls import CLIControls

    world.create(finalizers=[FINALIZER])
    monkeypatch.setenv("KUBECONFIG", str(config))
    vault = Vault({"login": ConnectionInfo(server=world.sandbox.url)})
    result = invoke_with(CLIControls(vault=vault), "release", "kex", "obj")
    assert f"Change 1 object at {world.sandbox.url}? [y/N]" in result.stderr
