"""Announcements of the start: the version, the cluster, and the identity of the operator."""

import logging
import urllib.parse
from collections.abc import Collection

from kopf_cogs.clients.vault import Vault
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.helpers.versions import get_version
from kopf_cogs.structs.resources import Resource
from kopf_core.reactor.life.essentials import OperatorOptions

logger = logging.getLogger("kopf._core.reactor.running")


def announce_start(options: OperatorOptions) -> None:
    """Log the version and the scope. If the scope is not chosen, there is a warning already."""
    logger.debug(f"Starting Kopf {get_version()}.")
    if options.clusterwide and options.is_clusterwide:
        logger.debug("The scope is the whole cluster.")
    elif options.namespaces:
        names = ", ".join(str(pattern) for pattern in options.namespaces)
        logger.debug(f"The scope is these namespaces: {names}.")
    if options.settings.scanning.namespace_selector is not None:
        selector = options.settings.scanning.namespace_selector
        logger.debug(f"The scope is only the namespaces with these labels: {selector}.")


class ConnectionAnnouncer:
    """Logs once the cluster of the operator, and its identity there: names, with no secrets.

    The name of the operator in the election of a leader is logged by the election.
    """

    def __init__(self, vault: Vault, settings: OperatorSettings, identity: str) -> None:
        self._vault = vault
        self._settings = settings
        self._identity = identity
        self._is_over = False

    def observe(self, _: Collection[Resource]) -> None:
        """Log the connection, as the cluster has answered."""
        if self._is_over:
            return
        self._is_over = True
        if self._settings.leasing.name is None:
            logger.debug(f"This operator is {self._identity!r}.")
        items = self._vault.items
        for server in sorted({item.info.server for item in items}):
            names = ", ".join(repr(str(item.key)) for item in items if item.info.server == server)
            logger.debug(f"Connected to {_hide_password(server)} with the credentials of {names}.")


def _hide_password(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
