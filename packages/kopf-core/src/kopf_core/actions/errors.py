"""The errors that handlers may raise, and their meaning for the framework.

::

    Exception
    ├── TemporaryError            not yet: try again after a delay
    │   ├── AwaitingError         (internal) something else must happen first: nothing has failed
    │   └── SubhandlersPending    (internal) the sub-handlers of this handler are not finished
    ├── PermanentError            never: do not try again
    │   ├── RejectionError        the handler is there to reject, and it has: nothing has failed
    │   ├── HandlerTimeoutError   the handler's ``timeout=`` is over
    │   └── HandlerRetriesError   the handler's ``retries=`` are used up
    └── any other exception       by the handler's ``errors=`` mode
"""

import enum


class TemporaryError(Exception):
    """The handler cannot finish now; call it again after a delay.

    ``delay`` is in seconds; ``None`` or zero means at once. The default is one minute.
    """

    delay: float | None
    """Seconds until the next attempt; none or zero means at once."""

    def __init__(self, __msg: str | None = None, delay: float | None = 60) -> None:
        super().__init__(__msg)
        self.delay = delay


class PermanentError(Exception):
    """The handler has failed for good; it is not called again for this change."""


class HandlerTimeoutError(PermanentError):
    """The handler has not succeeded within its ``timeout=``, counted from the first attempt."""


class HandlerRetriesError(PermanentError):
    """The handler has been tried as many times as its ``retries=`` permit."""


class RejectionError(PermanentError):
    """The handler has said "no", as it may: this is its result, not its failure."""


class AwaitingError(TemporaryError):
    """Something else must happen before the next call of the handler: this is no attempt yet."""


class SubhandlersPending(TemporaryError):
    """Some sub-handlers of the handler are not finished; the handler is called again for them."""


class ErrorsMode(enum.Enum):
    """The meaning of an arbitrary exception in a handler, i.e. not one of Kopf's own."""

    IGNORED = 1
    """The exception is logged, and the handler counts as successful."""

    TEMPORARY = 2
    """The handler is retried after its ``backoff=`` (the default for most handlers)."""

    PERMANENT = 3
    """The handler counts as failed and is not retried."""
