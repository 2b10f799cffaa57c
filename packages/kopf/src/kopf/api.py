"""Other objects of the cluster, from inside of async handlers: ``await kopf.api.get(...)``.

All requests go through the operator's own client: with its credentials, retries, and limits.
Kinds are named in any notation of the decorators, e.g. ``pods`` or ``deployments.apps``.
Unless specified, the namespace is that of the object being handled.
"""

from kopf_core.actions.api import (
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
