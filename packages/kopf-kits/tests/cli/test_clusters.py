"""``kopf run --context a --context b``: one process serves several clusters, seen from outside."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kopf_kits.sandbox import SandboxThread

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="There are no such signals."),
]

OPERATOR = """
from kopf_core.intents import decorators as on

@on.startup()
def startup(**_):
    print("starts", flush=True)

@on.cleanup()
def cleanup(**_):
    print("ends", flush=True)

@on.create("kopfexamples")
async def create_fn(cluster, name, **_):
    print(cluster, name, flush=True)
"""

NAMES = ("east", "west")


@pytest.fixture
def clusters(
    crd_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, SandboxThread]]:
    """Two clusters, and a kubeconfig with a context for each; a third context leads nowhere."""
    with ExitStack() as stack:
        found = {name: stack.enter_context(SandboxThread()) for name in NAMES}
        for cluster in found.values():
            cluster.apply(crd_path)
        urls = {**{name: one.url for name, one in found.items()}, "down": "http://127.0.0.1:1"}
        content = {
            "contexts": [{"name": key, "context": {"cluster": key, "user": "u"}} for key in urls],
            "clusters": [{"name": key, "cluster": {"server": url}} for key, url in urls.items()],
            "users": [{"name": "u", "user": {"token": "tok"}}],
            "current-context": "down",
        }
        (tmp_path / "config").write_text(json.dumps(content))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        yield found


def test_o_one_process_serves_the_clusters_that_are_up(
    clusters: dict[str, SandboxThread], tmp_path: Path
) -> None:
    (tmp_path / "operator.py").write_text(OPERATOR)
    for cluster in clusters.values():
        body = {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "obj"}}
        cluster.create(body)
    contexts = [f"--context={name}" for name in (*clusters, "down")]
    command = [sys.executable, "-m", "kopf_kits.cli", "run", "-A", *contexts]
    failure = "[down] Request attempt #1 failed; will retry in 1 seconds: GET /api"
    with subprocess.Popen(
        [*command, str(tmp_path / "operator.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        text = ""
        while failure not in text:
            line = process.stderr.readline()
            assert line, text
            text += line
        lines = [process.stdout.readline().strip() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        lines += [line.strip() for line in process.stdout]
        text += process.stderr.read()
        code = process.wait(timeout=60)
    assert (lines[0], sorted(lines[1:3]), lines[3:]) == (
        "starts",
        ["east obj", "west obj"],
        ["ends"],
    )
    assert code == 0, text
    assert "[INFO    ] Signal SIGTERM is received. Operator is stopping." in text
    for name in NAMES:
        assert f"[{name}] [default/obj] Handler 'create_fn' succeeded." in text
