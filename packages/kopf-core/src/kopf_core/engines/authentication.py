"""Authentication: the vault of credentials is filled by login handlers whenever it is empty."""

import logging
from collections.abc import Callable
from typing import Any

from kopf_cogs.clients import incluster, kubeconfig, piggyback
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.errors import ErrorsMode, PermanentError
from kopf_core.engines.activities import ActivityError, ActivityRunner
from kopf_core.intents.causes import Activity
from kopf_core.intents.handlers import ActivityHandler
from kopf_core.intents.registries import OperatorRegistry

# The name is known to users: it is documented as a way to silence the frequent re-logins.
logger = logging.getLogger("kopf._core.engines.activities")


INITIAL = "Initial authentication"


class Authenticator:
    """Keeps the vault filled for as long as the operator runs."""

    def __init__(
        self,
        *,
        vault: Vault,
        registry: OperatorRegistry,
        activities: ActivityRunner,
    ) -> None:
        self._vault = vault
        self._registry = registry
        self._activities = activities
        self._counter = 0

    async def run(self) -> None:
        """Log in every time the credentials run out. Never ends on its own.

        Raises :class:`ActivityError` if logging in fails for good.
        """
        while True:
            await self._vault.wait_for_emptiness()
            await self._authenticate()

    async def _authenticate(self) -> None:
        title = INITIAL if not self._counter else "Re-authentication"
        self._counter += 1
        logger.info(f"{title} has been initiated.")
        handlers = self._registry.get_activity_handlers(Activity.AUTHENTICATION)
        try:
            results = await self._activities.run(
                Activity.AUTHENTICATION, handlers or get_default_logins(title == INITIAL)
            )
        except ActivityError as e:
            results = e.results  # some credentials are enough, wherever they are from
            if not results:
                raise
        if results:
            logger.info(f"{title} has finished.")
        else:
            logger.error(
                f"{title} has failed: no credentials were retrieved from the login handlers."
            )
        self._vault.populate({str(id): info for id, info in results.items()})


def get_default_logins(is_initial: bool = False) -> list[ActivityHandler]:
    """How to log in if there are no login handlers: via the client libraries if installed.

    Without them, the service account and the kubeconfig are tried by our own means.
    At the start, a failure is final: it is better to see it than to wait for a miracle.
    """
    errors = ErrorsMode.PERMANENT if is_initial else ErrorsMode.TEMPORARY
    fns: list[Callable[..., Any]] = []
    if piggyback.has_client():
        fns.append(piggyback.login_via_client)
    if piggyback.has_pykube():
        fns.append(piggyback.login_via_pykube)
    return [
        ActivityHandler(
            fn=fn,
            id=HandlerId(fn.__name__.lstrip("_")),
            activity=Activity.AUTHENTICATION,
            errors=errors,
        )
        for fn in fns or [_login_with_files]
    ]


def _login_with_files(**kwargs: Any) -> Any:
    connection = incluster.login_with_service_account(**kwargs) or kubeconfig.login_with_kubeconfig(
        **kwargs
    )
    if connection is None:
        raise PermanentError(
            "Cannot log in: there is neither a service account (not in a cluster?), nor a "
            "kubeconfig file (see $KUBECONFIG and ~/.kube/config), nor a login handler."
        )
    return connection
