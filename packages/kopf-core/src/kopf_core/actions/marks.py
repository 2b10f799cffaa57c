"""Marks: what the framework itself leaves on an object, apart from the changes of the handlers."""

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.patches import Patch, PatchFn


class Marks(Patch):
    """The progress, the last handled state, the finalizer; and beside them, the results.

    The results are to be stored too, but the object can do without them: its schema can
    forbid them, while the rest must be stored, or the handlers would be called again.
    """

    __slots__ = ("results",)

    def __init__(
        self,
        src: Mapping[str, Any] | None = None,
        /,
        *,
        fns: tuple[PatchFn, ...] = (),
    ) -> None:
        super().__init__(src, fns=fns)
        self.results = Patch()
        """The results of the handlers, by their ids in the ``status``."""

    def __bool__(self) -> bool:
        return super().__bool__() or bool(self.results)

    def clear(self) -> None:
        super().clear()
        self.results.clear()
