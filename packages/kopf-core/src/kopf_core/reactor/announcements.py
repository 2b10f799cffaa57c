"""Announcements: what people read at the start of an operator, one line for each topic."""

import dataclasses
import logging
import urllib.parse
from collections.abc import Collection, Iterable, Mapping

from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.similar import find_similar
from kopf_cogs.helpers.versions import get_version
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.selectors import Selector
from kopf_core.intents.handlers import ReconcilingHandler, ResourceHandler
from kopf_core.intents.registries import OperatorRegistry, ResourceHandlers
from kopf_core.reactor.essentials import OperatorOptions

logger = logging.getLogger("kopf._core.reactor.running")

MAX_ITEMS = 10
"""How many resources are named in one line: there are many of them if everything is served."""

SIMILARITY = 0.75
"""How similar the names must be to suggest one for another, from 0 to 1."""


def announce_start(options: OperatorOptions) -> None:
    """Say the version and the scope; if the scope is not chosen, there is a warning already."""
    logger.debug(f"Starting Kopf {get_version()}.")
    if options.clusterwide:
        logger.debug("The scope is the whole cluster.")
    elif options.namespaces:
        names = ", ".join(str(pattern) for pattern in options.namespaces)
        logger.debug(f"The scope is these namespaces: {names}.")


class ConnectionAnnouncer:
    """Says where the operator works, and who it is there: by names, with no secrets. Once.

    In the election of a leader, it has a name of its own, which is said there.
    """

    def __init__(self, vault: Vault, settings: OperatorSettings, identity: str) -> None:
        self._vault = vault
        self._settings = settings
        self._identity = identity
        self._is_over = False

    def observe(self, _: Collection[Resource]) -> None:
        """The cluster has answered."""
        if self._is_over:
            return
        self._is_over = True
        if self._settings.leasing.name is None:
            logger.debug(f"This operator is {self._identity!r}.")
        items = self._vault.items
        for server in sorted({item.info.server for item in items}):
            names = ", ".join(repr(str(item.key)) for item in items if item.info.server == server)
            logger.debug(f"Connected to {_hide_password(server)} with the credentials of {names}.")


def announce_served(
    served: Mapping[Resource, ResourceHandlers], before: Collection[Resource]
) -> None:
    """Say which resources are served by how many handlers, and which are not anymore."""
    added = {f"{res}": count_handlers(served[res]) for res in served if res not in before}
    removed = {f"{res}" for res in before if res not in served}
    if added:
        items = [f"{name} ({n} handler{'s' if n > 1 else ''})" for name, n in sorted(added.items())]
        logger.debug(f"Serving {'also ' if before else ''}{_join(items)}.")
    if removed:
        logger.info(f"Serving no more: {_join(sorted(removed))}.")


def count_handlers(handlers: ResourceHandlers) -> int:
    """How many handlers there are of all kinds."""
    values = [getattr(handlers, field.name) for field in dataclasses.fields(handlers) if field.init]
    return sum(len(value) for value in values if isinstance(value, tuple))


def describe_unresolved(
    selector: Selector, registry: OperatorRegistry, resources: Collection[Resource]
) -> str:
    """Whose resources they are, and what was probably meant."""
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
    """The nearest name; with its version and group if it is them that are wrong."""
    known = {name: res for res in resources for name in (res.plural, res.kind, res.singular)}
    wanted = [name for name in selector.names if isinstance(name, str)]
    close = [find_similar(name, filter(None, known), similarity=SIMILARITY) for name in wanted]
    meant = next(filter(None, close), None)
    return f"{known[meant]}" if meant in wanted else meant


def _join(items: Iterable[str]) -> str:
    first = [*items]
    rest = f", and {len(first) - MAX_ITEMS} more" if len(first) > MAX_ITEMS else ""
    return ", ".join(first[:MAX_ITEMS]) + rest


def _hide_password(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
