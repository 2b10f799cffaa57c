"""The end of the process after the operator, if the process belongs to somebody else, too."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import pytest

from kopf_kits.cli import exits


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Within what times the process must end, as it was asked for."""
    found: list[float] = []
    monkeypatch.setattr(exits.Process, "expect_end", lambda _, timeout: found.append(timeout))
    return found


@contextlib.contextmanager
def working() -> Iterator[threading.Thread]:
    """A thread that the interpreter waits for."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        yield thread
    finally:
        end.set()
        thread.join()


def test_threads_of_other_owners_do_not_end_their_process(bounds: list[float]) -> None:
    """E.g. a test runs the command in its process, beside its own server in a thread."""
    with working() as thread, exits.clean_exit([thread, threading.main_thread()]):
        pass
    assert not bounds


def test_threads_of_the_operator_do_not_hold_up_the_end_of_the_process(bounds: list[float]) -> None:
    with contextlib.ExitStack() as stack:
        with exits.clean_exit(threading.enumerate()):
            stack.enter_context(working())
        assert bounds == [exits.GRACE]


def test_k16_the_second_signal_is_the_end_if_there_is_no_operator_yet(bounds: list[float]) -> None:
    with exits.clean_exit():
        with contextlib.suppress(SystemExit):  # as code of users can do
            signal.raise_signal(signal.SIGTERM)
        assert not bounds
        signal.raise_signal(signal.SIGTERM)
        assert bounds == [-exits.MARGIN]


def test_k16_one_signal_after_the_operator_that_was_stopped_by_another_is_ignored(
    bounds: list[float],
) -> None:
    with exits.clean_exit():
        exits.process_owner.get().on_signal(25.0, str)
        signal.raise_signal(signal.SIGTERM)
        assert bounds == [25.0]
        signal.raise_signal(signal.SIGTERM)
        assert bounds == [25.0, -exits.MARGIN]


def test_k16_operators_that_have_started_after_a_lost_signal_exit_gracefully(
    bounds: list[float],
) -> None:
    with exits.clean_exit():
        with contextlib.suppress(SystemExit):
            signal.raise_signal(signal.SIGTERM)
        exits.process_owner.get().on_signal(25.0, str)
        assert bounds == [25.0]
