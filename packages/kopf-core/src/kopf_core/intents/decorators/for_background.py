"""The decorators for background work of objects: ``@kopf.daemon``, ``@kopf.timer``."""

from typing import Unpack

from kopf_core.intents.callbacks import DaemonDecorator, TimerDecorator
from kopf_core.intents.crons import parse_cron
from kopf_core.intents.decorators.declaring import declare_for_resource
from kopf_core.intents.decorators.options import DaemonOptions, SelectorArg, TimerOptions
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.handlers import DaemonHandler, TimerHandler


@spelled_out
def daemon(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[DaemonOptions],
) -> DaemonDecorator:
    """Runs in background for every object, for as long as it exists and matches.

    ``initial_delay`` is in seconds, or a function of the handler's keyword arguments.
    To stop the daemon, Kopf sets the flag ``stopped``. Kopf cancels the daemon after
    ``cancellation_backoff`` seconds, and abandons it after ``cancellation_timeout`` more. Without
    a timeout, Kopf waits for the daemon, and logs it every ``cancellation_polling`` seconds.
    """
    return declare_for_resource(DaemonHandler, (arg1, arg2, arg3), options)


@spelled_out
def timer(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[TimerOptions],
) -> TimerDecorator:
    """Called for every object by a schedule, for as long as it exists and matches.

    ``interval`` seconds pass between calls: from the end of one to the start of the next one, or
    from start to start if ``sharp``. With ``idle``, the object must stay unchanged for that long.

    With a ``schedule``, it is called by the calendar, e.g. ``"0 3 * * *"`` at 3 o'clock in the
    ``timezone``. Then ``missed`` is the policy for calls that an absent operator has missed. Raises
    :class:`TypeError` for options that never work together.
    """
    for name in ("interval", "sharp", "idle"):
        if options.get("schedule") is not None and options.get(name) is not None:
            raise TypeError(f"Either schedule= or {name}= can be defined, not both.")
    cron = parse_cron(
        options.get("schedule"),
        timezone=options.get("timezone"),
        missed=options.get("missed"),
        jitter=options.get("jitter"),
    )
    others = {name: value for name, value in options.items() if name not in _OF_SCHEDULES}
    return declare_for_resource(TimerHandler, (arg1, arg2, arg3), others, cron=cron)


_OF_SCHEDULES = ("schedule", "timezone", "missed", "jitter")
