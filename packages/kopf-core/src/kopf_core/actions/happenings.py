"""External happenings: something outside of the cluster that objects must be reconciled for.

They can come from anywhere in the process: from threads that no operator has started, too.
So, unlike everything else that users call, :func:`trigger` does not depend on the context.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kopf_cogs.structs.selectors import Selector


@dataclass(frozen=True, slots=True)
class Happening:
    """Something outside of the cluster that one object must be reconciled for.

    The functions of :func:`kopf.on.external` yield them. Equal ones are one.
    """

    kind: str | type[Any] | Selector
    """The kind of the object, in any notation of the decorators, e.g. ``websites.example.com``.

    Raises :class:`TypeError` if the notation makes no sense.
    """

    name: str
    """The name of the object."""

    namespace: str | None = None
    """Its namespace; ``None`` for objects without namespaces, or for all objects of the name."""

    reason: str = ""
    """The reason: for the logs, and for the argument ``triggers`` of reconcilers."""

    selector: Selector = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for value in (self.name, self.namespace, self.reason):
            if not isinstance(value, str | None):
                raise TypeError(f"The name, namespace, and reason are strings, not {value!r}.")
        if not self.name:
            raise TypeError("The name of the object is needed.")
        kind = self.kind
        found = kind if isinstance(kind, Selector) else Selector.of(kind)
        object.__setattr__(self, "selector", found)

    def pack(self) -> dict[str, Any] | None:
        """The same as JSON, for other processes; ``None`` if the selector is more than texts."""
        kind = {key: value for key, value in vars(self.selector).items() if value is not None}
        if not all(isinstance(value, str) for value in kind.values()):
            return None
        place = {"name": self.name, "namespace": self.namespace}
        return {"kind": kind, **place, "reason": self.reason}

    @classmethod
    def unpack(cls, data: Mapping[str, Any]) -> "Happening":
        return cls(**{**data, "kind": Selector(**data["kind"])})


Accept = Callable[[Happening], None]
"""Accepts a happening. It is called in any thread."""


class Audience:
    """The operators that run in this process now, and get external happenings."""

    def __init__(self) -> None:
        self._members: dict[Accept, None] = {}

    def join(self, accept: Accept) -> None:
        self._members[accept] = None

    def leave(self, accept: Accept) -> None:
        self._members.pop(accept, None)

    def tell(self, happening: Happening) -> bool:
        """Tell all operators; return whether there are any."""
        members = list(self._members)
        for accept in members:
            accept(happening)
        return bool(members)


audience = Audience()
"""The audience of this process: threads of users have no other way to their operator."""


def trigger(
    kind: str | type[Any] | Selector,
    name: str,
    namespace: str | None = None,
    *,
    reason: str = "",
) -> None:
    """Call the reconcilers of this object, though nothing has happened to it in the cluster.

    It can be called in any task and any thread of the operator's process, and returns at once.
    Many calls for one object make one pass, which has them all in its argument ``triggers``.
    Objects that do not exist are skipped: they are reconciled when they appear.

    Raises :class:`RuntimeError` if no operator runs in this process, and :class:`TypeError`
    if the kind or the name make no sense.
    """
    if not audience.tell(Happening(kind, name, namespace, reason)):
        raise RuntimeError("No operator runs in this process, so there is nothing to trigger.")
