"""Other objects of the cluster, from inside of sync handlers: ``kopf.sync_api.get(...)``.

The same as :mod:`kopf.api`, without ``await``: for functions that run in threads.
"""

from kopf_core.actions.sync_api import (
    HERE,
    APIConflictError,
    APIError,
    APIForbiddenError,
    APINotFoundError,
    APIUnprocessableError,
    UnknownKindError,
    apply,
    create,
    delete,
    get,
    list,
    patch,
)

__all__ = [
    "HERE",
    "APIConflictError",
    "APIError",
    "APIForbiddenError",
    "APINotFoundError",
    "APIUnprocessableError",
    "UnknownKindError",
    "apply",
    "create",
    "delete",
    "get",
    "list",
    "patch",
]
