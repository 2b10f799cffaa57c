"""The choice of event loops."""

import asyncio
import errno
import sys

import pytest

from kopf_kits.loops import make_loop, proper_loop


def test_new_loop_is_closed_at_exit() -> None:
    with proper_loop() as loop:
        assert loop.run_until_complete(asyncio.sleep(0, result=123)) == 123
    assert loop.is_closed()


def test_suggested_loop_stays_open() -> None:
    suggested = asyncio.new_event_loop()
    try:
        with proper_loop(suggested) as loop:
            assert loop is suggested
        assert not suggested.is_closed()
    finally:
        suggested.close()


def test_uvloop_is_used_if_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = make_loop()
    try:
        assert isinstance(loop, uvloop.Loop)
    finally:
        loop.close()


def test_usual_loop_is_used_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = make_loop()
    try:
        assert type(loop).__module__.startswith("asyncio.")
    finally:
        loop.close()


def test_the_result_is_not_lost_if_the_loop_does_not_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in uvloop if there are connections whose TLS is still being ended."""
    usual = asyncio.new_event_loop()
    with monkeypatch.context() as patched:
        patched.setattr("kopf_kits.loops.make_loop", lambda: usual)
        patched.setattr(usual, "close", raise_busy)
        with proper_loop() as loop:
            assert loop is usual
    usual.close()


def raise_busy() -> None:
    raise OSError(errno.EBUSY, "Device or resource busy")
