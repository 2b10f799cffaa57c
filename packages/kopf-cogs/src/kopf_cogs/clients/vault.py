"""The vault of credentials: it keeps, chooses, excludes, and replaces them.

The login handlers put the credentials in; the client takes them for every request, and reports
the credentials that API servers refuse (HTTP 401). When none are left, all requests wait until
the login handlers put new ones in. The vault neither does requests nor calls handlers.
"""

import asyncio
import collections
import dataclasses
import datetime
import logging
from collections.abc import Iterable, Mapping

from kopf_cogs.aiokits import clocks, sleeps
from kopf_cogs.aiokits.surroundings import get_chance, get_clock
from kopf_cogs.structs import credentials
from kopf_cogs.structs.credentials import VaultKey

logger = logging.getLogger(__name__)

_REMEMBERED_REFUSALS = 8
_LONGEST_HOLD = 30.0
_MOST_DOUBLINGS = 30
_DOUBTS_INTERVAL = 30.0


@dataclasses.dataclass(eq=False, slots=True)
class VaultItem:
    """Credentials in the vault. The same credentials put in twice make two different items."""

    key: VaultKey
    info: credentials.KubeContext = dataclasses.field(repr=False)
    usable_since: float = 0.0
    """When to use the credentials for the first time, in the clock's monotonic time."""

    doubted_since: float | None = None
    """When TLS has failed with these credentials, in the clock's monotonic time."""


@dataclasses.dataclass(slots=True)
class _Refusal:
    """Credentials that were refused, how many times in a row, and when for the first time."""

    info: credentials.KubeContext
    since: float
    count: int = 1


class Vault:
    """A container of credentials. To be used in one event loop; not thread-safe.

    Refused credentials are never used again if there are others. But if the login handlers bring
    the same ones again, they could be refused by mistake, e.g. when the API server cannot reach
    its own authenticators. They are tried again for ``patience`` seconds since the first refusal,
    with growing delays. After that, they are ignored; and if there is nothing else,
    :class:`LoginError` is raised from all requests. The delays also grow for new credentials
    if they are refused one after another: the login handlers must not be called in a busy loop.

    A vault that is not ``refillable`` has no login handlers behind it: it raises at once,
    and the client looks for what has come in place of the refused credentials. If nothing has,
    the client brings the same ones again after a while.
    """

    def __init__(
        self,
        src: Mapping[str, credentials.KubeContext] | None = None,
        /,
        *,
        refillable: bool = True,
        patience: float = 300.0,
        holdback: float = 1.0,
        clock: clocks.Clock | None = None,
    ) -> None:
        super().__init__()
        self._clock = clock or get_clock()
        self.refillable = refillable
        self._patience = patience
        self._holdback = holdback
        self._items: dict[VaultKey, VaultItem] = {}
        self._former: dict[VaultKey, VaultItem] = {}
        self._refusals: dict[VaultKey, collections.deque[_Refusal]] = {}
        self._best: list[VaultItem] = []
        self._expiration: datetime.datetime | None = None
        self._failure: credentials.LoginError | None = None
        self._settled = asyncio.Event()  # either usable, or failed
        self._needed = asyncio.Event()  # either depleted, or doubted
        self._demanded = asyncio.Event()  # a task waits
        self._changed = asyncio.Event()
        if src:
            self.populate(src)
        else:
            self._refresh()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._items) or 'empty'}>"

    def __contains__(self, item: VaultItem) -> bool:
        return self._items.get(item.key) is item

    @property
    def items(self) -> list[VaultItem]:
        """All that can be used now or soon."""
        return [*self._items.values()]

    @property
    def former(self) -> list[VaultItem]:
        """Those refused or expired, with nothing in place of them."""
        return [*self._former.values()]

    def is_empty(self) -> bool:
        """Whether there is nothing to use (some of the credentials could expire meanwhile)."""
        return self.select() is None

    async def wait_for_readiness(self) -> None:
        """Wait until there are credentials. Raises :class:`LoginError` if there will be none."""
        while self.select() is None:
            self._check()
            self._demanded.set()
            await self._settled.wait()

    async def wait_for_demand(self) -> None:
        """Wait until a request waits for the credentials, as there have been none so far."""
        await self._demanded.wait()

    async def wait_for_emptiness(self) -> None:
        """Wait until all the credentials are refused, expired, or doubted: time to log in again.

        Raises :class:`LoginError` if that has been done already with no result.
        """
        await self._needed.wait()
        self._check()

    async def wait_for_changes(self, timeout: float | None = None) -> None:
        """Wait until the credentials are replaced or doubted, or for ``timeout`` seconds."""
        if timeout is None:
            await self._changed.wait()
        else:
            await sleeps.sleep(timeout, self._changed)

    def populate(
        self, src: Mapping[str, credentials.KubeContext], hints: Iterable[str] = ()
    ) -> None:
        """Put the credentials in, as they have been retrieved by the login handlers.

        The same credentials as before are left as they are. If there is nothing usable in the end,
        all those waiting for the credentials get :class:`LoginError`, with these hints.
        """
        for name, info in src.items():
            key = VaultKey(str(name))
            current = self._items.get(key)
            if current is None or current.info != info:
                self._admit(key, info)
        self._needed.clear()
        self._refresh()
        if not self._items:
            texts = [
                "There are no usable credentials to access the cluster.",
                "Check the login handlers, or the kubeconfig or the service account without them.",
                *hints,
            ]
            self._fail(" ".join(texts))
        else:
            self._failure = None

    def replace(self, item: VaultItem, info: credentials.KubeContext) -> None:
        """Put the next credentials in place of these, if these are still there and do differ."""
        if item in self and info != item.info:
            self._admit(item.key, info)
            self._refresh()

    def doubt(self, item: VaultItem, exc: Exception) -> None:
        """Ask for newer credentials, while these are in use: the server cannot be trusted by them.

        Its certificates could be replaced while we have the old CA; or it does not like ours.
        There can be many such failures in a row, so this is a reason to log in from time to time.
        """
        now = self._clock.monotonic()
        since = item.doubted_since
        if item not in self or (since is not None and now - since < _DOUBTS_INTERVAL):
            return
        item.doubted_since = now
        logger.warning(f"There is no trust between the server and {item.key!r}: {exc}")
        if self.refillable:
            self._needed.set()
        self._notify()

    def select(self) -> VaultItem | None:
        """Choose random credentials of the highest priority; ``None`` if there are none."""
        if self._expiration is not None and self._expiration <= self._clock.now():
            self._drop_expired()
        best = self._best
        return best[0] if len(best) == 1 else get_chance().choice(best) if best else None

    async def acquire(self) -> VaultItem:
        """Choose credentials, and wait for them if necessary."""
        while True:
            item = self.select()
            if item is None:
                await self.wait_for_readiness()
            elif not item.usable_since or item.usable_since <= self._clock.monotonic():
                return item
            else:
                # Other credentials are better than held back ones, even if their priority is lower.
                item = min(self._items.values(), key=lambda other: other.usable_since)
                delay = item.usable_since - self._clock.monotonic()
                if delay <= 0:
                    return item
                await self.wait_for_changes(delay)

    def confirm(self, item: VaultItem) -> None:
        """Forget the earlier refusals: the credentials do work."""
        item.usable_since = 0.0
        self._refusals.pop(item.key, None)

    def invalidate(self, item: VaultItem, exc: Exception | None = None) -> None:
        """Exclude the credentials which the API server has refused. Others can be used instead.

        It does nothing if they are excluded or replaced already: many parallel requests are
        usually refused at once, but this is a reason for one re-authentication only.
        """
        if item not in self:
            return
        self._former[item.key] = self._items.pop(item.key)
        self._remember_refusal(item)
        self._report_refusal(item, exc)
        self._refresh()
        if not self._items and not self.refillable:
            self._fail("The credentials are refused by the server.", exc)

    def close(self) -> None:
        """Refuse to give credentials anymore, and wake up all who wait for them."""
        self._items.clear()
        self._former.clear()
        self._refresh()
        self.refillable = False
        self._fail("The vault is closed.")

    def _admit(self, key: VaultKey, info: credentials.KubeContext) -> None:
        item = VaultItem(key=key, info=info)
        now = self._clock.monotonic()
        refusal = self._find_refusal(item)
        if refusal is not None and now - refusal.since > self._patience:
            return
        doubts = refusal.count if refusal is not None else self._count_recent_refusals(key, now) - 1
        if doubts > 0:
            growth = 2 ** min(doubts - 1, _MOST_DOUBLINGS)
            item.usable_since = now + min(_LONGEST_HOLD, self._holdback * growth)
        if info.is_expired(self._clock.now()):
            self._former[key] = item
        else:
            self._items[key] = item
            self._former.pop(key, None)

    def _find_refusal(self, item: VaultItem) -> _Refusal | None:
        refusals = self._refusals.get(item.key, ())
        return next((refusal for refusal in refusals if refusal.info == item.info), None)

    def _count_recent_refusals(self, key: VaultKey, now: float) -> int:
        """How many different credentials were refused: if there are many, the cause is elsewhere.

        The first renewal is immediate: the previous credentials have ended as they should.
        """
        refusals = self._refusals.get(key, ())
        return sum(1 for refusal in refusals if now - refusal.since < 2 * _LONGEST_HOLD)

    def _remember_refusal(self, item: VaultItem) -> None:
        refusal = self._find_refusal(item)
        if refusal is not None:
            refusal.count += 1
            return
        refusals = self._refusals.setdefault(
            item.key, collections.deque(maxlen=_REMEMBERED_REFUSALS)
        )
        refusals.append(_Refusal(info=item.info, since=self._clock.monotonic()))

    def _report_refusal(self, item: VaultItem, exc: Exception | None) -> None:
        """Log a refusal. The first one is normal: credentials end. Repeated refusals are not."""
        count = sum(refusal.count for refusal in self._refusals.get(item.key, ()))
        level = logging.WARNING if count > 1 else logging.INFO
        reason = f": {exc}" if exc is not None else "."
        is_unusable = isinstance(exc, credentials.LoginError)  # the server has not even seen them
        verdict = "cannot be used" if is_unusable else "are refused by the server"
        logger.log(level, f"The credentials of {item.key!r} {verdict}{reason}")

    def _drop_expired(self) -> None:
        for item in list(self._items.values()):
            if item.info.is_expired(self._clock.now()):
                self._former[item.key] = self._items.pop(item.key)
        self._refresh()
        if not self._items and not self.refillable:
            self._fail("The credentials have expired.")

    def _refresh(self) -> None:
        """Prepare everything for the selection, so that it costs nothing in every request."""
        items = self._items.values()
        priority = max((item.info.priority for item in items), default=0)
        self._best = [item for item in items if item.info.priority == priority]
        self._expiration = min(
            (
                credentials.as_utc(item.info.expiration)
                for item in items
                if item.info.expiration is not None
            ),
            default=None,
        )
        if self._items:
            self._settled.set()
        else:
            self._settled.clear()
            self._needed.set()
        self._notify()

    def _notify(self) -> None:
        """Wake up all tasks that wait for changes, each of them once."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _fail(self, reason: str, cause: Exception | None = None) -> None:
        self._failure = credentials.LoginError(reason)
        self._failure.__cause__ = cause
        self._settled.set()

    def _check(self) -> None:
        if self._failure is not None:
            # A new error for each caller: tracebacks grow when the same error is raised repeatedly.
            raise credentials.LoginError(*self._failure.args) from self._failure.__cause__
