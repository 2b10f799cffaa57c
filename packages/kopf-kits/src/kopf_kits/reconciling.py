"""One pass of a reconciler as pure data: for unit tests with no cluster and no waiting."""

from __future__ import annotations

import asyncio
import copy
import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kopf_cogs.aiokits.clocks import SystemClock
from kopf_cogs.aiokits.pools import DaemonPool
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.ids import HandlerId
from kopf_cogs.structs.memos import Memo
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.bases import BaseHandler
from kopf_core.actions.context import Invocation, invocation_var
from kopf_core.actions.effects import merge_into
from kopf_core.engines.desired.badges import encode_strings
from kopf_core.engines.desired.driving import drive
from kopf_core.engines.desired.triggers import Again, Trigger
from kopf_core.engines.desired.wishes import check_wish
from kopf_core.intents.causes import ReconcilingCause
from kopf_core.intents.families import Family
from kopf_core.intents.views import find_views

Obj = Mapping[str, Any]
_NOT_EXECUTED: Any = None


@dataclass(slots=True)
class Reconciled:
    """The outcome of one pass of a reconciler."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    """The objects that the function wants, in its order, exactly as it has said them."""

    conditions: Mapping[str, Obj] = field(default_factory=dict)
    """The conditions of the object after the pass, by their types."""

    patch: Patch = field(default_factory=Patch)
    """The other changes of the primary object, including the conditions."""

    again: float | None = None
    """In how many seconds the function wants to be called again, if it does."""

    def __getitem__(self, kind: str) -> dict[str, Any]:
        """The first wanted object of the kind; :class:`KeyError` if there is none."""
        for body in self.objects:
            if body.get("kind") == kind:
                return body
        raise KeyError(kind)


def reconcile(
    fn: Callable[..., Any],
    body: Obj,
    *,
    children: Iterable[Obj] = (),
    related: Iterable[Obj] = (),
    triggers: Iterable[Trigger] = (Trigger("appeared"),),
    memo: Any = None,
    **kwargs: Any,
) -> Reconciled:
    """Call the reconciler for the object, as the operator would do, but with nothing applied.

    ``children`` are the objects that it owns already; ``related`` are the objects that it depends
    on. A generator gets each wanted object back, merged into the child of the same kind and name.
    So the function sees the statuses of children, and the ``data`` of Secrets that were yielded
    with ``stringData``. ``kwargs`` go to the function as they are,
    e.g. ``param``, ``dryrun``, or indices.

    Raises the errors of the function, e.g. ``kopf.TemporaryError``.
    """
    memo = Memo() if memo is None else memo
    one = _PurePass(fn, body, list(children), list(related), frozenset(triggers), memo, kwargs)
    with DaemonPool(1, name="kopf-pass") as pool:  # there can be another loop in this thread
        return pool.submit(lambda: asyncio.run(one.run())).result()


@dataclass(slots=True)
class _PurePass:
    fn: Callable[..., Any]
    body: Obj
    children: list[Obj]
    related: list[Obj]
    triggers: frozenset[Trigger]
    memo: Any
    kwargs: dict[str, Any]
    result: Reconciled = field(default_factory=Reconciled)

    async def run(self) -> Reconciled:
        cause, now = self._make_cause(), SystemClock().now()
        handler = BaseHandler(fn=self.fn, id=HandlerId("test"))
        invocation_var.set(Invocation(handler, cause, execution=_NOT_EXECUTED))
        defaults = {
            "param": None,
            "retry": 0,
            "started": now,
            "runtime": datetime.timedelta(0),
            "dryrun": False,
        }
        kwargs = defaults | cause.kwargs | self.kwargs
        views = find_views(self.fn)
        if views is not None:
            kwargs |= views.read(kwargs)
        await drive(self.fn, kwargs, accept=self._accept, executor=None)
        self.result.conditions = dict(cause.kwargs["conditions"])
        self.result.patch = cause.patch
        return self.result

    async def _accept(self, item: Any) -> Any:
        if isinstance(item, Again):
            again = self.result.again
            self.result.again = item.after if again is None else min(again, item.after)
            return None
        wanted = copy.deepcopy(dict(check_wish(item)))
        self.result.objects.append(wanted)
        live: dict[str, Any] = next(
            (copy.deepcopy(dict(c)) for c in self.children if _is_same(c, wanted, self.body)), {}
        )
        merge_into(live, wanted)
        encode_strings(live)
        return live

    def _make_cause(self) -> ReconcilingCause:
        body = Body(self.body)
        group, _, version = str(body.get("apiVersion") or "v1").rpartition("/")
        kind = str(body.get("kind") or "")
        home = body.metadata.namespace
        resource = Resource(group, version, f"{kind.lower()}s", kind, namespaced=bool(home))
        return ReconcilingCause(
            resource=replace(resource, subresources=frozenset({"status"})),
            body=body,
            patch=Patch(),
            settings=OperatorSettings(),
            record=self,
            indices={},
            children=_AnyFamily([], self.children, home),  # type: ignore[arg-type]
            related=_AnyFamily([], self.related, home),  # type: ignore[arg-type]
            triggers=self.triggers,
        )


class _AnyFamily(Family):
    """A family with no declared kinds: the kinds with no objects are just empty."""

    __slots__ = ()

    def __getitem__(self, kind: str) -> Mapping[str, Any]:
        return super().__getitem__(kind) if kind in [*self] else {}


def _is_same(child: Obj, wanted: Obj, owner: Obj) -> bool:
    names = [(obj.get("metadata") or {}).get("name") for obj in (child, wanted, owner)]
    return child.get("kind") == wanted.get("kind") and names[0] == (names[1] or names[2])
