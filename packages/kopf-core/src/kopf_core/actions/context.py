"""The ambient state: the operator and the invocation in which users' code runs.

Users' functions call the framework (``kopf.info()``, ``@kopf.subhandler``, ``kopf.adopt()``), and
these calls have no parameter for the state. So the state is in context variables.
All context variables, and the reasons for them, are listed in ``docs/reference/architecture.md``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, ObjectReference
from kopf_cogs.structs.ids import HandlerId
from kopf_core.actions.bases import BaseCause, BaseHandler, Fn

if TYPE_CHECKING:
    from kopf_cogs.clients.objects import ObjectsAPI
    from kopf_cogs.clients.session import Client
    from kopf_core.actions.execution import Execution


class Recorder(Protocol):
    """An event recorder: takes Kubernetes events to be posted in the background."""

    def record(
        self,
        ref: ObjectReference,
        *,
        type: str,
        reason: str,
        message: str,
        backoffs: Any = None,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The operator that the current code runs in."""

    settings: OperatorSettings
    recorder: Recorder
    client: "Client | None" = None
    """The operator's own client, for webhook servers that need it."""

    api: "ObjectsAPI | None" = None
    """All other objects of the cluster, through the operator's own client."""

    loop: asyncio.AbstractEventLoop | None = None
    """The event loop of the operator, for functions that are called in threads."""


Flush = Callable[[], Awaitable[None]]
"""Sends the changes of a function that still runs."""


@dataclass(slots=True, eq=False)
class Invocation:
    """The attempt of a handler that the current code runs in.

    The handler registers its sub-handlers in ``subhandlers``. Kopf runs them when the handler
    returns, unless the handler has run them itself.
    """

    handler: BaseHandler
    cause: BaseCause
    execution: "Execution"
    """The way to call the handler; its sub-handlers are called in the same way."""

    subhandlers: list[BaseHandler] = field(default_factory=list)
    subrefs: set[HandlerId] = field(default_factory=set)
    executed: list[bool] = field(default_factory=list)
    """Not empty if the handler has run the ``subhandlers`` explicitly."""

    run: Fn | None = None
    """The async function that is called instead of the function of the handler, if there is one."""

    flush: Flush | None = None
    """The function that sends the changes before the handler returns, if that is possible."""

    said: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    """The pending changes of the status, and the latest status that a model has described."""


operator_var: ContextVar[OperatorContext] = ContextVar("kopf_operator")
"""The operator. It is set when the operator starts, and stays the same in all its tasks."""

invocation_var: ContextVar[Invocation] = ContextVar("kopf_invocation")
"""The attempt of a handler; set for one call of its function, in all its tasks and threads."""

loading_var: ContextVar[Callable[[], None] | None] = ContextVar("kopf_loading", default=None)
"""The listener for operators that start while Kopf only loads files; it can refuse them."""


def current_invocation() -> Invocation:
    """The current invocation; raises :class:`LookupError` outside of handlers."""
    try:
        return invocation_var.get()
    except LookupError:
        raise LookupError(
            "This function can only be used inside of a handler, or in kopf.testing.Connected."
        ) from None


def current_body() -> Body:
    """The object being handled; raises :class:`LookupError` outside of its handlers."""
    body = getattr(current_invocation().cause, "body", None)
    if body is None:
        raise LookupError("There is no object being handled by this handler.")
    assert isinstance(body, Body)
    return body
