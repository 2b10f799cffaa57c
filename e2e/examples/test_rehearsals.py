"""What a rehearsal of an example predicts, is what its run does then; and it commits nothing."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.clusters import Cluster
from e2e.tests.gateways import WRITING, Gateway, Request
from kopf_cogs.clients.errors import APINotFoundError
from kopf_cogs.clients.rehearsal.addresses import ObjectKey
from kopf_cogs.clients.rehearsal.overlay import Difference
from kopf_cogs.clients.session import Client
from kopf_kits.cli.rehearsals import make_change
from kopf_kits.runner import KopfRunner

from .test_examples import KEX, MERGE, PATIENCE, ROOT, create_namespace, ensure_definition
from .test_examples import client as client

WEBSITES = "/apis/example.com/v1/namespaces/{}/websites"
EXAMPLES = {
    "01-minimal": KEX,
    "04-events": KEX,
    "05-handlers": KEX,
    "07-subhandlers": KEX,
    "08-watching": KEX,
    "09-testing": KEX,
    "11-filtering": KEX,
    "13-hooks": KEX,
    "14-daemons": KEX,
    "15-timers": KEX,
    "16-indexing": KEX,
    "17-admission": KEX,
    "18-website": WEBSITES,
    "99-all-at-once": KEX,
}
COLLECTIONS = ("configmaps", "pods", "services", "secrets")
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|\+00:00)|[0-9a-f]{8}-[-0-9a-f]{27}")

Snapshot = dict[ObjectKey, Any]


async def take_snapshot(client: Client, namespace: str, url: str) -> Snapshot:
    """All the objects that any of the examples could change."""
    kinds = {url, KEX.format(namespace), f"/apis/apps/v1/namespaces/{namespace}/deployments"}
    kinds |= {f"/api/v1/namespaces/{namespace}/{plural}" for plural in COLLECTIONS}
    found: Snapshot = {}
    for one in sorted(kinds):
        page = await client.get(one)
        common = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
        collection = one.replace(f"/namespaces/{namespace}", "")
        for item in page["items"]:
            found[ObjectKey(collection, namespace, item["metadata"]["name"])] = common | item
    return found


async def until_collected(client: Client, namespace: str, url: str) -> None:
    """Wait until the cluster has removed whatever has lost its owner."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await take_snapshot(client, namespace, url)).values()
            uids = {one["metadata"]["uid"] for one in found}
            refs = [ref for one in found for ref in one["metadata"].get("ownerReferences", ())]
            if all(ref["uid"] in uids for ref in refs):
                return
            await asyncio.sleep(0.1)


def compare(before: Snapshot, after: Snapshot) -> list[Any]:
    """What has changed, in the same form as rehearsals tell of that."""
    keys = sorted(before.keys() | after.keys())
    changes = [make_change(Difference(key, before.get(key), after.get(key))) for key in keys]
    return [one for one in changes if one["fields"] or one["action"] != "change"]


def normalise(changes: Iterable[Any]) -> Any:
    return json.loads(TIMES.sub("(varies)", json.dumps([*changes])))


async def run_once(name: str, namespace: str, *options: str) -> tuple[int, str]:
    """Run the example as a user would; get the exit code, and what it prints."""
    command = ["run", "--once", "--standalone", "--timeout=60", "-n", namespace, *options]
    with KopfRunner([*command, str(ROOT / name / "example.py")], reraise=False) as runner:
        await asyncio.to_thread(runner.future.result, PATIENCE)
    assert runner.exit_code in (0, 3), runner.output
    return runner.exit_code, runner.stdout


async def rehearse(name: str, namespace: str, gateway: Gateway, path: Path) -> tuple[int, Any]:
    """Rehearse through the gateway; all writes in its journal must be dry."""
    since = len(gateway.requests)
    with pytest.MonkeyPatch.context() as patching:
        patching.setenv("KUBECONFIG", str(gateway.write_kubeconfig(path)))
        code, text = await run_once(name, namespace, "--dry-run", "-o", "json")
    journal = gateway.requests[since:]
    writes = [r for r in journal if r.method in WRITING and not is_review(r)]
    assert journal
    assert writes or not code
    assert [r for r in writes if "dryRun=All" not in r.query] == []
    report = json.loads(text[text.index('{\n  "changes"') :])  # examples print other things, too
    assert report["unfinished"] == []
    return code, normalise(report["changes"])


def is_review(request: Request) -> bool:
    """Whether it is a question about rights: nothing is stored of it."""
    return request.path.startswith("/apis/authorization.k8s.io/")


async def check_step(
    name: str, namespace: str, client: Client, url: str, gateway: Gateway, path: Path
) -> list[Any]:
    """Rehearse and run; get what has changed."""
    before = await take_snapshot(client, namespace, url)
    code, predicted = await rehearse(name, namespace, gateway, path)
    assert await take_snapshot(client, namespace, url) == before  # their versions included
    assert (code == 3) == bool(predicted)
    _, text = await run_once(name, namespace)
    done = normalise(compare(before, await take_snapshot(client, namespace, url)))
    assert done == predicted, text
    return done


def load(name: str) -> dict[str, Any]:
    path = ROOT / name / "obj.yaml"
    obj: dict[str, Any] = yaml.safe_load((path if path.exists() else ROOT / "obj.yaml").read_text())
    obj["metadata"].pop("namespace", None)
    return obj


@pytest.fixture
async def gateway(cluster: Cluster) -> AsyncIterator[Gateway]:
    async with Gateway(cluster).running() as gateway:
        yield gateway


@pytest.mark.long
@pytest.mark.timeout(600)
# Connections with TLS are closed in the background, and the loops of operators end before that.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", EXAMPLES)
async def test_n5_rehearsals_predict_and_commit_nothing(
    name: str, client: Client, gateway: Gateway, tmp_path: Path
) -> None:
    namespace, obj = f"rehearsal-{name}-{os.getpid()}", load(name)
    url = EXAMPLES[name].format(namespace)
    if EXAMPLES[name] == WEBSITES:
        crd = ROOT / name / "crd.yaml"
        await ensure_definition(client, crd, "/apis/example.com/v1/websites")
    await create_namespace(client, namespace)
    for title in ("one", "two"):
        await client.post(url, {**obj, "metadata": {**obj["metadata"], "name": title}})
    place = (gateway, tmp_path / "gateway.config")
    done = await check_step(name, namespace, client, url, *place)
    assert done or name in ("08-watching", "16-indexing")  # these only look
    change = {"replicas": 3} if EXAMPLES[name] == WEBSITES else {"field": "changed"}
    await client.patch(f"{url}/one", {"spec": change}, content_type=MERGE)
    await client.delete(f"{url}/two")
    await until_collected(client, namespace, url)
    await check_step(name, namespace, client, url, *place)
    code, predicted = await rehearse(name, namespace, *place)
    assert (code, predicted) == (0, [])  # there is nothing more to be done
    with pytest.raises(APINotFoundError):
        await client.get(f"{url}/two")
    gc.collect()  # of what is left by those loops, nothing is to be told in other tests
