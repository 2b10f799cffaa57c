"""The picture of the status page in the docs: ``python tools/status_picture.py``.

A real operator works on a sandbox: it leads, some objects are handled, one fails, one is paused.
Then, the page is shot by a headless Chromium, which is to be on PATH. Look at the picture.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import kopf
from kopf_kits.sandbox import Sandbox

DOCS = Path(__file__).resolve().parent.parent / "docs"
PORT = 8080
URL = f"http://127.0.0.1:{PORT}"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = "1150,1070"
COUNT = 24

registry = kopf.OperatorRegistry()


@kopf.on.create("websites", registry=registry)
async def deploy(name: str, **_: Any) -> None:
    if name == "blog":
        raise kopf.TemporaryError("The database is not ready yet.", delay=60)


@kopf.on.create("backups", registry=registry)
async def schedule(**_: Any) -> None:
    pass


@kopf.timer("backups", interval=3600, registry=registry)
async def back_up(**_: Any) -> None:
    pass


@kopf.daemon("websites", registry=registry)
async def ping(stopped: Any, **_: Any) -> None:
    await stopped.wait()


@kopf.index("backups", registry=registry)
async def by_site(spec: Any, name: str, **_: Any) -> dict[str, str]:
    return {spec["site"]: name}


@kopf.on.event("secrets", registry=registry)
async def watch(**_: Any) -> None:
    pass


def define(plural: str, kind: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


def make(kind: str, name: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    api = {"apiVersion": "example.com/v1", "kind": kind}
    return {**api, "metadata": metadata, "spec": {"site": name.partition("-")[0]}}


async def fill(sandbox: Sandbox) -> None:
    for n in range(COUNT):
        await sandbox.create(make("Website", f"site{n}"))
        await sandbox.create(make("Backup", f"site{n}-daily"))
    await sandbox.create(make("Website", "blog"))
    pause = {"kopf.zalando.org/paused": "by me: the database is being moved"}
    await sandbox.create(make("Website", "shop", **pause))


async def main() -> int:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("There is no Chromium.", file=sys.stderr)
        return 1
    async with Sandbox() as sandbox:
        await sandbox.apply(define("websites", "Website"))
        await sandbox.apply(define("backups", "Backup"))
        await fill(sandbox)

        @kopf.on.login(registry=registry)
        def login(**_: Any) -> kopf.ConnectionInfo:
            return kopf.ConnectionInfo(server=sandbox.url, default_namespace="default")

        socket.gethostname = lambda: "sites-6c9d7fb6d4-x2x8f"
        stop = asyncio.Event()
        settings = kopf.OperatorSettings()
        settings.execution.honor_pauses = True
        operator = kopf.operator(
            registry=registry,
            settings=settings,
            clusterwide=True,
            lease="sites",
            status_endpoint=URL,
            stop_flag=stop,
        )
        task = asyncio.create_task(operator)
        await asyncio.to_thread(shoot, browser)
        stop.set()
        await task
    return 0


def shoot(browser: str) -> None:
    """Wait until everything is handled, and take the picture."""
    while True:
        try:
            page = urllib.request.urlopen(f"{URL}/status").read().decode()
        except OSError:
            time.sleep(0.1)
            continue
        if "not ready yet" in page and "being moved" in page and "the leader is" in page:
            break
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}"]
    path = DOCS / "status.png"
    command = [browser, *options, f"--screenshot={path}", f"{URL}/status"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
