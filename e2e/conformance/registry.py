"""The behaviours under observation, in the order of the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Api

Observe = Callable[["Api"], Awaitable[Any]]


@dataclasses.dataclass(frozen=True)
class Behaviour:
    """One behaviour: a function that does something to a cluster and returns what is to be seen.

    What it returns must be JSON-like and must not depend on the cluster or on the moment:
    see :mod:`.normal`. It is compared to what the real server has given.
    """

    area: str
    name: str
    title: str
    observe: Observe
    local: bool = False
    """Does it need the API server to reach this process (and so, to be on this machine)?"""
    bare: bool = False
    """Does it need a cluster where nothing happens to pods and deployments by itself?"""
    compacts: bool = False
    """Does it need the history of the cluster to be compacted, which no API can do?"""

    @property
    def id(self) -> str:
        return f"{self.area}/{self.name}"


class Area:
    """A collection of behaviours about one topic; usually, one module."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.behaviours: list[Behaviour] = []

    def behaviour(self, title: str, **needs: bool) -> Callable[[Observe], Observe]:
        """Collect a function as a behaviour, described by a statement about the API."""

        def decorator(fn: Observe) -> Observe:
            name = fn.__name__
            self.behaviours.append(Behaviour(self.name, name, title, fn, **needs))
            return fn

        return decorator
