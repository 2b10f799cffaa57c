"""Forms: which parts of the objects of a kind the operator keeps, in place of whole objects.

The form is a part of the key of a watch-stream. All objects of the stream are in this form. Kopf
also brings the replies to its own requests and the last handled states into this form. Otherwise,
the absent fields would look like a change of the object.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from kopf_cogs.configs.conventions import select_marks
from kopf_cogs.helpers import jsons
from kopf_cogs.helpers.callbacks import call
from kopf_cogs.structs.bodies import Body, BodyEssence, RawBody, get_annotations

TransformFn: TypeAlias = Callable[[Any], Any]
"""A function that takes an object, and returns the object with fewer fields. The function can
also change the object in place, and return nothing."""

_SYSTEM: Final = ("apiVersion", "kind")
_IDENTITY: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "ownerReferences",
)
"""The fields of the metadata that Kopf itself needs. The functions of users cannot drop them."""

_METADATA: Final = (
    "application/json;as={};g=meta.k8s.io;v=v1;drop=metadata.managedFields,application/json"
)
"""The header ``Accept``. Since 1.38, Kubernetes does not send the managed fields then."""


class FormError(Exception):
    """A function of the user has failed to make an object of another form."""


class Form(NamedTuple):
    """The way to change each object. It is small and hashable, because Kopf compares it often."""

    transforms: tuple[TransformFn, ...] = ()
    """The functions of the user, in the order of their calls."""

    is_metadata: bool = False
    """Whether objects have only the metadata. Kopf asks API servers to send nothing else, and drops
    the managed fields, which are the biggest part of it.
    """

    @property
    def accept(self) -> str | None:
        """The header ``Accept`` for watching. Some servers ignore it, and send whole objects."""
        return _METADATA.format("PartialObjectMetadata") if self.is_metadata else None

    @property
    def accept_list(self) -> str | None:
        """The header ``Accept`` for listing."""
        return _METADATA.format("PartialObjectMetadataList") if self.is_metadata else None

    def apply(self, body: RawBody) -> RawBody:
        """Bring the object into this form. The functions can modify the passed object itself.

        Raises :class:`FormError` if a function fails.
        """
        if self == WHOLE:
            return body
        metadata: Mapping[str, Any] = body["metadata"]
        system = {key: body[key] for key in _SYSTEM if key in body}
        identity = {key: metadata[key] for key in _IDENTITY if key in metadata}
        marks = select_marks(get_annotations(body))
        try:
            formed = self._transform(body)
            left = dict(formed.get("metadata") or {}) | identity
            if self.is_metadata:
                left.pop("managedFields", None)
            if marks:
                left["annotations"] = {**(left.get("annotations") or {}), **marks}
        except Exception as e:
            raise FormError(f"{type(e).__name__}: {e}") from e
        return cast("RawBody", {**formed, **system, "metadata": left})

    def _transform(self, body: Any) -> Any:
        body = {"metadata": body["metadata"]} if self.is_metadata else body
        for transform in self.transforms:
            made = call(transform, body)
            body = body if made is None else made
        return body

    def reduce(self, old: BodyEssence, new: BodyEssence, body: Body) -> BodyEssence:
        """Drop from the old essence the fields that the functions drop from objects.

        The old essence can be from the time when the operator kept whole objects. It can also be
        the result of the functions already. If they cannot be applied to their own results, the
        old essence stays as it is. It also stays if the functions fail, because fields are absent.
        """
        if self == WHOLE:
            return old
        try:
            reduced = self._reduce(old, body)
            if reduced == new or self._reduce(new, body) == new:
                return reduced
        except FormError:
            pass
        return old

    def _reduce(self, essence: BodyEssence, body: Body) -> BodyEssence:
        known: Mapping[str, Any] = body.get("metadata") or {}
        former: Any = jsons.clone(essence)
        metadata = former.get("metadata") or {}
        identity = {key: known[key] for key in _IDENTITY if key in known}
        system = {key: body[key] for key in _SYSTEM if key in body}
        whole: Any = {**former, **system, "metadata": {**identity, **metadata}}
        formed: Any = self.apply(whole)
        left = {key: formed["metadata"][key] for key in metadata if formed["metadata"].get(key)}
        reduced = {key: formed[key] for key in former if key in formed and key != "metadata"}
        return cast("BodyEssence", {**reduced, "metadata": left} if left else reduced)


WHOLE: Final = Form()
"""The form of whole objects: the default."""
