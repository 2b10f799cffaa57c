"""Other objects of the cluster, from inside of sync handlers: ``kopf.sync_api.get(...)``.

The same as :mod:`kopf.api`, but for functions that run in threads: they need no ``await``.
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
