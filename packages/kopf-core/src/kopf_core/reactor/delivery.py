"""Delivery: the changes of an object on their way to the API, and back in the stream.

The response to a patch is the newest state of the object, known before the stream brings it.
The state is called settled when the stream has brought it too, or its deadline has passed.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.clients.session import Client
from kopf_cogs.configs.settings import OperatorSettings
from kopf_cogs.structs.bodies import Body, BodyEssence, RawBody, RawEvent
from kopf_cogs.structs.finalizers import is_deletion_blocked
from kopf_cogs.structs.patches import Patch
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.effects import Applied, apply_patches, warn_of_inconsistencies
from kopf_core.engines.memories import is_newer, is_same, parse_version
from kopf_core.reactor.catching import refresh_seen
from kopf_core.reactor.queueing import Again
from kopf_core.reactor.safeguards import get_conflict_delay, keep_refused
from kopf_core.reactor.subjects import Subject

FOREVER = float("inf")
"""The delay of those who only wait for changes."""

NOTHING_CHANGED_DELAY = 1.0
"""The least delay in seconds before the next attempt if the progress cannot be stored."""


class Delivery:
    """Sends the changes of the objects of one resource, and tells them when they come back."""

    def __init__(
        self,
        *,
        client: Client,
        resource: Resource,
        settings: OperatorSettings,
        clock: Clock,
        build_essence: Callable[[Body], BodyEssence],
    ) -> None:
        self._client = client
        self._resource = resource
        self._settings = settings
        self._clock = clock
        self._build_essence = build_essence

    def notice(self, subject: Subject, event: RawEvent) -> None:
        """Keep the newest state of the object: streams can lag behind our own patches."""
        slot = subject.slot
        if event["type"] in (None, "DELETED"):
            subject.memory.patched_version = None
            slot.expect(None)
        elif slot.latest is not None and is_newer(slot.latest, event["object"]):
            return
        elif slot.latest is not None and is_same(slot.latest, event["object"]):
            # Ours is preferred: when it removes the last finalizer, the version can be the same.
            slot.notice(event["object"])
            return
        slot.latest, slot.type = event["object"], event["type"]
        slot.notice(event["object"])

    def remaining(self, subject: Subject) -> float:
        """For how many seconds to wait until the state is settled; zero if it is."""
        return subject.slot.inconsistent_for(self._clock.monotonic())

    async def apply(self, subject: Subject, delay: float | None = None) -> Again | None:
        """Send the changes to the API, and decide on when to get back to the object."""
        if delay == FOREVER:
            delay = None
        subject.patch.fns[:0] = subject.memory.take_carried()
        if not subject.marks and not subject.patch:
            if delay:
                subject.logger.debug(f"Sleeping for {delay} seconds for the delayed handlers.")
            return None if delay is None else Again(after=delay)
        if delay:
            subject.logger.debug(
                f"Sleeping was skipped because of the patch, {delay} seconds left."
            )
        source: RawBody | Any = subject.slot.latest
        applied = await self._send(subject, source)
        patched = applied.body
        if patched is None or _get_version(patched) == _get_version(source):
            if applied.is_refused and delay is None:
                # The newer state is usually on its way; if it is not, there is another reason.
                return Again(after=get_conflict_delay(subject.memory))
            # If nothing has changed though it should have, a new attempt would be the same.
            return None if delay is None else Again(after=max(delay, NOTHING_CHANGED_DELAY))
        timeout = self._settings.persistence.consistency_timeout
        subject.slot.latest, subject.slot.type = patched, "MODIFIED"
        subject.slot.expect(_get_version(patched), self._clock.monotonic() + timeout)
        subject.memory.patched_version = parse_version(patched)
        return Again(after=timeout)

    async def _send(self, subject: Subject, source: RawBody) -> Applied:
        memory = subject.memory
        memory.pending = (subject.marks, subject.patch)  # until it is surely delivered
        applied = await apply_patches(
            client=self._client,
            resource=self._resource,
            body=Body(source),
            marks=subject.marks,
            patch=subject.patch,
            logger=subject.logger,
        )
        memory.pending = None
        memory.settled_version = None
        memory.warned = warn_of_inconsistencies(
            applied.inconsistencies, self._resource, memory.warned, subject.logger
        )
        if applied.body is not None:
            if memory.seen and (subject.patch.fns or subject.patch.keys() - {"status"}):
                self._refresh_seen(subject, source, applied.body)
            if memory.is_released:
                memory.is_freed = not is_deletion_blocked(
                    applied.body, self._settings.persistence.finalizer
                )
            elif subject.is_finished and is_only_marked(source, applied.body, subject):
                memory.settled_version = _get_version(applied.body)
        subject.patch.clear()
        subject.marks.clear()
        keep_refused(memory, applied, subject.logger, has_news=bool(subject.slot.events))
        return applied

    def _refresh_seen(self, subject: Subject, before: RawBody, after: RawBody) -> None:
        """What the handlers have changed themselves is not a change to be missed by anybody.

        The changes of others are, and the response to the patch can have both of them. If so,
        some handlers are called for both.
        """
        essence = self._build_essence(Body(after))
        try:
            expected = self._build_essence(Body(subject.patch.transform(before)))
        except Exception:
            return  # the functions are of users, and can fail; it is reported already
        if essence == expected:
            refresh_seen(subject.memory, essence)


def is_only_marked(before: RawBody, after: RawBody, subject: Subject) -> bool:
    """Whether nothing but our annotations differs in these two states of the object.

    There is nothing to be handled then: neither by us, nor by anybody else's will.
    """
    return (
        not subject.patch
        and not subject.marks.fns
        and not subject.marks.results
        and subject.marks.keys() == {"metadata"}
        and subject.marks["metadata"].keys() == {"annotations"}
        and _is_same_but(before, after, "metadata")
        and _is_same_but(before["metadata"], after["metadata"], *_VOLATILE)
        and _merge(before["metadata"].get("annotations"), subject.marks)
        == after["metadata"].get("annotations")
    )


_VOLATILE = ("annotations", "resourceVersion", "managedFields")


def _is_same_but(before: Mapping[str, Any], after: Mapping[str, Any], *ignored: str) -> bool:
    return all(
        key in ignored or before.get(key) == after.get(key)
        for key in (before.keys() | after.keys())
    )


def _merge(annotations: Mapping[str, str] | None, marks: Patch) -> Mapping[str, str]:
    merged = {**(annotations or {}), **marks["metadata"]["annotations"]}
    return {key: value for key, value in merged.items() if value is not None}


def _get_version(body: RawBody) -> str | None:
    return body["metadata"].get("resourceVersion")
