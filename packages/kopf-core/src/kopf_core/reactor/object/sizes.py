"""Sizes: finds objects with no room for our marks before their handlers are called."""

from collections.abc import Mapping

from kopf_cogs.structs.bodies import Body, get_annotations
from kopf_cogs.structs.patches import Patch
from kopf_core.actions.loggers import AnyLogger

MAX_ANNOTATIONS_SIZE = 256 * 1024
"""In bytes, all keys and values of an object. API servers reject larger annotations."""

HEADROOM = 4 * 1024
"""How much of that (in bytes) is left for the progress of handlers."""

ALWAYS_FITS = 32 * 1024
"""In characters: annotations that are so short fit, even with multi-byte characters."""


SUGGESTED = MAX_ANNOTATIONS_SIZE // 2
"""In bytes: from this size on, another storage is suggested, as objects only grow."""


def suggest_digests(size: int, logger: AnyLogger) -> None:
    """Tell that the annotations become too large, and suggest another storage."""
    logger.warning(
        f"Objects of this kind are large: their annotations take {size} bytes of at most "
        f"{MAX_ANNOTATIONS_SIZE}, and most of that is the last handled state. If the handlers "
        f"need neither old nor diff, set "
        f"settings.persistence.diffbase_storage = kopf.DigestDiffBaseStorage()."
    )


def has_room(body: Body, marks: Patch) -> bool:
    """Whether the marks will fit into the annotations of the object."""
    return fits(measure(body, marks))


def surely_has_room(body: Body, length: int) -> bool:
    """Whether a few marks of this length in characters fit, even with multi-byte characters."""
    annotations = get_annotations(body)
    return _is_short(annotations, length)


def is_too_large(body: Body, marks: Patch, logger: AnyLogger) -> bool:
    """Whether the object has no room for our marks. This must be known before the handling.

    Otherwise, the handlers would succeed, but their success could not be stored.
    """
    size = measure(body, marks)
    if fits(size):
        return False
    logger.error(
        f"The object is not handled: there is no place for the last handled state "
        f"in its annotations. It takes {size} bytes of at most {MAX_ANNOTATIONS_SIZE}, "
        f"{HEADROOM} of which are reserved for the progress. Make the object smaller, "
        f"or exclude the large fields, or use another settings.persistence.diffbase_storage, "
        f"e.g. kopf.DigestDiffBaseStorage()."
    )
    return True


def fits(size: int) -> bool:
    """Whether annotations of this size, in bytes, leave some room for the progress."""
    return size + HEADROOM <= MAX_ANNOTATIONS_SIZE


def _is_short(annotations: Mapping[str, str], extra: int = 0) -> bool:
    return extra + sum(map(len, annotations.values())) < ALWAYS_FITS and len(annotations) < 100


def measure(body: Body, marks: Patch) -> int:
    """The size of all annotations in bytes, or zero if it is small for sure."""
    planned = (marks.get("metadata") or {}).get("annotations") or {}
    if not planned:
        return 0
    current = get_annotations(body)
    if _is_short(current, sum(map(len, filter(None, planned.values())))):
        return 0
    return sum(
        len(key.encode()) + len(value.encode("utf-8", "replace"))
        for key, value in {**current, **planned}.items()
        if value is not None
    )
