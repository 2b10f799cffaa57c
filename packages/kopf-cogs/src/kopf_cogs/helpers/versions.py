"""The version of the framework, as it is installed."""

import functools


@functools.cache
def get_version() -> str:
    """The version of the distribution, or ``0`` if it is used directly from a source folder."""
    # It scans the folders of sys.path, so neither imported nor called until needed.
    import importlib.metadata

    for name in ("kopf-cogs", "kopf"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "0"


def get_user_agent() -> str:
    """How the framework introduces itself to the API servers."""
    return f"kopf/{get_version()}"
