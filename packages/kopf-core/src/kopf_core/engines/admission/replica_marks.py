"""The marks in a configuration show which replicas of an operator serve its webhooks.

A mark is an annotation. Each replica has its own mark, renews it, and removes it when it leaves.
The marks of killed replicas expire soon. Replicas of one operator have the same manager.
"""

import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kopf_cogs.aiokits.clocks import Clock

RENEWAL = 60.0
"""How often (in seconds) a mark is renewed."""

LIFETIME = 180.0
"""How long (in seconds) a mark is valid."""

Annotations = dict[str, str | None]
"""The annotations in a patch: ``None`` removes."""


class ReplicaMarks:
    """The mark of this replica, and the marks of others."""

    def __init__(self, manager: str, identity: str, clock: Clock) -> None:
        digest = hashlib.md5(identity.encode("utf-8", "replace"), usedforsecurity=False)
        self._prefix = f"{manager}.kopf.dev/"
        self._key = f"{self._prefix}{digest.hexdigest()[:12]}"
        self._identity = identity
        self._clock = clock
        self._stamp: datetime.datetime | None = None

    def enter(self, body: Mapping[str, Any] | None = None) -> Annotations:
        """Build the annotations of a serving replica, in place of the known ones."""
        now = self._clock.now()
        if self._stamp is None or (now - self._stamp).total_seconds() >= RENEWAL:
            self._stamp = now
        mark = {"replica": self._identity, "seen": self._stamp.isoformat()}
        return {**self._forget_dead(body), self._key: json.dumps(mark)}

    def leave(self, body: Mapping[str, Any] | None = None) -> Annotations:
        """Build the annotations of a replica that has stopped to serve."""
        return {**self._forget_dead(body), self._key: None}

    def list_others(self, body: Mapping[str, Any]) -> list[str]:
        """List the identities of other replicas that serve the same webhooks."""
        marks = [value for value in self._get_others(body).values() if self._is_alive(value)]
        return sorted(str(json.loads(mark).get("replica")) for mark in marks)

    def _forget_dead(self, body: Mapping[str, Any] | None) -> Annotations:
        others = {} if body is None else self._get_others(body)
        return {key: None for key, value in others.items() if not self._is_alive(value)}

    def _get_others(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            key: value
            for key, value in _get_annotations(body).items()
            if key.startswith(self._prefix) and key != self._key
        }

    def _is_alive(self, mark: Any) -> bool:
        try:
            seen = datetime.datetime.fromisoformat(json.loads(mark)["seen"])
            return abs((self._clock.now() - seen).total_seconds()) < LIFETIME
        except (ValueError, TypeError, KeyError):
            return False


def is_annotated(body: Mapping[str, Any], annotations: Annotations) -> bool:
    """Whether this patch of the annotations would change nothing."""
    known = _get_annotations(body)
    return all(known.get(key) == value for key, value in annotations.items())


def _get_annotations(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return body["metadata"].get("annotations") or {}
