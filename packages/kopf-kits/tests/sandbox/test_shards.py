"""Lists and streams of shards, as of real servers with the feature gate ShardedListAndWatch."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest

from kopf_kits.sandbox import ClusterOptions, Sandbox

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS = "/apis/kopf.dev/v1/namespaces/default/kopfexamples"
LOW = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
HIGH = "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
SENSELESS = "shardRange(object.metadata.uid, '0x0000000000000005', '0x0000000000000003')"


@pytest.fixture
def sharded() -> bool:
    return True


@pytest.fixture
async def sandbox(sharded: bool) -> AsyncIterator[Sandbox]:
    async with Sandbox(options=ClusterOptions(sharded=sharded)) as sandbox:
        yield sandbox


@pytest.fixture
async def names(sandbox: Sandbox) -> list[str]:
    names = [f"x{number}" for number in range(20)]
    for name in names:
        head = {"apiVersion": "v1", "kind": "ConfigMap"}
        await sandbox.create({**head, "metadata": {"name": name, "namespace": "default"}})
    return names


def select(path: str, selector: str, **params: Any) -> str:
    return f"{path}?{urlencode({'shardSelector': selector, **params})}"


def list_names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def test_o_shards_are_parts_of_the_whole(client, names):
    low = list_names(await client.get(select(CONFIGMAPS, LOW)))
    high = list_names(await client.get(select(CONFIGMAPS, HIGH)))
    both = list_names(await client.get(select(CONFIGMAPS, f"{LOW} || {HIGH}")))
    assert low
    assert high
    assert sorted(low + high) == sorted(both) == sorted(names)


async def test_o_lists_of_builtin_kinds_tell_their_shards(client, crd):
    configmaps = await client.get(select(CONFIGMAPS, LOW))
    objects = await client.get(select(OBJECTS, LOW))
    assert configmaps.json["metadata"]["shardInfo"] == {"selector": LOW}
    assert "shardInfo" not in objects.json["metadata"]


async def test_o_the_remaining_objects_are_those_of_all_shards(client, names):
    answer = await client.get(select(CONFIGMAPS, LOW, limit=2))
    assert answer.json["metadata"]["remainingItemCount"] == len(names) - 2


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            SENSELESS,
            "shard range start 0x0000000000000005 must be less than end 0x0000000000000003",
        ),
        ("garbage", "invalid shard selector: garbage"),
    ],
)
async def test_o_wrong_selectors_are_refused(client, selector, message):
    answer = await client.get(select(CONFIGMAPS, selector))
    assert answer.status == 500
    assert message in answer.json["message"]


@pytest.mark.parametrize("sharded", [False])
@pytest.mark.parametrize("selector", [LOW, SENSELESS, "garbage"])
async def test_o_selectors_are_ignored_silently_with_the_gate_closed(client, names, selector):
    answer = await client.get(select(CONFIGMAPS, selector))
    assert sorted(list_names(answer)) == sorted(names)
    assert "shardInfo" not in answer.json["metadata"]
