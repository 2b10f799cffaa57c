"""The decorators for events and changes of objects, and for indices."""

from typing import Unpack

from kopf_core.intents.callbacks import ChangingDecorator, IndexingDecorator, WatchingDecorator
from kopf_core.intents.causes import Reason
from kopf_core.intents.decorators.declaring import declare_for_resource
from kopf_core.intents.decorators.options import (
    DeleteOptions,
    EventOptions,
    FieldChangeOptions,
    ResourceOptions,
    ResumeOptions,
    SelectorArg,
    UpdateOptions,
)
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.handlers import ChangingHandler, IndexingHandler, WatchingHandler


@spelled_out
def event(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[EventOptions],
) -> WatchingDecorator:
    """Called for every event of an object, without retries, and without marks on the object."""
    return declare_for_resource(WatchingHandler, (arg1, arg2, arg3), options)


@spelled_out
def resume(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[ResumeOptions],
) -> ChangingDecorator:
    """Called once for every object that existed before the operator's start.

    Objects that are being deleted are skipped, unless ``deleted=True``.
    """
    args = (arg1, arg2, arg3)
    deleted = bool(options.pop("deleted", False))
    return declare_for_resource(ChangingHandler, args, options, initial=True, deleted=deleted)


@spelled_out
def create(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[ResourceOptions],
) -> ChangingDecorator:
    """Called when an object is created."""
    args = (arg1, arg2, arg3)
    return declare_for_resource(ChangingHandler, args, options, reason=Reason.CREATE)


@spelled_out
def update(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[UpdateOptions],
) -> ChangingDecorator:
    """Called when an object is changed essentially.

    With ``field``, called only if that field is affected; ``old`` and ``new`` check its values
    before and after the change, ``value`` checks any of them.
    """
    args = (arg1, arg2, arg3)
    return declare_for_resource(
        ChangingHandler, args, options, reason=Reason.UPDATE, field_needs_change=True
    )


@spelled_out
def delete(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[DeleteOptions],
) -> ChangingDecorator:
    """Called when an object is marked for deletion.

    The object is kept by a finalizer until it is handled, unless ``optional=True``.
    """
    args = (arg1, arg2, arg3)
    requires_finalizer = not options.pop("optional", False)
    return declare_for_resource(
        ChangingHandler, args, options, reason=Reason.DELETE, requires_finalizer=requires_finalizer
    )


@spelled_out
def field(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[FieldChangeOptions],
) -> ChangingDecorator:
    """Called when the field of an object is changed, added, or removed."""
    args = (arg1, arg2, arg3)
    return declare_for_resource(ChangingHandler, args, options, field_needs_change=True)


@spelled_out
def index(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[ResourceOptions],
) -> IndexingDecorator:
    """Computes the values of an object for the in-memory index with that name."""
    return declare_for_resource(IndexingHandler, (arg1, arg2, arg3), options)
