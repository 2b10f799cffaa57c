"""Other objects of the cluster, from inside of async handlers: ``await kopf.api.get(...)``.

All requests go through the operator's own client: with its credentials, retries, and limits.
Kinds are named in any notation of the decorators, e.g. ``pods`` or ``deployments.apps``.
The default namespace is the namespace of the handled object.

If a handler does not catch an error of the API, Kopf retries the handler. Errors that can go away
by themselves (conflicts, throttling, failures of the server) are temporary errors.
"""

import asyncio
import enum
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from kopf_cogs.clients.errors import APIConflictError as APIConflictError
from kopf_cogs.clients.errors import APIError as APIError
from kopf_cogs.clients.errors import APIForbiddenError as APIForbiddenError
from kopf_cogs.clients.errors import APINotFoundError as APINotFoundError
from kopf_cogs.clients.errors import APIUnprocessableError as APIUnprocessableError
from kopf_cogs.clients.kinds import Kind
from kopf_cogs.clients.kinds import UnknownKindError as UnknownKindError
from kopf_cogs.clients.objects import Listing, Obj, ObjectsAPI, Propagation
from kopf_cogs.structs.bodies import Body
from kopf_core.actions.adoption import adopt_child
from kopf_core.actions.context import current_body, operator_var

P = ParamSpec("P")
R = TypeVar("R")


class _Here(enum.Enum):
    HERE = "the namespace of the object being handled"

    def __repr__(self) -> str:
        return "HERE"


HERE: Final = _Here.HERE
"""The default of namespaces: that of the object being handled."""

Namespace = str | _Here | None


def _async_only(fn: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Refuse calls from threads: a thread cannot await, so the call would silently do nothing."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        _refuse_sync_callers(fn.__name__)
        return fn(*args, **kwargs)

    # Mocks and other tools must still see a coroutine function.
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(call)
    call._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return call


def _refuse_sync_callers(name: str) -> None:
    if operator_var.get(None) is None:
        return  # outside of operators, ``current_api()`` raises its own error
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"kopf.api.{name}() is only for async functions, to be awaited there; "
            f"in sync functions, call kopf.sync_api.{name}()."
        ) from None


@_async_only
async def get(
    kind: Kind, name: str, *, namespace: Namespace = HERE, subresource: str | None = None
) -> Obj:
    """Get one object. Raises :class:`APINotFoundError` if there is none of this name."""
    return await current_api().get(kind, name, _resolve(namespace), subresource=subresource)


def list(
    kind: Kind,
    *,
    namespace: Namespace = HERE,
    labels: Mapping[str, str] | str | None = None,
    fields: Mapping[str, str] | str | None = None,
    chunk_size: int | None = None,
) -> Listing:
    """List objects: ``await`` for all at once, ``async for`` to have only a page in memory.

    With ``namespace=None``, list the objects of the whole cluster. ``labels`` and ``fields`` are
    selectors as in kubectl, or mappings of exact values.
    """
    _refuse_sync_callers("list")
    return current_api().list(
        kind, _resolve(namespace), labels=labels, fields=fields, chunk_size=chunk_size
    )


@_async_only
async def create(
    body: Mapping[str, Any],
    *,
    kind: Kind | None = None,
    namespace: Namespace = HERE,
    adopt: bool = False,
    dry_run: bool = False,
) -> Obj:
    """Create an object; get it as it is stored. Raises :class:`APIConflictError` if it exists.

    With ``adopt``, it belongs to the object being handled, and is deleted with it.
    """
    api = current_api()
    payload = await _adopt(api, body, kind) if adopt else body
    return await api.create(payload, kind=kind, namespace=_resolve(namespace), dry_run=dry_run)


@_async_only
async def apply(
    body: Mapping[str, Any],
    *,
    kind: Kind | None = None,
    namespace: Namespace = HERE,
    subresource: str | None = None,
    adopt: bool = False,
    force: bool = True,
    dry_run: bool = False,
) -> Obj:
    """Make an object have these fields, whether it exists or not: the server-side apply.

    The API server removes the fields that you have applied before and do not apply now.
    It keeps the fields of other managers. If another manager has set the same fields, they become
    yours; with ``force=False``, :class:`APIConflictError` is raised. With ``adopt``, the object
    belongs to the object being handled.
    """
    api = current_api()
    payload = await _adopt(api, body, kind) if adopt else body
    return await api.apply(
        payload,
        kind=kind,
        namespace=_resolve(namespace),
        subresource=subresource,
        force=force,
        dry_run=dry_run,
    )


@_async_only
async def patch(
    kind: Kind,
    name: str,
    patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    namespace: Namespace = HERE,
    subresource: str | None = None,
    strategic: bool = False,
    dry_run: bool = False,
) -> Obj:
    """Change an object: by a merge patch if it is a mapping, by a JSON patch if it is a list."""
    return await current_api().patch(
        kind,
        name,
        patch,
        _resolve(namespace),
        subresource=subresource,
        strategic=strategic,
        dry_run=dry_run,
    )


@_async_only
async def delete(
    kind: Kind,
    name: str,
    *,
    namespace: Namespace = HERE,
    uid: str | None = None,
    propagation: Propagation | None = None,
    grace_period: int | None = None,
    missing_ok: bool = False,
    dry_run: bool = False,
) -> None:
    """Delete an object; with ``uid``, only that very one. It can live on until it is released.

    ``grace_period`` is in seconds. With ``missing_ok``, it is fine if there is none already.
    """
    await current_api().delete(
        kind,
        name,
        _resolve(namespace),
        uid=uid,
        propagation=propagation,
        grace_period=grace_period,
        missing_ok=missing_ok,
        dry_run=dry_run,
    )


def current_api() -> ObjectsAPI:
    """The client of the current operator. Raises :class:`LookupError` outside of operators."""
    try:
        operator = operator_var.get()
    except LookupError:
        operator = None
    if operator is None:
        raise LookupError("kopf.api works only in handlers: here is no operator to take it from.")
    if operator.api is None:
        raise LookupError("kopf.api works only where there is one cluster: here are several.")
    return operator.api


async def _adopt(api: ObjectsAPI, body: Mapping[str, Any], kind: Kind | None) -> Mapping[str, Any]:
    resource = await (api.kinds.resolve_body(body) if kind is None else api.kinds.resolve(kind))
    return adopt_child(body, current_body(), namespaced=bool(resource.namespaced))


def _resolve(namespace: Namespace) -> str | None:
    if not isinstance(namespace, _Here):
        return namespace
    body: Body | None
    try:
        body = current_body()
    except LookupError:
        body = None
    return None if body is None else body.metadata.namespace
