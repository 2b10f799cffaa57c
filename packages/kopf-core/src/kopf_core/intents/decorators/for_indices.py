"""The decorator for in-memory indices: ``@kopf.index``."""

from typing import Unpack

from kopf_core.intents.callbacks import IndexingDecorator
from kopf_core.intents.decorators.declaring import declare_for_resource
from kopf_core.intents.decorators.options import ResourceOptions, SelectorArg
from kopf_core.intents.decorators.signatures import spelled_out
from kopf_core.intents.handlers import IndexingHandler


@spelled_out
def index(
    arg1: SelectorArg = None,
    arg2: SelectorArg = None,
    arg3: SelectorArg = None,
    /,
    **options: Unpack[ResourceOptions],
) -> IndexingDecorator:
    """Computes what is put for an object into the in-memory index of that name."""
    return declare_for_resource(IndexingHandler, (arg1, arg2, arg3), options)
