"""Delivery: the changes of an object on their way to the API, and back in the stream.

The response to a patch is the newest state of the object, known before the stream brings it.
The state is called settled when the stream has brought it too, or its deadline has passed.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from kopf_cogs.clients.errors import APIForbiddenError, APINotFoundError
from kopf_cogs.clients.quarantine import is_sane
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.bodies import Body, RawBody, RawEvent
from kopf_cogs.structs.finalizers import is_deletion_blocked, is_deletion_ongoing
from kopf_cogs.structs.keys import object_key
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.versions import is_newer, is_same, parse_version
from kopf_core.actions.effects import Applied, apply_patches, tell_of_losses
from kopf_core.actions.execution import Execution
from kopf_core.engines.records.stages import Stage
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.reactor.object.conflicts import get_conflict_delay, keep_refused
from kopf_core.reactor.object.cycles import FOREVER
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import DONE, LAST_MOMENT, Requeue, TurnResult

NOTHING_CHANGED_DELAY = 1.0
"""The least delay in seconds before the next attempt if the progress cannot be stored."""


class Delivery:
    """Sends the changes of the objects of one resource, and tells them when they come back."""

    def __init__(
        self,
        *,
        client: Client,
        resource: Resource,
        execution: Execution,
    ) -> None:
        self._client = client
        self._resource = resource
        self._settings = execution.settings
        self._clock = execution.clock
        self._door = execution.door

    def redefine(self, resource: Resource) -> None:
        """Send the changes as it is possible since now, e.g. to the subresources or not."""
        self._resource = resource

    def notice(self, turn: Turn, event: RawEvent) -> None:
        """Keep the newest state of the object: streams can lag behind our own patches."""
        item, memory = turn.item, turn.memory
        memory.write = memory.write.streamed(event["object"])
        is_restored = event["type"] is None and memory.write.are_versions_doubted
        if event["type"] == "DELETED" or is_restored:
            memory.write = memory.write.restored()
        elif item.latest is not None and is_same(item.latest, event["object"]):
            # Ours is preferred: when it removes the last finalizer, the version can be the same.
            item.is_contradicted = False
            return
        elif item.latest is not None and is_newer(item.latest, event["object"]):
            item.is_contradicted = True
            return
        is_back = memory.cycle.stage is Stage.ABSENT and _is_present(turn, event)
        item.latest, item.type = event["object"], event["type"]
        item.is_contradicted = is_back  # it was a mistake; or the stream, or the list is late
        if not is_back and (is_restored or memory.write.precedes(event["object"])):
            self._believe(turn, event["object"])

    def _believe(self, turn: Turn, body: RawBody) -> None:
        """This state is surely later than all that we have done to the object."""
        is_blocked = is_deletion_blocked(body, self._settings.persistence.finalizer)
        turn.memory.cycle = turn.memory.cycle.shown(
            is_deleting=is_deletion_ongoing(body), is_blocked=is_blocked
        )

    async def look(self, turn: Turn) -> None:
        """See how the object is. Usually, it is the stream that is late; but it can also be that
        versions go down, as they do in some aggregated APIs; that a backup was restored, with
        its old versions, and the versions of the API are raised; or that it is not absent.
        """
        item, metadata = turn.item, turn.body.metadata
        url = self._resource.get_url(namespace=metadata.namespace, name=metadata.name)
        is_absent = False
        try:
            body = await self._client.get(url)
        except APINotFoundError:
            body, is_absent = None, True
        except APIForbiddenError:
            body = None  # then, the stream is to be believed
        item.is_contradicted = False  # not earlier: the request can be interrupted
        if is_absent or (is_sane(body) and object_key(self._resource, body) != item.key):
            return  # what is there, is another object of the same name
        if is_sane(body):
            turn.memory.write = turn.memory.write.looked_up(body)
            item.latest, item.type = body, "MODIFIED"
            self._believe(turn, body)
        elif turn.memory.cycle.stage is Stage.ABSENT:
            turn.memory.cycle = turn.memory.cycle.at(Stage.HANDLED)

    def look_ahead(self, turn: Turn) -> bool:
        """Keep the newest state of those that have come but are not handled as events yet.

        Get whether the changes can be handled by it, i.e. whether the object is still there.
        """
        item, newest = turn.item, turn.item.events[-1]
        if newest["type"] == "DELETED" or item.type == "DELETED" or item.latest is None:
            return False
        if newest["type"] is not None:
            turn.memory.write = turn.memory.write.streamed(newest["object"])
            if is_newer(newest["object"], item.latest):
                item.latest, item.type = newest["object"], newest["type"]
        return True

    async def apply_early(self, turn: Turn) -> TurnResult:
        """Send the changes made by handlers of events, while the state is not settled yet.

        What is waited for already is waited for still, and for no longer than it was: otherwise,
        if every event leads to a patch, and every patch to an event, the wait would never end.
        It is safe: the reply to the patch is the newest state, with all that was sent before.
        """
        memory = turn.memory
        awaited = memory.write.awaited
        has_marks = bool(turn.marks.keys() or turn.marks.fns)
        result = await self.apply(turn)
        if has_marks or not isinstance(result, AwaitChange):
            return result
        memory.write, turn.applied = memory.write._replace(awaited=awaited), None
        return awaited or DONE

    async def apply(self, turn: Turn, delay: float | None = None) -> TurnResult:
        """Send the changes to the API, and decide on when to get back to the object."""
        if delay == FOREVER:
            delay = None
        if turn.memory.owed.carried:
            turn.patch.fns[:0] = turn.memory.owed.carried
            turn.memory.owed = turn.memory.owed.taken()
        if not turn.is_changing:
            if delay:
                turn.logger.debug(f"Sleeping for {delay} seconds for the delayed handlers.")
            return self._requeue(delay)
        if delay:
            turn.logger.debug(f"Sleeping was skipped because of the patch, {delay} seconds left.")
        source: RawBody | Any = turn.item.latest
        if not self._door.is_open:  # e.g. a thread has ended in the middle of a pause
            turn.memory.owed = turn.memory.owed.held(source)
            self._door.check()
        turn.item.is_sending = True
        try:
            applied = await self._send(turn, source)
        finally:
            turn.item.is_sending = False
        if applied.is_gone:  # what was on its way at that moment is not to be handled
            turn.memory.lose(source)
            return DONE
        patched = applied.body
        if patched is None or _get_version(patched) == _get_version(source):
            if applied.is_refused and delay is None:
                # The newer state is usually on its way; if it is not, there is another reason.
                return self._requeue(get_conflict_delay(turn.memory.owed))
            # If nothing has changed though it should have, a new attempt would be the same.
            return self._requeue(None if delay is None else max(delay, NOTHING_CHANGED_DELAY))
        timeout = self._settings.persistence.consistency_timeout
        turn.item.latest, turn.item.type = patched, "MODIFIED"
        write = turn.memory.write.answered(patched, self._clock.monotonic() + timeout)
        turn.memory.write = write
        return write.awaited or DONE

    async def save(self, turn: Turn) -> None:
        """Send what was done before the turn was interrupted, if that is possible.

        It has a moment for that, whatever happens meanwhile: the interruptions can be repeated.
        """
        if not turn.is_changing:
            return
        self._client.rush()
        now, until = self._clock.monotonic(), turn.item.last_moment
        left = LAST_MOMENT if until is None else max(0.0, until - now)
        sending = asyncio.create_task(asyncio.wait_for(self.apply(turn), left))
        while not sending.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([sending])
        if not sending.cancelled():
            sending.exception()  # what is not sent now is left to the next turn

    def _requeue(self, delay: float | None) -> TurnResult:
        return DONE if delay is None else Requeue(at=self._clock.monotonic() + delay)

    async def _send(self, turn: Turn, source: RawBody) -> Applied:
        memory, marks, patch = turn.memory, turn.marks, turn.patch
        applied = await apply_patches(
            client=self._client,
            resource=self._resource,
            body=Body(source),
            marks=marks,
            patch=patch,
            logger=turn.logger,
        )
        memory.write = memory.write.unknown()
        topics = tell_of_losses(applied, self._resource, memory.told.topics, turn.logger)
        if topics is not memory.told.topics:
            memory.told = memory.told._replace(topics=topics)
        turn.applied = applied
        if applied.body is not None:
            finalizer = self._settings.persistence.finalizer
            is_blocked = is_deletion_blocked(applied.body, finalizer)
            if is_blocked is not is_deletion_blocked(source, finalizer):
                kind, holds = applied.body.get("apiVersion"), memory.holds
                changed = holds.finalizer.changed(kind, is_added=is_blocked)
                memory.holds = holds._replace(finalizer=changed)
            if memory.cycle.stage is Stage.RELEASED:
                if not is_blocked:
                    memory.cycle = memory.cycle.at(Stage.FREED)
            elif is_only_marked(source, applied.body, turn):
                if turn.is_finished:
                    memory.write = memory.write.finished(applied.body)
                elif turn.state is not None and turn.state.is_as_stored:
                    memory.write = memory.write.stepped(applied.body, turn.state)
        patch.clear()
        marks.clear()
        has_news = bool(turn.item.events)
        memory.owed = keep_refused(memory.owed, applied, turn.logger, has_news=has_news)
        return applied


def _is_present(turn: Turn, event: RawEvent) -> bool:
    """Whether the object that the API did not know is there: it is listed, or goes on to change."""
    if event["type"] == "DELETED":
        return False
    known, version = turn.memory.write.floor, parse_version(event["object"])
    return event["type"] is None or known is None or version is None or version > known


def is_only_marked(before: RawBody, after: RawBody, turn: Turn) -> bool:
    """Whether nothing but our annotations differs in these two states of the object.

    There is nothing to be handled then: neither by us, nor by anybody else's will.
    """
    marks = turn.marks
    return (
        not turn.patch
        and not marks.fns
        and not marks.results
        and marks.keys() == {"metadata"}
        and marks["metadata"].keys() == {"annotations"}
        and {**before, "metadata": None} == {**after, "metadata": None}
        and {**before["metadata"], **_VOLATILE} == {**after["metadata"], **_VOLATILE}
        and _merge(before["metadata"].get("annotations"), marks)
        == after["metadata"].get("annotations")
    )


_VOLATILE: Mapping[str, Any] = {
    "annotations": None,
    "resourceVersion": None,
    "managedFields": None,
}
"""What differs in the metadata if only annotations are changed."""


def _merge(annotations: Mapping[str, str] | None, marks: Patch) -> Mapping[str, str]:
    merged = {**(annotations or {}), **marks["metadata"]["annotations"]}
    return {key: value for key, value in merged.items() if value is not None}


def _get_version(body: RawBody) -> str | None:
    return body["metadata"].get("resourceVersion")
