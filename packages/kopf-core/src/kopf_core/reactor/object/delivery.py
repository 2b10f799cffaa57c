"""Delivery: sends the changes of an object to the API, and notices them in the stream.

The reply to a patch is the newest state of the object, before the stream brings that state. The
object is settled when the stream has brought it, too, or when the deadline has passed.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from kopf_cogs.clients.errors import APIForbiddenError, APINotFoundError
from kopf_cogs.clients.quarantine import is_sane
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.forms import WHOLE, Form
from kopf_cogs.structs.bodies import Body, RawBody, RawEvent
from kopf_cogs.structs.finalizers import is_deletion_blocked, is_deletion_ongoing
from kopf_cogs.structs.keys import object_key
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_cogs.structs.versions import is_newer, is_same, parse_version
from kopf_core.actions.effects import Applied, apply_patches, tell_of_losses
from kopf_core.actions.execution import Execution
from kopf_core.engines.records.holds import FREE
from kopf_core.engines.records.stages import LEAVING, Stage
from kopf_core.engines.records.writes import AwaitChange
from kopf_core.reactor.object.conflicts import get_conflict_delay, keep_refused
from kopf_core.reactor.object.cycles import FOREVER
from kopf_core.reactor.object.loops import remember_fields
from kopf_core.reactor.object.turns import Turn
from kopf_core.reactor.streams.work import DONE, LAST_MOMENT, Requeue, TurnResult

NOTHING_CHANGED_DELAY = 1.0
"""The least delay in seconds before the next attempt if a patch has not changed the object."""

HELD = (
    "The outcomes of the handlers are not stored yet: this operator is paused, or does not lead. "
    "If another operator handles the object meanwhile, it calls the handlers again."
)


class Delivery:
    """Sends the changes of the objects of one resource, and recognises them in the stream."""

    def __init__(
        self,
        *,
        client: Client,
        resource: Resource,
        execution: Execution,
        form: Form = WHOLE,
    ) -> None:
        self._client = client
        self._resource = resource
        self._form = form
        self._settings = execution.settings
        self._clock = execution.clock
        self._door = execution.door

    def redefine(self, resource: Resource) -> None:
        """Use the new definition of the resource, e.g. with the status as a subresource or not."""
        self._resource = resource

    def notice(self, turn: Turn, event: RawEvent) -> None:
        """Take the state from the event, unless the known state is newer: streams are behind
        patches.
        """
        item, memory = turn.item, turn.memory
        if memory.write.awaited is not None:
            memory.write = memory.write.streamed(event["object"])
        is_restored = event["type"] is None and memory.write.is_doubted
        if event["type"] == "DELETED":
            memory.write = memory.write.deleted()
        elif is_restored:
            pass  # the known state is from before the doubts
        elif item.latest is not None and is_same(item.latest, event["object"]):
            # The known state is kept: with the last finalizer removed, the versions can be equal.
            item.is_contradicted = False
            return
        elif item.latest is not None and is_newer(item.latest, event["object"]):
            item.is_contradicted = True
            return
        stage = memory.cycle.stage
        is_back = stage is Stage.ABSENT and _is_present(turn, event)
        item.latest, item.type = event["object"], event["type"]
        item.is_contradicted = is_back  # the reply or the stream is wrong: request the object
        if stage in LEAVING and not is_back and memory.write.precedes(event["object"]):
            self._correct_stage(turn, event["object"])

    def _correct_stage(self, turn: Turn, body: RawBody) -> None:
        """Correct the stage of the object by a state that is surely later than all our changes."""
        is_blocked = is_deletion_blocked(body, self._settings.persistence.finalizer)
        turn.memory.cycle = turn.memory.cycle.shown(
            is_deleting=is_deletion_ongoing(body), is_blocked=is_blocked
        )

    async def look(self, turn: Turn) -> None:
        """Request the object, and take the reply as its newest state.

        Usually, the reply shows that the stream is late. But the versions of some aggregated APIs
        go down. A restored backup brings old versions, while the API goes on with raised ones. An
        object that was reported as absent can exist. If a list is older than an earlier one, the
        reply tells whether a backup was restored, or the list is late.
        """
        item, memory, metadata = turn.item, turn.memory, turn.body.metadata
        known: RawBody | Any = item.latest
        url = self._resource.get_url(namespace=metadata.namespace, name=metadata.name)
        is_absent = is_gone = False
        try:
            body = await self._client.get(url)
        except APINotFoundError as e:
            body, is_absent, is_gone = None, True, e.names(metadata.name or "")
        except APIForbiddenError:
            body = None  # without the permission, the stream is trusted
        item.is_contradicted = False  # not before the request, as it can be interrupted
        is_doubted, memory.write = memory.write.is_doubted, memory.write.trusted()
        if is_doubted and is_gone:
            memory.lose(known)
        if is_absent or (is_sane(body) and object_key(self._resource, body) != item.key):
            return  # the object does not exist, or another object has its name
        if is_sane(body):
            body = self._form.apply(body)
            memory.write = memory.write.looked_up(body)
            item.latest, item.type = body, "MODIFIED"
            self._correct_stage(turn, body)
        elif is_doubted or memory.cycle.stage is Stage.ABSENT:
            self._correct_stage(turn, known)

    def look_ahead(self, turn: Turn) -> bool:
        """Take the state of the newest event, while its event is left to the next turn.

        Return whether the changes can be handled by that state, i.e. whether the object still
        exists.
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
        """Send the changes by handlers of events, though our previous patch has not come back.

        The turn goes on to wait for the previous patch, and until the previous deadline. Otherwise,
        if every event leads to a patch, and every patch to an event, the wait would never end. This
        is safe: the reply to a patch is the newest state, with all earlier patches in it.
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
        """Send the changes to the API, and decide when the next turn of the object is."""
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
        if not self._door.is_open:  # e.g. the thread of a handler has ended in a pause
            turn.memory.owed = turn.memory.owed.held(source)
            if turn.execution is not None:
                turn.logger.warning(HELD)
            self._door.check()
        turn.item.is_sending = True
        try:
            applied = await self._send(turn, source)
        finally:
            turn.item.is_sending = False
        if applied.is_gone:  # later events with older states are not handled
            turn.memory.lose(source)
            return DONE
        patched = applied.body
        if patched is None or _get_version(patched) == _get_version(source):
            if applied.is_refused and delay is None:
                # A conflict: the newer state is usually on its way. Otherwise, try again later.
                return self._requeue(get_conflict_delay(turn.memory.owed))
            # The patch has changed nothing: an immediate attempt would change nothing, too.
            return self._requeue(None if delay is None else max(delay, NOTHING_CHANGED_DELAY))
        timeout = self._settings.persistence.consistency_timeout
        turn.item.latest, turn.item.type = patched, "MODIFIED"
        write = turn.memory.write.answered(patched, self._clock.monotonic() + timeout)
        turn.memory.write = write
        return write.awaited or DONE

    async def save(self, turn: Turn) -> None:
        """Send the changes of an interrupted turn, if that is possible.

        The sending has :data:`LAST_MOMENT` seconds, even if the turn is interrupted again
        meanwhile.
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
            sending.exception()  # the error does not matter: the next turn sends the changes

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
            form=self._form,
        )
        memory.write = memory.write.unknown()
        topics = tell_of_losses(applied, self._resource, memory.told.topics, turn.logger)
        if topics is not memory.told.topics:
            memory.told = memory.told._replace(topics=topics)
        if applied.rejections:
            memory.told = memory.told._replace(loss=applied.rejections[-1])
        turn.applied = applied
        if memory.holds is not FREE:
            remember_fields(turn)
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
    """Whether an object that was unknown to the API exists: it is listed, or goes on to change."""
    if event["type"] == "DELETED":
        return False
    known, version = turn.memory.write.floor, parse_version(event["object"])
    return event["type"] is None or known is None or version is None or version > known


def is_only_marked(before: RawBody, after: RawBody, turn: Turn) -> bool:
    """Whether nothing but our annotations differs in these two states of the object.

    If so, neither we nor others have changed anything that handlers can be interested in.
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
"""The fields of the metadata that differ if only annotations have changed."""


def _merge(annotations: Mapping[str, str] | None, marks: Patch) -> Mapping[str, str]:
    merged = {**(annotations or {}), **marks["metadata"]["annotations"]}
    return {key: value for key, value in merged.items() if value is not None}


def _get_version(body: RawBody) -> str | None:
    return body["metadata"].get("resourceVersion")
