"""The nature of a cluster: its wall clock, and the chance that its identities come from."""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of the suffixes of real servers: no vowels, so that there are no words."""


def _read_clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True, slots=True)
class Nature:
    """Where the time and the random identities come from; tests can bring their own."""

    clock: Callable[[], datetime.datetime] = _read_clock
    chance: random.Random = field(default_factory=random.SystemRandom)

    def now(self, shift: float = 0) -> str:
        """The current time as it is written in objects: in UTC, in whole seconds."""
        moment = self.clock() + datetime.timedelta(seconds=shift)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def make_uid(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))

    def make_name(self, base: str) -> str:
        """A name for ``generateName``: the base, cut to fit, and five random characters."""
        return base[:58] + "".join(self.chance.choices(_ALPHABET, k=5))
