"""Running operators in tests: in the background of a test, in the same process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import click.testing

from kopf_core.intents.causes import Activity
from kopf_core.intents.registries import (
    OperatorRegistry,
    get_default_registry,
    set_default_registry,
)
from kopf_kits.cli import CLIControls, main
from kopf_kits.logs import preserved_logging

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings

    ExcInfo = tuple[type[BaseException], BaseException, TracebackType]

POLLING = 0.01  # seconds between the looks at the two ways to become ready: started or failed


class KopfRunner:
    """Run an operator in the background while the test does something in the foreground.

    Pass the arguments of ``kopf`` as a list or as one string::

        with KopfRunner(["run", "-A", "--verbose", "examples/01-minimal/example.py"]) as runner:
            ...  # create, change, delete objects; wait until they are handled

        assert runner.exit_code == 0
        assert "And here we are!" in runner.output

    The block starts when the operator is ready, i.e. its startup handlers have succeeded, or when
    it has failed. The operator stops when the block ends; then, its output and exit code are there.

    :param reraise: Whether to raise the operator's exception at the end of the block.
    :param timeout: How long to wait for the operator to exit, in seconds; forever by default.
    :param registry: The registry for the handlers; by default, the one of the process, and the
        handlers from the loaded files do not stay in it after the block.
    :param settings: The operator's initial settings.

    All the rest goes to ``click.testing.CliRunner.invoke()``.
    """

    def __init__(
        self,
        *args: Any,
        reraise: bool = True,
        timeout: float | None = None,
        registry: OperatorRegistry | None = None,
        settings: OperatorSettings | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.args = args
        self.kwargs = kwargs
        self.reraise = reraise
        self.timeout = timeout
        self._controls = CLIControls(
            registry=registry,
            settings=settings,
            ready_flag=threading.Event(),
            stop_flag=threading.Event(),
        )
        self._future: concurrent.futures.Future[click.testing.Result] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name="kopf-runner", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        ready = self._controls.ready_flag
        assert isinstance(ready, threading.Event)
        while not ready.wait(POLLING) and not self._future.done():
            pass
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]:
        stop = self._controls.stop_flag
        assert isinstance(stop, threading.Event)
        stop.set()
        try:
            result = self._future.result(timeout=self.timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"The operator did not stop in {self.timeout} seconds.") from exc
        self._thread.join()
        error = result.exception
        if exc is not None and error is not None:  # either of them can be the reason of the other
            exc.add_note(f"The operator has failed: {type(error).__name__}: {error}")
        elif error is not None and self.reraise:
            raise error
        return False

    def _run(self) -> None:
        """The body of the background thread: the same as in the command line, the flags aside."""
        loop = asyncio.new_event_loop()
        self._controls.loop = loop
        default = get_default_registry()
        set_default_registry(default.narrow([*Activity]))  # loaded files add to it
        try:
            with contextlib.closing(loop), preserved_logging():
                self._future.set_result(self._invoke())
        except BaseException as e:
            self._future.set_exception(e)
        finally:
            set_default_registry(default)

    def _invoke(self) -> click.testing.Result:
        runner = click.testing.CliRunner()
        return runner.invoke(main, *self.args, **self.kwargs, obj=self._controls)

    @property
    def future(self) -> concurrent.futures.Future[click.testing.Result]:
        """The future of the result: done when the operator has exited."""
        return self._future

    @property
    def output(self) -> str:
        """The output of the operator: printed and logged. Only after the block."""
        return self._result.output

    @property
    def stdout(self) -> str:
        """The printed output of the operator. Only after the block."""
        return self._result.stdout

    @property
    def stdout_bytes(self) -> bytes:
        """The printed output of the operator, not decoded. Only after the block."""
        return self._result.stdout_bytes

    @property
    def stderr(self) -> str:
        """The log of the operator. Only after the block."""
        return self._result.stderr

    @property
    def stderr_bytes(self) -> bytes:
        """The log of the operator, not decoded. Only after the block."""
        return self._result.stderr_bytes or b""

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if the operator has exited normally. Only after the block."""
        return self._result.exit_code

    @property
    def exception(self) -> BaseException | None:
        """The exception that the operator has failed with, if it has. Only after the block."""
        return self._result.exception

    @property
    def exc_info(self) -> ExcInfo | None:
        """The exception with which it has exited, e.g. ``SystemExit``, with a traceback; if any."""
        info: ExcInfo | None = self._result.exc_info
        return info

    @property
    def _result(self) -> click.testing.Result:
        if not self._future.done():
            raise RuntimeError("The operator is still running: it is known after the `with` block.")
        return self._future.result()
