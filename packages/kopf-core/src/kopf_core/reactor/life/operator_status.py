"""The status: the present work of the operator, collected from its parts on request."""

import datetime
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice, starmap
from typing import TYPE_CHECKING

from kopf_cogs.helpers.versions import get_version
from kopf_cogs.structs.bodies import Body
from kopf_cogs.structs.keys import ObjectKey
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.context import Invocation
from kopf_core.actions.ongoing import Ages
from kopf_core.actions.states import HandlerState
from kopf_core.engines.background.spawned import SpawnedHandler
from kopf_core.engines.memories import PausedObject
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.engines.serving.snapshots import (
    NOT_SHOWN,
    AttemptSnapshot,
    BackgroundSnapshot,
    LeaseSnapshot,
    PausedSnapshot,
    QueueSnapshot,
    RetrySnapshot,
    Snapshot,
    StreamSnapshot,
    WebhookSnapshot,
)
from kopf_core.intents.handlers import TimerHandler
from kopf_core.reactor.life.essentials import Essentials
from kopf_core.reactor.life.handling import Handling
from kopf_core.reactor.life.leadership import Leadership
from kopf_core.reactor.life.replication import Replication
from kopf_core.reactor.streams.informers import StreamKey
from kopf_core.reactor.streams.queueing import WorkQueue
from kopf_core.reactor.streams.work import Position, WorkItem

if TYPE_CHECKING:
    from kopf_core.engines.admission import AdmissionEngine
    from kopf_core.engines.desired.desired_states import DesiredStates

CACHE_TIME = 1.0
"""How long (in seconds) a snapshot is reused, however many requests come."""

MAX_RETRIES = 100
"""The number of named objects that wait for a retry."""

MAX_ATTEMPTS = 100
"""The number of named attempts that take long."""

LONG = 60.0
"""After how many seconds an attempt takes long."""

MAX_PAUSED = 100
"""The number of named objects that are paused."""


SECRETS = "secrets"


class OperatorStatus:
    """Takes the snapshots of one operator."""

    def __init__(
        self,
        essentials: Essentials,
        handling: Handling,
        leadership: Leadership,
        replication: Replication,
        find_problems: Callable[[], Collection[str]],
        admission: "AdmissionEngine | None" = None,
    ) -> None:
        self._admission = admission
        self._leadership = leadership
        self._replication = replication
        self._find_problems = find_problems
        self._essentials = essentials
        self._handling = handling
        self._clock = essentials.options.clock
        self._started = self._clock.monotonic()
        self._ages = Ages(essentials.ongoing)
        self._taken: Snapshot | None = None
        self._deadline = float("-inf")

    def take(self) -> Snapshot:
        """Take the snapshot; it can be a second old."""
        now = self._clock.monotonic()
        if self._taken is None or now >= self._deadline:
            self._taken, self._deadline = self._take(now), now + CACHE_TIME
        return self._taken

    def look(self) -> None:
        """Note which attempts work."""
        self._ages.look(self._clock.monotonic())

    def find_unready(self) -> Iterator[str]:
        """The obstacles to the readiness of the operator, a phrase for each; never cached."""
        return (what for what, _ in self._find_unready())

    def _find_unready(self) -> Iterator[tuple[str, str]]:
        """The same obstacles with their reasons, which can be texts of errors."""
        essentials, handling = self._essentials, self._handling
        # API servers need conversions to list objects, and ask only the operators that are ready.
        is_listing = not essentials.registry.conversions
        if essentials.vault.select() is None:
            yield "not logged in", ""
        if not essentials.insights.is_complete:
            yield "the resources are not discovered", ""
        elif is_listing and not essentials.readiness.is_ready:
            yield ("the indices are not filled" if essentials.indices else "not all is listed"), ""
        if self._admission is not None and not self._admission.is_serving:
            yield "the webhooks are not served", ""
        if obstacle := self._leadership.obstacle:
            yield "not in the election", obstacle
        if obstacle := self._replication.obstacle:
            yield "not at work as a replica", obstacle
        if essentials.exit.requested.is_set():
            yield "the operator is stopping", ""
        if handling.governor.is_paused and essentials.readiness.is_ready:
            return  # it handles nothing now, and lists everything again before it does
        for key, informer in handling.pool.informers.items() if is_listing else ():
            is_used = key in handling.orchestrator.intakes or key in handling.observed
            if not informer.is_listed and (is_used or not essentials.readiness.is_ready):
                yield f"not listed: {key}", informer.complaint or "being listed"

    def _take(self, now: float) -> Snapshot:
        essentials, handling = self._essentials, self._handling
        self._ages.look(now)
        long_attempts = self._ages.find_older(LONG, now)
        intakes = handling.orchestrator.intakes
        streams = tuple(self._snap_streams(now))
        plans = [desired for _, desired in handling.orchestrator.desired]
        retried = [
            (_name(key.resource), item)
            for key, intake in intakes.items()
            for item in _select_retried(intake.queue)
            if not self._is_planned(item.key, plans)
        ]
        background = handling.background
        return Snapshot(
            version=str(get_version()),
            uptime=now - self._started,
            time=self._clock.now().isoformat(timespec="seconds"),
            unready=tuple(": ".join(filter(None, pair)) for pair in self._find_unready()),
            problems=tuple(self._find_problems()),
            is_paused=handling.governor.is_paused,
            cut_off=None if handling.governor.is_paused else _find_cut(streams),
            lease=self._snap_lease(),
            shards=None if essentials.share is None else len(essentials.share.shards),
            streams=streams,
            queues=tuple(_snap_queue(key, intake.queue) for key, intake in intakes.items()),
            retries=tuple(islice(self._snap_retries(retried), MAX_RETRIES)),
            pending_retries=len(retried),
            attempts=tuple(starmap(_snap_attempt, long_attempts[:MAX_ATTEMPTS])),
            long_attempts=len(long_attempts),
            paused=tuple(map(_snap_paused, islice(essentials.memories.paused, MAX_PAUSED))),
            paused_objects=len(essentials.memories.paused),
            background=tuple(_snap_background(background.spawned, background.orphans)),
            webhooks=tuple(self._snap_webhooks()),
            indices={name: len(index) for name, index in essentials.indices.items()},
            posted_events=essentials.recorder.posted,
            dropped_events=essentials.recorder.dropped,
        )

    def _snap_webhooks(self) -> Iterator[WebhookSnapshot]:
        for handler, tally in ({} if self._admission is None else self._admission.tallies).items():
            yield WebhookSnapshot(
                handler=handler.id,
                kind=handler.type.value,
                working=tally.working,
                reviews=tally.reviews,
                denied=tally.denied,
            )

    def _snap_lease(self) -> LeaseSnapshot | None:
        leadership = self._leadership
        if not leadership.is_needed:
            return None
        return LeaseSnapshot(is_leading=leadership.is_leading, holder=leadership.holder or None)

    def _snap_streams(self, now: float) -> Iterator[StreamSnapshot]:
        for key, informer in self._handling.pool.informers.items():
            yield StreamSnapshot(
                resource=_name(key.resource),
                namespace=key.namespace,
                objects=informer.count,
                is_listed=informer.is_listed,
                age=max(0.0, now - informer.freshness),
                connects=informer.traffic.connects,
                lists=informer.traffic.lists,
                events=informer.traffic.events,
                problem=informer.problem,
            )

    def _is_planned(self, key: ObjectKey, plans: "Collection[DesiredStates]") -> bool:
        """Whether the object waits only for a planned pass of its reconcilers."""
        if not any(desired.is_at_rest(key) for desired in plans):
            return False
        memory = self._essentials.memories.get(key)
        is_amid_cycle = memory and memory.cycle.was_stored and memory.cycle.has_progress
        return not is_amid_cycle

    def _snap_retries(self, items: Iterable[tuple[str, WorkItem]]) -> Iterator[RetrySnapshot]:
        now = self._clock.now()
        for resource, item in items:
            if item.latest is not None:
                body = Body(item.latest)
                for handler, state in self._find_failing(body, now):
                    yield RetrySnapshot(
                        resource=resource,
                        namespace=body.metadata.namespace,
                        name=str(body.metadata.name),
                        handler=handler,
                        retries=state.retries,
                        delayed=_format(state.delayed),
                        message=NOT_SHOWN if resource == SECRETS else state.message,
                    )

    def _find_failing(
        self, body: Body, now: datetime.datetime
    ) -> Iterator[tuple[str, HandlerState]]:
        """The unfinished handlers, by the progress on the object."""
        storage = self._essentials.settings.persistence.progress_storage
        for id in dict.fromkeys(h.id for h in self._essentials.registry.resource_handlers):
            record = storage.fetch(key=id, body=body)
            state = None if record is None else HandlerState.from_record(record, now)
            if state is not None and (state.retries or state.message) and not state.finished:
                yield id, state


def _format(time: datetime.datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="seconds")


def _name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _find_cut(streams: Collection[StreamSnapshot]) -> float | None:
    """For how long nothing comes, if no stream works; a single broken kind is not an outage."""
    if any(stream.problem is None for stream in streams):
        return None
    return min((stream.age for stream in streams), default=None)


def _snap_attempt(age: float, call: Invocation) -> AttemptSnapshot:
    body: Body | None = getattr(call.cause, "body", None)
    resource: Resource | None = getattr(call.cause, "resource", None)
    return AttemptSnapshot(
        resource=None if resource is None else _name(resource),
        namespace=None if body is None else body.metadata.namespace,
        name=None if body is None else body.metadata.name,
        handler=call.handler.id,
        age=age,
    )


def _snap_paused(paused: PausedObject) -> PausedSnapshot:
    return PausedSnapshot(
        resource=_name(paused.resource),
        namespace=paused.namespace,
        name=paused.name,
        reason=paused.reason,
    )


def _select_retried(queue: WorkQueue) -> list[WorkItem]:
    """The objects that wait for a time, but not for our own patch to come back."""
    waiting = (Position.DELAYED, Position.HELD)
    return [
        item
        for item in queue.items
        if item.position in waiting and not isinstance(item.rest, AwaitChange)
    ]


def _snap_queue(key: StreamKey, queue: WorkQueue) -> QueueSnapshot:
    stages = Counter(item.position for item in queue.items)
    return QueueSnapshot(
        resource=_name(key.resource),
        namespace=key.namespace,
        queued=stages[Position.QUEUED],
        working=stages[Position.WORKING],
        delayed=stages[Position.DELAYED],
        held=stages[Position.HELD],
    )


def _snap_background(
    spawned: Collection[SpawnedHandler], orphans: Collection[SpawnedHandler]
) -> Iterator[BackgroundSnapshot]:
    groups: dict[tuple[str, str], list[SpawnedHandler]] = {}
    for one in [*spawned, *orphans]:
        kind = "timer" if isinstance(one.handler, TimerHandler) else "daemon"
        groups.setdefault((kind, one.handler.id), []).append(one)
    for (kind, id), members in sorted(groups.items()):
        live = [one for one in members if not one.is_abandoned]
        stopping = sum(one.is_stopping for one in live)
        working = sum(one.is_working and not one.is_stopping for one in live)
        yield BackgroundSnapshot(
            handler=id,
            kind=kind,
            working=working,
            waiting=len(live) - working - stopping,
            stopping=stopping,
            orphaned=len(members) - len(live),
            lag=max((one.lag for one in live), default=0.0),
        )
