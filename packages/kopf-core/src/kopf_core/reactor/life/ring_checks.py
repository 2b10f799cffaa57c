"""Checks of the ring: whether its sharder can assign objects of all handled kinds to this shard."""

import asyncio
import logging
from collections.abc import Collection, Iterator
from typing import Any

from kopf_cogs.clients.errors import APIError, APIForbiddenError, APINotFoundError
from kopf_cogs.structs.credentials import LoginError
from kopf_cogs.structs.resources import Resource
from kopf_core.intents.registries import OperatorRegistry
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.shape.servable import find_obstacle, match_handlers

logger = logging.getLogger("kopf.sharding")

URL = "/apis/sharding.timebertt.dev/v1alpha1/controllerrings"
MAX_NAMED = 5
"""How many kinds one line of the log names."""


async def check_ring(essentials: Essentials) -> None:
    """Warn of what the ring lacks, for the kinds at the start and for the later ones. Never ends.

    The operator works in any case. It needs no right to read the ring.
    """
    insights, ring = essentials.insights, essentials.settings.sharding.ring or ""
    changed = asyncio.Event()
    insights.listen(lambda _: changed.set())
    await insights.known.wait()
    checked: set[str] = set()
    while True:
        changed.clear()
        kinds = set(list_shared(essentials.options.registry, insights.resources))
        if kinds - checked:
            await _check(essentials, ring, kinds - checked)
        checked |= kinds
        await changed.wait()


async def _check(essentials: Essentials, ring: str, kinds: Collection[str]) -> None:
    try:
        body = await essentials.free_client.get(f"{URL}/{ring}")
    except APINotFoundError:
        logger.warning(
            f"There is no ControllerRing {ring!r} in the cluster: "
            f"until a sharder has it, no objects are assigned to this operator."
        )
    except APIForbiddenError:
        logger.info(f"The ControllerRing {ring!r} is not checked: this operator may not get it.")
    except (APIError, LoginError) as e:
        logger.info(f"The ControllerRing {ring!r} is not checked: {e}")
    else:
        for line in judge_ring(body, kinds):
            logger.warning(f"The ControllerRing {ring!r} {line}")


def list_shared(registry: OperatorRegistry, resources: Collection[Resource]) -> Iterator[str]:
    """The kinds whose objects are shared. Kinds that are only indexed or related are not."""
    chosen = {one: one.resolve(resources).resources for one in registry.selectors}
    for kind, handlers in match_handlers(registry, chosen).items():
        is_shared = handlers.watching or handlers.requires_patching
        if is_shared and find_obstacle(kind, handlers) is None:
            yield kind.name


def judge_ring(body: Any, kinds: Collection[str]) -> Iterator[str]:
    """Find the problems of the ring for these kinds: the ends of sentences about it."""
    main = [one for one in _get_list(_get(body, "spec"), "resources") if isinstance(one, dict)]
    controlled = {_name(each) for one in main for each in _get_list(one, "controlledResources")}
    unlisted = {*kinds} - {_name(one) for one in main}
    if lacking := unlisted - controlled:
        yield (
            f"lacks {_enumerate(lacking)}: the sharder assigns no such objects. "
            f"Add them to its spec.resources."
        )
    if moved := unlisted & controlled:
        yield (
            f"has {_enumerate(moved)} in controlledResources: the sharder moves such objects while "
            f"handlers work on them. Add them to its spec.resources."
        )


def _get(body: Any, key: str) -> Any:
    return body.get(key) if isinstance(body, dict) else None


def _get_list(body: Any, key: str) -> list[Any]:
    value = _get(body, key)
    return value if isinstance(value, list) else []


def _name(listed: Any) -> str:
    return f"{_get(listed, 'resource')}.{_get(listed, 'group') or ''}".rstrip(".")


def _enumerate(names: Collection[str]) -> str:
    more = f", and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(sorted(names)[:MAX_NAMED]) + more
