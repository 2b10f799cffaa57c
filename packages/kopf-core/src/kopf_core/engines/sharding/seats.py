"""Seats: one life of a replica as a member, and the content of its own Lease."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from kopf_core.engines.leasing.lease_records import as_mapping
from kopf_core.engines.sharding.assignments import Assignment
from kopf_core.engines.sharding.roll import CONFIRMED, MEMBERS
from kopf_core.engines.sharding.shares import Order


class Seat:
    """The orders for one member, and the round that it has confirmed.

    ``give`` takes the orders for the operator. ``hasten`` lets the elector store the Lease soon.
    """

    def __init__(
        self,
        member: str,
        group: str,
        *,
        give: Callable[[Order], None],
        hasten: Callable[[], None],
    ) -> None:
        self.is_over = asyncio.Event()
        self._member = member
        self._group = group
        self._give = give
        self._hasten = hasten
        self._latest = Order(0, frozenset())
        self._given = 0
        self._confirmed = 0
        self._is_told = False
        """Whether the Lease already says that this member follows the assignment."""

        self._held = frozenset[int]()
        """The shards in which anything can work."""

    @property
    def is_ordered(self) -> bool:
        """Whether this member has got any order."""
        return self._given > 0

    def follow(self, assignment: Assignment | None) -> None:
        """Notice the current assignment. If it contradicts the followed one, the life is over."""
        if assignment is not None and not self._latest.round and not assignment.names(self._member):
            return  # the coordinator has not noticed this member yet
        if not self._agrees(assignment):
            self.is_over.set()
        elif assignment is not None and assignment.round > self._latest.round:
            self._latest = Order(assignment.round, assignment.get_share(self._member))
            if not self._confirmed:
                self.confirm(assignment.round)  # nothing works here yet
            self._give_order()

    def confirm(self, round: int) -> None:
        """Nothing works here anymore, except in the shards of that order."""
        self._confirmed = max(self._confirmed, round)
        if round == self._given == self._latest.round:
            self._held = self._latest.shards
        self._hasten()

    def load(self, metadata: Mapping[str, Any]) -> None:
        text = as_mapping(metadata.get("annotations")).get(CONFIRMED)
        self._is_told |= text is not None and self._confirmed > 0 and text == str(self._confirmed)
        self._give_order()

    def stow(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        labels = {**as_mapping(metadata.get("labels")), MEMBERS: self._group}
        confirmed = {CONFIRMED: str(self._confirmed)}
        annotations = {**as_mapping(metadata.get("annotations")), **confirmed}
        return {**metadata, "labels": labels, "annotations": annotations}

    def _agrees(self, assignment: Assignment | None) -> bool:
        """Whether no other member can work in the shards of this one."""
        if assignment is None or assignment.round < self._latest.round:
            return not self._latest.round
        return all(assignment.shards[shard].owner == self._member for shard in self._held)

    def _give_order(self) -> None:
        """Give the latest order; the first one only when the Lease says that there was an order.

        If the assignment is lost, no coordinator begins another one while there are such members.
        """
        if self._is_told and self._given < self._latest.round:
            self._given = self._latest.round
            self._held |= self._latest.shards
            self._give(self._latest)
