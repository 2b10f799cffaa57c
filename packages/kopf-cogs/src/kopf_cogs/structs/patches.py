"""Patches: the changes to an object collected from the handlers and from the framework."""

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeVar, cast
from weakref import ref

from kopf_cogs.helpers.callbacks import call
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.dicts import MutableMappingView, json_copy, resolve
from kopf_cogs.structs.jsonpatch import JSONPatch, make_json_patch

PatchFn = Callable[[Any], None]
"""A transformation function: it gets a raw body (a dictionary) and changes it in place."""


class MetaPatch(MutableMappingView[str, Any]):
    """The changes to the object's ``metadata``."""

    __slots__ = ("__weakref__",)

    @property
    def labels(self) -> MutableMappingView[str, str | None]:
        """The changes to the labels; ``None`` deletes a label."""
        return MutableMappingView(self, ("labels",))

    @property
    def annotations(self) -> MutableMappingView[str, str | None]:
        """The changes to the annotations; ``None`` deletes an annotation."""
        return MutableMappingView(self, ("annotations",))


class SpecPatch(MutableMappingView[str, Any]):
    """The changes to the object's ``spec``."""

    __slots__ = ("__weakref__",)


class StatusPatch(MutableMappingView[str, Any]):
    """The changes to the object's ``status``."""

    __slots__ = ("__weakref__",)


V = TypeVar("V", MetaPatch, SpecPatch, StatusPatch)


class Patch(dict[str, Any]):
    """A JSON merge-patch (RFC 7386) as a dictionary, plus the transformation functions.

    In the dictionary, ``None`` deletes a field, dictionaries are merged, all other values
    replace the existing ones. The functions in ``fns`` are for the changes that depend
    on the current state, such as changes of lists. A function gets a copy of the freshest
    known body, and changes it in place. Kopf sends the difference as a JSON patch (RFC 6902),
    guarded by the resource version. The functions can be called several times.

    The patch is true if there is anything to apply: either fields or functions.
    """

    __slots__ = ("_body", "_fns", "_views")

    _fns: list[PatchFn]

    def __init__(
        self,
        src: Mapping[str, Any] | None = None,
        /,
        body: Mapping[str, Any] | RawBody | None = None,
        fns: Iterable[PatchFn] = (),
    ) -> None:
        self._body = body
        self._fns = [*fns]
        self._views: dict[str, ref[Any]] | None = None  # few patches are written by views
        if src is not None:
            super().__init__(src)
            if isinstance(src, Patch):
                self._fns[:0] = src._fns

    def __repr__(self) -> str:
        args = [super().__repr__()] if self.keys() else []
        args += [f"fns={self._fns!r}"] if self._fns else []
        return f"{type(self).__name__}({', '.join(args)})"

    def __bool__(self) -> bool:
        return True if self._fns else len(self) > 0

    def __copy__(self) -> "Patch":
        return type(self)(self, body=self._body)

    def clear(self) -> None:
        """Forget both the fields and the functions."""
        super().clear()
        self._fns.clear()

    @property
    def fns(self) -> list[PatchFn]:
        """The transformation functions: a list to append to, or to insert into."""
        return self._fns

    @property
    def metadata(self) -> MetaPatch:
        """The changes to ``metadata``."""
        return self._get_view(MetaPatch, "metadata")

    @property
    def meta(self) -> MetaPatch:
        """The changes to ``metadata``."""
        return self._get_view(MetaPatch, "metadata")

    @property
    def spec(self) -> SpecPatch:
        """The changes to ``spec``."""
        return self._get_view(SpecPatch, "spec")

    @property
    def status(self) -> StatusPatch:
        """The changes to ``status``."""
        return self._get_view(StatusPatch, "status")

    def _get_view(self, cls: type[V], name: str) -> V:
        """The same view while any code holds it; not longer, to avoid reference cycles."""
        if self._views is None:
            self._views = {}
        known = self._views.get(name)
        view = None if known is None else known()
        if view is None:
            view = cls(self, (name,))
            self._views[name] = ref(view)
        return cast(V, view)

    def as_json_patch(self, body: Mapping[str, Any] | RawBody | None = None) -> JSONPatch:
        """Build the list of JSON-patch operations for both the fields and the functions.

        The operations are relative to the body: either the passed one, or, if not passed,
        the one with which the patch was created. The list has no operations that change nothing.
        Unlike with merge-patches, the dictionaries that become empty are removed.

        Raises ``ValueError`` if there is something to apply but the body is not known.
        """
        if not self:
            return []
        reference = self._body if body is None else body
        if reference is None:
            raise ValueError("A JSON patch cannot be built without a body to be patched.")
        raw = resolve(reference, ())  # it is faster than through the view
        return make_json_patch(raw, self.transform(raw))

    def transform(self, body: Mapping[str, Any] | RawBody) -> dict[str, Any]:
        """Make a body with all the changes, by the fields and by the functions, in a copy."""
        new = cast("dict[str, Any]", json_copy(body))
        self.apply_fields(new)
        for fn in self._fns:
            call(fn, new)
        return new

    def apply_fields(self, body: MutableMapping[str, Any]) -> None:
        """Change the body in place: only by the fields, not by the functions."""
        _merge(body, self)


def _merge(target: MutableMapping[str, Any], patch: Mapping[str, Any]) -> None:
    for key, val in patch.items():
        if val is None:
            target.pop(key, None)
        elif isinstance(val, Mapping):
            _merge_field(target, key, val)
        else:
            target[key] = json_copy(val)


def _merge_field(target: MutableMapping[str, Any], key: str, patch: Mapping[str, Any]) -> None:
    old = target.get(key)
    new = old if isinstance(old, dict) else {}
    keeps_empty = key in target and not (isinstance(old, dict) and old)
    _merge(new, patch)
    if new or keeps_empty:
        target[key] = new
    else:
        target.pop(key, None)
