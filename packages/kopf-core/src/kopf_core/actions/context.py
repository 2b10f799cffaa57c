"""The ambient state: the operator and the invocation in which users' code runs.

Only from users' functions, calls go back from the upper layers to the framework (``kopf.info()``,
``@kopf.subhandler``, ``kopf.adopt()``) without room for parameters. Context variables serve them.
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

    Sub-handlers registered by the handler are collected in ``subhandlers``; they are run
    when the handler returns, unless it did so by itself.
    """

    handler: BaseHandler
    cause: BaseCause
    execution: "Execution"
    """How it is called; its sub-handlers are called in the same way."""

    subhandlers: list[BaseHandler] = field(default_factory=list)
    subrefs: set[HandlerId] = field(default_factory=set)
    executed: list[bool] = field(default_factory=list)
    """Not empty if the handler has run the ``subhandlers`` explicitly."""

    run: Fn | None = None
    """The async function that is called instead of the function of the handler, if there is one."""

    flush: Flush | None = None
    """The function that sends the changes before the handler returns, if that is possible."""

    said: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    """The pending changes of the status, and the status as a model has said it last."""


operator_var: ContextVar[OperatorContext] = ContextVar("kopf_operator")
"""The operator; set when it is run, and never replaced in what it runs."""

invocation_var: ContextVar[Invocation] = ContextVar("kopf_invocation")
"""The attempt of a handler; set for one call of its function, with all tasks and threads of it."""

loading_var: ContextVar[Callable[[], None] | None] = ContextVar("kopf_loading", default=None)
"""The listener for operators that start while files are only loaded; it can refuse them."""


def current_invocation() -> Invocation:
    """The current invocation; raises :class:`LookupError` outside of handlers."""
    try:
        return invocation_var.get()
    except LookupError:
        raise LookupError("This function can only be used inside of a handler.") from None


def current_body() -> Body:
    """The object being handled; raises :class:`LookupError` outside of its handlers."""
    body = getattr(current_invocation().cause, "body", None)
    if body is None:
        raise LookupError("There is no object being handled by this handler.")
    assert isinstance(body, Body)
    return body
