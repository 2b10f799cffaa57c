"""The examples of the layers as libraries, run as processes: they are what users begin with."""

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path

from kopf.testing import Sandbox

EXAMPLES = Path(__file__).parents[3] / "examples" / "layers"
PATIENCE = 120.0
"""In seconds; it is only reached when a test fails."""


def make_plugin(folder: Path) -> Path:
    """A program that prints a token, as those of the clouds do."""
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    path = folder / "plugin.sh"
    path.write_text(f"#!/bin/sh\necho {shlex.quote(json.dumps(kind | {'status': {'token': 'x'}}))}")
    path.chmod(0o700)
    return path


async def test_k22_the_example_of_the_client_logs_in_with_plugins(tmp_path: Path) -> None:
    async with Sandbox() as sandbox:
        config = sandbox.kubeconfig()
        exec_ = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(make_plugin(tmp_path)),
            "interactiveMode": "Never",
        }
        config["users"][0]["user"] = {"exec": exec_}
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        script = EXAMPLES / "cogs" / "example.py"
        command = [sys.executable, script, "default", "settings", "color=blue"]
        process = await asyncio.create_subprocess_exec(
            *command,
            env=os.environ | {"KUBECONFIG": str(path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                seen = [(await process.stdout.readline()).decode() for _ in range(2)]
                assert seen[1:] == ["Waiting for the confirmation.\n"], seen
                metadata = {"annotations": {"confirmed": "yes"}}
                await sandbox.patch("configmaps", "settings", {"metadata": metadata})
                assert await process.stdout.read() == b"It is confirmed.\n"
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
