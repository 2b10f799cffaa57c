"""Descriptions of kinds for people: the served kinds, and guesses for the kinds not found."""

import logging
from collections.abc import Collection, Iterable, Mapping

from kopf_cogs.helpers.similar import find_similar
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.intents.handlers import ReconcilingHandler, ResourceHandler
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers

logger = logging.getLogger("kopf._core.reactor.running")

MAX_ITEMS = 10
"""The number of resources named in one line: operators of everything have many."""

SIMILARITY = 0.75
"""How similar the names must be to suggest one for another, from 0 to 1."""


def announce_served(
    served: Mapping[Resource, ResourceHandlers], before: Collection[Resource]
) -> None:
    """Log which resources are served by how many handlers, and which are not served anymore."""
    added = {f"{res}": count_handlers(served[res]) for res in served if res not in before}
    removed = {f"{res}" for res in before if res not in served}
    if added:
        items = [f"{name} ({n} handler{'s' if n > 1 else ''})" for name, n in sorted(added.items())]
        logger.debug(f"Serving {'also ' if before else ''}{_join(items)}.")
    if removed:
        logger.info(f"Serving no more: {_join(sorted(removed))}.")


def count_handlers(handlers: ResourceHandlers) -> int:
    """The number of handlers of all kinds."""
    return len(handlers.all)


def describe_unresolved(
    selector: Selector, registry: OperatorRegistry, resources: Collection[Resource]
) -> str:
    """Name the handlers of the resources, and the resources that were probably meant."""
    ids = [repr(str(h.id)) for h in registry.resource_handlers if _is_needed(selector, h)]
    title = "handler" if len(ids) == 1 else "handlers"
    needed = f", needed by {title} {_join(ids)}" if ids else ""
    meant = _guess_meant(selector, resources)
    hint = f". Did you mean {meant!r}?" if meant else ""
    return f"{selector}{needed}{hint}"


def _is_needed(selector: Selector, handler: ResourceHandler) -> bool:
    if isinstance(handler, ReconcilingHandler):
        return selector in (handler.selector, *handler.owns, *handler.related)
    return selector == handler.selector


def _guess_meant(selector: Selector, resources: Collection[Resource]) -> str | None:
    """The nearest name; with its version and group if these are wrong."""
    known = {name: res for res in resources for name in (res.plural, res.kind, res.singular)}
    wanted = [name for name in selector.names if isinstance(name, str)]
    close = [find_similar(name, filter(None, known), similarity=SIMILARITY) for name in wanted]
    meant = next(filter(None, close), None)
    return f"{known[meant]}" if meant in wanted else meant


def _join(items: Iterable[str]) -> str:
    first = [*items]
    rest = f", and {len(first) - MAX_ITEMS} more" if len(first) > MAX_ITEMS else ""
    return ", ".join(first[:MAX_ITEMS]) + rest
