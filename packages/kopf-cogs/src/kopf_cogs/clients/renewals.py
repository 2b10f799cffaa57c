"""Renewing the credentials before they end, with no login handlers called and no requests stopped.

Service-account tokens, certificates, and keys are in files, which other programs replace.
The renewer reads the files again from time to time. Exec plugins say when their credentials
expire: the renewer runs them again somewhat earlier. It uses threads, never the event loop.
"""

import asyncio
import dataclasses
import datetime
import functools
import hashlib
import logging
import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from kopf_cogs.aiokits import clocks, thread_calls
from kopf_cogs.clients import leashes, retries
from kopf_cogs.clients.vault import Vault, VaultItem
from kopf_cogs.helpers import certificates
from kopf_cogs.structs import credentials
from kopf_cogs.structs.credentials import as_utc

logger = logging.getLogger(__name__)

THREADS = "kopf-login"
"""The name of the threads that read the files and run the plugins."""

POLLING = 30.0
"""How often (in seconds) the renewer reads the files, if nothing is wrong with them."""

SETTLING = 1.0
"""How often (in seconds) the renewer reads the files, if something is wrong or changing."""

REPEATING = 3.0
"""After how long (in seconds) to try refused credentials again if there are no newer ones."""

AHEAD = 60.0
"""How long (in seconds) before the expiration the credentials are renewed, at most..."""

AHEAD_SHARE = 0.2
"""...and which share of their life, if it is short."""

Logger = logging.Logger | logging.LoggerAdapter[Any]


@dataclasses.dataclass(slots=True)
class _Record:
    """The state of the renewal of one item of the vault."""

    since: datetime.datetime
    revision: str | None
    """The digest of the certificate files in use; ``None`` if they are not read yet."""

    looked_at: float = float("-inf")
    retry_at: float = float("-inf")
    repeat_at: float | None = None
    """When to try refused credentials again; ``None`` until the renewer looks for newer ones."""

    candidate: credentials.ConnectionInfo | None = None
    """The changed credentials of the last reading: the files can be incomplete at that moment."""

    complaint: str | None = None
    backoff: retries.Backoff = dataclasses.field(
        default_factory=lambda: retries.Backoff(SETTLING, limit=POLLING)
    )

    def is_changed(
        self, info: credentials.ConnectionInfo, fresh: credentials.ConnectionInfo
    ) -> bool:
        """Whether the credentials in the files differ from the credentials in use."""
        self.revision = self.revision or fresh.revision
        return fresh.token != info.token or fresh.revision != self.revision


class Renewer:
    """Keeps the credentials of one vault fresh."""

    def __init__(self, vault: Vault, *, clock: clocks.Clock, logger: Logger = logger) -> None:
        super().__init__()
        self._vault = vault
        self._clock = clock
        self._logger = logger
        self._records: dict[VaultItem, _Record] = {}
        self._revival = asyncio.Lock()
        self._revived_at = float("-inf")

    async def run(self) -> None:
        """Renew the credentials whenever it is time, for ever."""
        with leashes.leashed():
            while True:
                delay = await self.check()
                await self._vault.wait_for_changes(delay)

    async def check(self) -> float | None:
        """Renew the due credentials; get in how many seconds to check again, ``None`` if no need.

        If a renewal fails, the old credentials stay: they can be still good, and failures can pass.
        """
        self._remember()
        for item in self._vault.items:
            if isinstance(item.info, credentials.ConnectionInfo):
                if self._get_reading_delay(item) == 0:
                    await self._read_files(item, item.info)
                if self._get_renewal_delay(item) == 0 and item.info.renewal is not None:
                    await self._attempt(item, functools.partial(item.info.renewal, item.info))
        delays = [
            delay
            for item in self._vault.items
            for delay in (self._get_reading_delay(item), self._get_renewal_delay(item))
            if delay is not None
        ]
        return min(delays, default=None)

    async def revive(self) -> bool:
        """Look for new credentials in place of the refused or expired ones; get whether any exist.

        It is for vaults without login handlers: no other part would bring newer credentials.
        """
        async with self._revival:
            since = self._clock.monotonic() - self._revived_at
            if self._vault.is_empty() and since >= SETTLING:
                self._remember()
                with leashes.leashed():
                    found = {item.key: await self._find_next(item) for item in self._vault.former}
                fresh = {str(key): info for key, info in found.items() if info is not None}
                if fresh:
                    self._vault.populate(fresh)
                self._revived_at = self._clock.monotonic()
            return not self._vault.is_empty()

    def can_revive(self) -> bool:
        """Whether new credentials can replace the refused or expired ones, now or later."""
        infos = [item.info for item in self._vault.former]
        return any(
            isinstance(info, credentials.ConnectionInfo)
            and bool(info.renewal or info.paths or info.token_path)
            for info in infos
        )

    async def _find_next(self, item: VaultItem) -> credentials.ConnectionInfo | None:
        info, record = item.info, self._records[item]
        if not isinstance(info, credentials.ConnectionInfo):
            return None
        fresh: credentials.ConnectionInfo | None = None
        if info.renewal is not None:
            fresh = await self._call(item, functools.partial(info.renewal, info))
        elif info.paths or info.token_path:
            fresh = await self._call(item, functools.partial(_read, info, record.revision))
            if fresh is not None and not record.is_changed(info, fresh):
                fresh = info
        return fresh if fresh != info or self._is_repeatable(record, info) else None

    def _is_repeatable(self, record: _Record, info: credentials.ConnectionInfo) -> bool:
        """Whether to try the same credentials again: servers can have refused them by mistake."""
        if info.is_expired(self._clock.now()):
            return False
        if record.repeat_at is None:
            record.repeat_at = self._clock.monotonic() + REPEATING
        return self._clock.monotonic() >= record.repeat_at

    def _remember(self) -> None:
        items = [*self._vault.items, *self._vault.former]
        self._records = {item: self._records.get(item) or self._record(item) for item in items}

    def _record(self, item: VaultItem) -> _Record:
        revision = getattr(item.info, "revision", None)
        return _Record(since=self._clock.now(), revision=revision)

    def _get_reading_delay(self, item: VaultItem) -> float | None:
        """When to read the files. If they are wrong now, right ones can come at any moment."""
        info = item.info
        if not isinstance(info, credentials.ConnectionInfo) or not (info.paths or info.token_path):
            return None
        record = self._records.get(item)
        if record is None:
            return 0.0
        is_urgent = record.candidate is not None or self._is_troubled(item)
        since = self._clock.monotonic() - record.looked_at
        return max(0.0, (SETTLING if is_urgent else POLLING) - since)

    def _get_renewal_delay(self, item: VaultItem) -> float | None:
        """When to get the next credentials from the source of the current ones."""
        info = item.info
        if not isinstance(info, credentials.ConnectionInfo) or info.renewal is None:
            return None
        if info.expiration is None:
            return None
        record = self._records.get(item)
        if record is None:
            return 0.0
        life = (as_utc(info.expiration) - record.since).total_seconds()
        ahead = min(AHEAD, life * AHEAD_SHARE)
        left = (as_utc(info.expiration) - self._clock.now()).total_seconds()
        return max(0.0, left - ahead, record.retry_at - self._clock.monotonic())

    def _is_troubled(self, item: VaultItem) -> bool:
        now, since = self._clock.monotonic(), item.doubted_since
        return bool(item.usable_since) or (since is not None and now - since < POLLING)

    async def _read_files(self, item: VaultItem, info: credentials.ConnectionInfo) -> None:
        record = self._records[item]
        record.looked_at = self._clock.monotonic()
        fresh = await self._call(item, functools.partial(_read, info, record.revision))
        if fresh is None:
            return
        record.complaint = None
        if not record.is_changed(info, fresh):
            record.candidate = None
        elif fresh == record.candidate or self._is_troubled(item):
            self._replace(item, fresh)
        else:
            record.candidate = fresh

    async def _attempt(
        self, item: VaultItem, renewal: Callable[[], credentials.ConnectionInfo]
    ) -> None:
        record = self._records[item]
        fresh = await self._call(item, renewal)
        if fresh is not None and fresh != item.info:
            self._replace(item, fresh)
        else:  # plugins can have caches, which give nothing newer until the very end
            record.retry_at = self._clock.monotonic() + record.backoff.advance()

    async def _call(
        self, item: VaultItem, fn: Callable[[], credentials.ConnectionInfo]
    ) -> credentials.ConnectionInfo | None:
        record = self._records[item]
        try:
            return await thread_calls.call_in_thread(fn, name=THREADS)
        except Exception as e:
            self._complain(item, record, e)
            return None

    def _replace(self, item: VaultItem, fresh: credentials.ConnectionInfo) -> None:
        self._logger.debug(f"The credentials of {item.key!r} are renewed.")
        self._records.pop(item, None)
        self._vault.replace(item, fresh)

    def _complain(self, item: VaultItem, record: _Record, exc: Exception) -> None:
        """Log each problem once, not at every attempt."""
        text = str(exc) if isinstance(exc, credentials.LoginError | ValueError) else repr(exc)
        if text != record.complaint:
            record.complaint = text
            self._logger.warning(f"The credentials of {item.key!r} cannot be renewed: {text}")


def _read(
    info: credentials.ConnectionInfo, known_revision: str | None
) -> credentials.ConnectionInfo:
    """The same credentials with the current content of their files."""
    token = info.token if info.token_path is None else credentials.read_token_file(info.token_path)
    revision = _digest(info.paths) if info.paths else info.revision
    fresh = dataclasses.replace(info, token=token, revision=revision)
    if known_revision is not None and revision != known_revision:
        _check_certificates(fresh)
    return fresh


def _check_certificates(info: credentials.ConnectionInfo) -> None:
    """Refuse broken, partial, or mismatching files: the old ones are better. Can take time."""
    info.as_ssl_context()
    path = info.certificate_path
    has_key = info.private_key_path or info.private_key_data
    if path and not has_key and not certificates.has_private_key(path):
        raise credentials.LoginError(f"The certificate has no key: {os.fspath(path)!r}.")


def _digest(paths: Iterable[str | os.PathLike[str]]) -> str:
    """The digest of all the files: it depends on their content only."""
    digest = hashlib.sha256()
    for path in paths:
        data = pathlib.Path(path).expanduser().read_bytes()
        digest.update(b"%d\0" % len(data) + data)
    return digest.hexdigest()
