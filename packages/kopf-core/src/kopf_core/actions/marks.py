"""Marks: the data of the framework on an object, apart from the changes of the handlers."""

from collections.abc import Mapping
from typing import Any

from kopf_cogs.structs.patches import Patch, PatchFn


class Marks(Patch):
    """The progress, the last handled state, and the finalizer; and apart from them, the results.

    The results are stored, too, but the object can do without them: its schema can forbid them. The
    rest must be stored, or Kopf would call the handlers again.
    """

    __slots__ = ("_results",)

    def __init__(
        self,
        src: Mapping[str, Any] | None = None,
        /,
        *,
        fns: tuple[PatchFn, ...] = (),
    ) -> None:
        super().__init__(src, fns=fns)
        self._results: Patch | None = None

    @property
    def results(self) -> Patch:
        """The results of the handlers, by their ids in the ``status``."""
        if self._results is None:
            self._results = Patch()
        return self._results

    def __bool__(self) -> bool:
        return len(self) > 0 or bool(self._fns) or bool(self._results)

    def clear(self) -> None:
        super().clear()
        self._results = None
