"""The decorators for the operator's own life: start, exit, login, health."""

from typing import Unpack

from kopf_core.intents.callbacks import ActivityDecorator, SourceDecorator
from kopf_core.intents.causes import Activity
from kopf_core.intents.decorators.declaring import declare_for_activity
from kopf_core.intents.decorators.options import ActivityOptions, SourceOptions
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.handlers import SourceHandler


@spelled_out
def startup(**options: Unpack[ActivityOptions]) -> ActivityDecorator:
    """Called when the operator starts, before it talks to the API.

    If such a handler fails, so does the operator.
    """
    return declare_for_activity(Activity.STARTUP, options)


@spelled_out
def cleanup(**options: Unpack[ActivityOptions]) -> ActivityDecorator:
    """Called when the operator exits, for any reason."""
    return declare_for_activity(Activity.CLEANUP, options)


@spelled_out
def leading(**options: Unpack[ActivityOptions]) -> ActivityDecorator:
    """Called when this operator becomes the leader of its lease, before it handles anything.

    If such a handler fails, so does the operator.
    """
    return declare_for_activity(Activity.LEADING, options)


@spelled_out
def following(**options: Unpack[ActivityOptions]) -> ActivityDecorator:
    """Called when this operator has lost its lease, after it has stopped to handle anything."""
    return declare_for_activity(Activity.FOLLOWING, options)


@spelled_out
def login(**options: Unpack[ActivityOptions]) -> ActivityDecorator:
    """Called when credentials for the API are needed.

    Returns :class:`kopf.ConnectionInfo`, or ``None`` if it has no credentials.
    """
    return declare_for_activity(Activity.AUTHENTICATION, options)


@spelled_out
def probe(**options: Unpack[ActivityOptions]) -> ActivityDecorator:
    """Called when the health of the operator is requested; the results are reported under the
    id.
    """
    return declare_for_activity(Activity.PROBE, options)


@spelled_out
def external(**options: Unpack[SourceOptions]) -> SourceDecorator:
    """Called when the operator begins to handle objects: an asynchronous generator.

    It waits for happenings outside of the cluster, e.g. in a message queue, and yields
    :class:`kopf.Happening` for the objects to be reconciled. After an error, it is called again.
    Kopf stops it when the operator is paused, loses its lease, or exits.
    """
    return declare_for_activity(Activity.EXTERNAL, options, SourceHandler)
