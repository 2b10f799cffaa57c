"""Bodies of Kubernetes objects: as they come from the API, and as the handlers see them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, TypedDict, cast

from kopf_cogs.structs.dicts import (
    FieldPath,
    MappingView,
    ReplaceableMappingView,
    is_mapping,
    resolve,
)

ANNOTATIONS: Final[FieldPath] = ("metadata", "annotations")
"""The path to the annotations in objects and in patches."""

SET_BY_SERVERS: Final = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
        "selfLink",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
"""The fields of the metadata that only servers set: they cannot be sent with new objects."""

_NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})

Labels = Mapping[str, str]
"""The labels of an object, read-only."""

Annotations = Mapping[str, str]
"""The annotations of an object, read-only."""

RawEventType = Literal[None, "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
"""Types of watch-events. ``None`` is for the objects that were listed, not watched."""


class RawMeta(TypedDict, total=False):
    """The ``metadata`` of an object as it comes from the API."""

    uid: str
    name: str
    namespace: str
    generateName: str
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: list[str]
    ownerReferences: list[dict[str, Any]]
    resourceVersion: str
    deletionTimestamp: str
    creationTimestamp: str
    selfLink: str
    generation: int


class RawBody(TypedDict, total=False):
    """An object as it comes from the API. There can be more fields than these."""

    apiVersion: str
    kind: str
    metadata: RawMeta
    spec: dict[str, Any]
    status: dict[str, Any]


class RawEvent(TypedDict):
    """A watch-event as it comes from the API, or made of a listed object."""

    type: RawEventType
    object: RawBody


class MetaEssence(TypedDict, total=False):
    """The part of the metadata which is tracked for changes."""

    labels: dict[str, str]
    annotations: dict[str, str]


class BodyEssence(TypedDict, total=False):
    """The part of the object which is tracked for changes. There can be more fields."""

    metadata: MetaEssence
    spec: dict[str, Any]
    status: dict[str, Any]


class ObjectReference(TypedDict, total=False):
    """A reference to an object as used in the Kubernetes events."""

    apiVersion: str
    kind: str
    namespace: str | None
    name: str
    uid: str


class OwnerReference(TypedDict, total=False):
    """A reference to an owning object as used in ``metadata.ownerReferences``."""

    controller: bool
    blockOwnerDeletion: bool
    apiVersion: str
    kind: str
    name: str
    uid: str


class _Stanza(MappingView[str, Any]):
    """A live view to one of the main parts of an object."""

    __slots__ = ()

    _stanza: ClassVar[FieldPath]

    def __init__(self, src: "Body | Mapping[str, Any]", /) -> None:
        if type(src) is Body and not src._path:  # the most frequent case, for every event
            self._cell = src._cell
            self._path = self._stanza
        else:
            super().__init__(src, self._stanza)


class Meta(_Stanza):
    """A live view to the object's ``metadata``."""

    __slots__ = ("_annotations", "_labels")

    _stanza = ("metadata",)
    _labels: MappingView[str, str] | None
    _annotations: MappingView[str, str] | None

    def __init__(self, src: "Body | Mapping[str, Any]", /) -> None:
        super().__init__(src)
        self._labels = None
        self._annotations = None

    @property
    def labels(self) -> Labels:
        """The labels; an empty mapping if there are none."""
        if self._labels is None:
            self._labels = MappingView(self, ("labels",))
        return self._labels

    @property
    def annotations(self) -> Annotations:
        """The annotations; an empty mapping if there are none."""
        if self._annotations is None:
            self._annotations = MappingView(self, ("annotations",))
        return self._annotations

    @property
    def uid(self) -> str | None:
        """The unique id of the object. A few API kinds have none."""
        uid: str | None = self._here().get("uid")
        return uid

    @property
    def name(self) -> str | None:
        """The name of the object. It is absent only in dry-run creation requests."""
        name: str | None = self._here().get("name")
        return name

    @property
    def namespace(self) -> str | None:
        """The namespace of the object; ``None`` for cluster-scoped objects."""
        namespace: str | None = self._here().get("namespace")
        return namespace

    def identify(self) -> tuple[str | None, str | None, str | None]:
        """The uid, the name, and the namespace at once: it is faster than one by one."""
        here = self._here()
        return here.get("uid"), here.get("name"), here.get("namespace")

    @property
    def creation_timestamp(self) -> str | None:
        """The creation time of the object, as in the API: an ISO-8601 string."""
        return cast("str | None", self._here().get("creationTimestamp"))

    @property
    def deletion_timestamp(self) -> str | None:
        """The time when the deletion was requested; ``None`` if it was not."""
        return cast("str | None", self._here().get("deletionTimestamp"))


class Spec(_Stanza):
    """A live view to the object's ``spec``."""

    __slots__ = ()

    _stanza = ("spec",)


class Status(_Stanza):
    """A live view to the object's ``status``."""

    __slots__ = ()

    _stanza = ("status",)


class Body(ReplaceableMappingView[str, Any]):
    """A live view to the whole object, as passed to the handlers.

    The views to its parts are made when first asked for, and remain the same since then.
    """

    __slots__ = ("_meta", "_parsed", "_spec", "_status")

    _meta: Meta | None
    _parsed: dict[Any, Any]  # absent until it is needed: bodies are made for every event
    _spec: Spec | None
    _status: Status | None

    def __init__(self, src: "Mapping[str, Any] | RawBody | BodyEssence", /) -> None:
        if type(src) is dict:  # the most frequent case, for every event
            self._cell = [src]
            self._path = ()
        else:
            super().__init__(cast("Mapping[str, Any]", src))
        self._meta = None
        self._spec = None
        self._status = None

    @property
    def metadata(self) -> Meta:
        """The live view to ``metadata``."""
        if self._meta is None:
            self._meta = Meta(self)
        return self._meta

    @property
    def meta(self) -> Meta:
        """The live view to ``metadata``."""
        return self.metadata

    @property
    def parsed(self) -> dict[Any, Any]:
        """A cache: the models that were made of this state of the object."""
        try:
            return self._parsed
        except AttributeError:
            self._parsed = {}
        return self._parsed

    @property
    def spec(self) -> Spec:
        """The live view to ``spec``."""
        if self._spec is None:
            self._spec = Spec(self)
        return self._spec

    @property
    def status(self) -> Status:
        """The live view to ``status``."""
        if self._status is None:
            self._status = Status(self)
        return self._status


def build_object_reference(body: Mapping[str, Any] | RawBody) -> ObjectReference:
    """Make a reference to the object for the Kubernetes events and logs.

    The fields that the object does not have are left out.
    """
    raw = resolve(body, ())  # it is faster than through the view
    meta: Any = raw.get("metadata") or {}
    ref: ObjectReference = {
        "apiVersion": raw.get("apiVersion"),
        "kind": raw.get("kind"),
        "name": meta.get("name"),
        "uid": meta.get("uid"),
        "namespace": meta.get("namespace"),
    }
    if all(ref.values()):  # nearly all objects have all of the fields
        return ref
    return cast("ObjectReference", {field: value for field, value in ref.items() if value})


def get_annotations(body: "Mapping[str, Any] | RawBody | BodyEssence") -> Mapping[str, str]:
    """The annotations of the object, or of a patch: the same as by the views, but quicker."""
    meta = body.get("metadata")
    annotations = meta.get("annotations") if type(meta) is dict or is_mapping(meta) else None
    if type(annotations) is dict or is_mapping(annotations):
        return annotations
    return _NO_ANNOTATIONS


def build_owner_reference(
    body: Mapping[str, Any] | RawBody,
    *,
    controller: bool | None = True,
    block_owner_deletion: bool | None = True,
) -> OwnerReference:
    """Make a reference to the object as the owner of other objects.

    By default, the owner is the controller of the owned object (there can be only one),
    and is not deleted in the foreground mode before the owned object is deleted.
    The fields that the object does not have, or that are ``None``, are left out.
    """
    ref = build_object_reference(body)
    ref.pop("namespace", None)
    flags = {"controller": controller, "blockOwnerDeletion": block_owner_deletion}
    flags = {key: val for key, val in flags.items() if val is not None}
    return cast("OwnerReference", {**flags, **ref})
