"""The worker of the operator: it runs what is written in the editor."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
from pyodide.ffi import run_sync

from kopf_cogs.aiokits.inline import InlineThreads
from kopf_cogs.aiokits.surroundings import Surroundings, surroundings_var
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import AiohttpSession, VaultKey
from kopf_core.reactor.process.running import operator
from kopf_kits.loading import LoadingError, preload
from kopf_kits.logs import TextFormatter
from kopf_kits.pipes import PipeConnector

from .wires import Wire

SERVER = "http://127.0.0.1"
FILE = Path("example.py")

Log = Callable[[str, str], None]
"""Shows one message: its level, e.g. ``info``, and its text."""


async def run(port: Any, code: str, log: Log, can_suspend: bool) -> None:
    """Run the operator for as long as the worker lives, or until it fails."""
    show_logs(log)
    sys.excepthook = lambda *args: log("error", "".join(traceback.format_exception(*args)))
    surroundings_var.set(Surroundings(threads=InlineThreads(run_sync if can_suspend else None)))
    connector = PipeConnector(Wire(port).open)
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
    info = AiohttpSession(server=SERVER, aiohttp_session=session)
    try:
        load(code)
        vault = Vault({VaultKey("playground"): info}, refillable=False)
        await operator(clusterwide=True, vault=vault)
    except LoadingError as e:
        log("error", f"{e}\n{e.details}".rstrip())
    except Exception as e:
        log("error", f"The operator has failed: {type(e).__name__}: {e}")
    finally:
        await session.close()


def load(code: str) -> None:
    """Register the handlers of the code."""
    FILE.write_text(code, encoding="utf-8")
    preload([str(FILE)])


def show_logs(log: Log) -> None:
    """Show the messages as `kopf run` does."""
    handler = PageHandler(log)
    handler.setFormatter(TextFormatter("%(message)s", prefix=True))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("asyncio").setLevel(logging.ERROR)


class PageHandler(logging.Handler):
    """Sends the messages to the page."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Send one message."""
        self._log(record.levelname.lower(), self.format(record))
