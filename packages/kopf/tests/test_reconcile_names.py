"""Operators with and without names: which of the children are surely of this one."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from .conftest import Websites, config_map

HINT = "set `settings.name`"


def start(websites: Websites, prefix: str) -> Websites:
    """One of several operators: the id of its reconciler is as of the others, the kind is, too."""
    other = Websites(websites.sandbox)

    @other.reconcile(id="fn")
    def fn(spec: Any, conditions: Any, **_: Any) -> Iterator[Any]:
        for number in range(spec["n"]):
            yield config_map(f"{prefix}-{number}")
        conditions.set(prefix.capitalize(), True, message=str(spec["n"]))

    return other


def is_said(prefix: str, n: int) -> Any:
    def check(body: Any) -> bool:
        found = body.get("status", {}).get("conditions", ())
        return (prefix.capitalize(), str(n)) in [(c["type"], c["message"]) for c in found]

    return check


async def test_k10_operators_with_no_names_do_not_prune_children_of_each_other(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """But what they have wanted themselves, they do."""
    await websites.apply(n=2)
    async with AsyncExitStack() as stack:
        for prefix in ("one", "two"):
            await stack.enter_async_context(start(websites, prefix).operating())
        for prefix in ("one", "two"):
            await websites.wait(websites.kind, "web", check=is_said(prefix, 2))
        assert await websites.names() == ["one-0", "one-1", "two-0", "two-1"]
        await websites.patch(n=1)
        for prefix in ("one", "two"):
            await websites.wait(websites.kind, "web", check=is_said(prefix, 1))
            await websites.wait("configmaps", f"{prefix}-1", gone=True)
    assert await websites.names() == ["one-0", "two-0"]
    assert not [entry for entry in websites.writes() if entry in ("DELETE one-0", "DELETE two-0")]
    assert len([text for text in caplog.messages if HINT in text]) == 2  # by one of each operator


async def test_k10_what_can_be_of_others_is_left_by_operators_with_no_names(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """E.g. what was not wanted anymore while this one was down."""
    await websites.apply(n=3)
    async with start(websites, "one").operating():
        await websites.wait(websites.kind, "web", check=is_said("one", 3))
    await websites.patch(n=1)
    async with start(websites, "one").operating():
        await websites.wait(websites.kind, "web", check=is_said("one", 1))
    assert await websites.names() == ["one-0", "one-1", "one-2"]
    (line,) = [text for text in caplog.messages if HINT in text]
    assert "ConfigMap ns1/one-" in line


async def test_k10_operators_with_names_prune_whatever_is_theirs(
    websites: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await websites.apply(n=3)
    for n in (3, 1):
        operator = start(websites, "one")
        operator.settings.name = "one.example.com"
        await websites.patch(n=n)
        async with operator.operating():
            await websites.wait(websites.kind, "web", check=is_said("one", n))
            for number in range(n, 3):
                await websites.wait("configmaps", f"one-{number}", gone=True)
    assert await websites.names() == ["one-0"]
    assert HINT not in caplog.text
