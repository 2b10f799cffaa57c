"""Badges: the marks on applied objects, which show who has applied them.

They name the operator and its reconciler, and have a digest of the wanted object. All operators
without a name leave the same badges. If two of them have reconcilers with the same id for the same
kind, the children of one look to the other like its own forgotten ones. Claims prevent that.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kopf_cogs.helpers import jsons
from kopf_cogs.structs.dicts import FieldPath
from kopf_cogs.structs.managedfields import get_applied_fields
from kopf_core.actions.adoption import adopt_child
from kopf_core.actions.loggers import AnyLogger
from kopf_core.engines.desired.ownership import OWNED_BY, AnyBody, is_in_reach, is_leaving, show

DIGEST_LENGTH = 16
"""In hexadecimal digits."""

MANAGED_BY = "app.kubernetes.io/managed-by"
"""The label recommended by Kubernetes for the name of the tool that manages the object."""

SET_BY_SERVERS = frozenset(
    {
        *("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink"),
        *("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"),
    }
)
"""The fields that cannot be wanted, but are in copies of objects, and in the output of ``kubectl
get``.
"""

PREFIX = "kopf.dev"
"""The prefix of the annotations, if the operator has no name."""


class Claims:
    """The objects that an operator without a name has wanted since its start; it prunes only
    these.
    """

    def __init__(self, *, is_named: bool) -> None:
        self._is_named = is_named
        self._uids: dict[str, set[str]] = {}
        self._is_told = False

    def add(self, owner: str, child: AnyBody) -> None:
        """The object is wanted, so it is ours."""
        if not self._is_named:
            self._uids.setdefault(owner, set()).add(_get_uid(child))

    def cover(self, owner: str, child: AnyBody) -> bool:
        """Whether the object with our marks cannot be of another operator."""
        return self._is_named or _get_uid(child) in self._uids.get(owner, ())

    def forget(self, owner: str) -> None:
        """Forget the claims: the owner is gone, or everything is seen anew."""
        self._uids.pop(owner, None)

    def tell_of_left(self, child: AnyBody, logger: AnyLogger) -> None:
        """Log why the object is left, and how users can change that; once for all objects."""
        if not self._is_told and not is_leaving(child):
            self._is_told = True
            logger.warning(
                f"{show(child)} is not wanted anymore, but it is left, and so are others: "
                "it can be of another operator with no name. Name this one: set `settings.name`."
            )


def _get_uid(body: AnyBody) -> str:
    return str((body.get("metadata") or {}).get("uid"))


@dataclass(frozen=True, slots=True)
class Badges:
    """The marks by which one operator recognises the objects that it has applied."""

    manager: str
    """The name of the operator: its field manager, and the value of the label."""

    prefix: str = PREFIX
    """The prefix of the annotations."""

    claims: Claims = field(default_factory=lambda: Claims(is_named=True), compare=False)
    """The claims, which also recognise its objects, if it has no name."""

    @classmethod
    def of(cls, name: str | None, manager: str) -> "Badges":
        """Make the badges of the operator by its name, if it has one."""
        return cls(manager, name or PREFIX, Claims(is_named=name is not None))

    @property
    def _reconciler(self) -> str:
        return f"{self.prefix}/applied-by"

    @property
    def _digest(self) -> str:
        return f"{self.prefix}/applied-digest"

    @property
    def digest_path(self) -> FieldPath:
        """The path of the digest on the object."""
        return ("metadata", "annotations", self._digest)

    def put_on(
        self, wanted: AnyBody, owner: AnyBody, *, namespaced: bool, reconciler: str
    ) -> dict[str, Any]:
        """Make the object to be applied: adopted by its owner, and recognisable later.

        The digest shows changes where nothing else does: e.g. when an item is not wanted anymore
        inside of a field that is always set as a whole.
        """
        child = adopt_child(wanted, owner, namespaced=namespaced)
        metadata = child["metadata"]
        if not namespaced:
            metadata.pop("namespace", None)  # as the server does
        annotations = {self._reconciler: reconciler}
        if not is_in_reach(owner, metadata.get("namespace") if namespaced else None):
            annotations[OWNED_BY] = str((owner.get("metadata") or {}).get("uid"))
        metadata["labels"] = {MANAGED_BY: self.manager, **(metadata.get("labels") or {})}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
        if not SET_BY_SERVERS.isdisjoint(metadata):  # the wish is made of a live object
            self._make_wanted(metadata)
        data, plain = _serialize(child)
        if encode_strings(plain):
            data, _ = _serialize(plain)
        plain["metadata"]["annotations"][self._digest] = _digest(data)
        return plain

    def _make_wanted(self, metadata: dict[str, Any]) -> None:
        """Remove the fields from the metadata that cannot be wanted."""
        for key in SET_BY_SERVERS:
            metadata.pop(key, None)
        metadata["annotations"].pop(self._digest, None)

    def get_reconciler(self, body: AnyBody) -> str | None:
        """The reconciler of this operator that has applied the object, if any."""
        if self._is_copied(body):
            return None
        return ((body.get("metadata") or {}).get("annotations") or {}).get(self._reconciler)

    def get_digest(self, body: AnyBody) -> str:
        """The digest of the wish when the object was applied; empty if it never was."""
        annotations = (body.get("metadata") or {}).get("annotations") or {}
        return str(annotations.get(self._digest) or "")

    def is_same_wish(self, child: AnyBody, live: AnyBody) -> bool:
        """Whether exactly this wish was already applied to the object, even if it differs now."""
        return self.get_digest(child) == self.get_digest(live) != ""

    def is_out_of_reach(self, body: AnyBody, owner_uid: str) -> bool:
        """Whether Kubernetes does not delete the object with its owner, so that Kopf has to."""
        annotations = (body.get("metadata") or {}).get("annotations") or {}
        return bool(annotations.get(OWNED_BY) == owner_uid) and not self._is_copied(body)

    def _is_copied(self, body: AnyBody) -> bool:
        """Whether another client has made the object by copying one of ours, with all its marks.

        The server knows who has applied which object. The label does not tell: users set it as they
        like.
        """
        is_told = (body.get("metadata") or {}).get("managedFields") is not None
        return is_told and get_applied_fields(body, self.manager) is None


def encode_strings(child: dict[str, Any]) -> bool:
    """Move the strings of a Secret to where the server keeps them, in its form; return whether
    any moved.

    The server never shows the strings as they were written, and drops line breaks of base64.
    Objects of other kinds stay as they are.
    """
    if child.get("kind") != "Secret" or child.get("apiVersion") != "v1":
        return False
    strings, data = child.pop("stringData", None), child.get("data")
    if isinstance(data, dict):
        broken = {k: v for k, v in data.items() if isinstance(v, str) and ("\n" in v or "\r" in v)}
        data.update((k, v.replace("\n", "").replace("\r", "")) for k, v in broken.items())
        if strings is None:
            return bool(broken)
    if isinstance(strings, dict):
        encoded = {
            key: base64.b64encode(str(value).encode()).decode()
            for key, value in strings.items()
            if value is not None
        }
        child["data"] = {**(data or {}), **encoded}
    return strings is not None


def _digest(data: bytes) -> str:
    """Digest the content. This is made in every pass, so it must be fast."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH]


def _serialize(child: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Serialise the object as it is sent: only JSON, always in the same order. Return the plain
    object, too, without views in it.
    """
    try:
        return jsons.dumps_and_loads(child, sort_keys=True)
    except (TypeError, ValueError):
        plain = json.loads(json.dumps(child, default=_plain))
        return jsons.dumps_and_loads(plain, sort_keys=True)


def _plain(value: Any) -> Any:
    """Serialise views of objects (such as ``spec``) as the values that they show."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return list(value)
    raise TypeError(f"Objects of type {type(value).__name__} cannot be a part of what is wanted.")
