"""Ownership: which objects belong to which ones, and by which reconciler they were applied.

Within a namespace, and below cluster-scoped objects, these are the owner references of Kubernetes:
it deletes the owned objects when their owner is gone. Elsewhere, it is an annotation of ours,
and it is we who delete the owned objects before their owner is let go.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kopf_cogs.helpers import jsons
from kopf_cogs.structs.bodies import RawBody
from kopf_cogs.structs.dicts import FieldPath
from kopf_cogs.structs.managedfields import get_applied_fields
from kopf_cogs.structs.resources import Resource
from kopf_core.actions.children import adopt_child, can_own

DIGEST_LENGTH = 16
"""In hexadecimal digits."""

AnyBody = Mapping[str, Any] | RawBody
Identity = tuple[str, str, str | None, str | None]
"""The API group, the plural name of the kind, the namespace, and the name."""

OWNED_BY = "kopf.dev/owned-by"
"""The annotation with the uid of the owner, where Kubernetes permits no owner reference."""

MANAGED_BY = "app.kubernetes.io/managed-by"
"""The label recommended by Kubernetes for the name of the tool that manages the object."""


PREFIX = "kopf.dev"
"""The prefix of the annotations, if the operator has no name."""


@dataclass(frozen=True, slots=True)
class Badges:
    """What the objects applied by one operator are recognised by."""

    manager: str
    """The name of the operator: its field manager, and the value of the label."""

    prefix: str = PREFIX
    """The prefix of the annotations."""

    @property
    def _reconciler(self) -> str:
        return f"{self.prefix}/applied-by"

    @property
    def _digest(self) -> str:
        return f"{self.prefix}/applied-digest"

    @property
    def digest_path(self) -> FieldPath:
        """Where it is kept what exactly was wanted when the object was applied."""
        return ("metadata", "annotations", self._digest)

    def put_on(
        self, wanted: AnyBody, owner: AnyBody, *, namespaced: bool, reconciler: str
    ) -> dict[str, Any]:
        """The object to be applied: adopted by its owner, and recognisable later.

        The digest makes a difference where others cannot be seen: e.g. when something is not
        wanted anymore inside of a field that is always set as a whole.
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
        data = _serialize(child)
        plain: dict[str, Any] = jsons.loads(data)
        is_secret = plain.get("kind") == "Secret" and plain.get("apiVersion") == "v1"
        if is_secret and "stringData" in plain:
            _encode_strings(plain)
            data = _serialize(plain)
        plain["metadata"]["annotations"][self._digest] = _digest(data)
        return plain

    def is_applied_by(self, body: AnyBody, reconciler: str) -> bool:
        """Whether the object was applied by this reconciler of this operator, as it says."""
        return self.get_reconciler(body) == reconciler

    def get_reconciler(self, body: AnyBody) -> str | None:
        """Which reconciler has applied the object, if it was one of this operator."""
        if self._is_copied(body):
            return None
        return ((body.get("metadata") or {}).get("annotations") or {}).get(self._reconciler)

    def get_digest(self, body: AnyBody) -> str:
        """What exactly was wanted when the object was applied; empty if it never was."""
        annotations = (body.get("metadata") or {}).get("annotations") or {}
        return str(annotations.get(self._digest) or "")

    def is_same_wish(self, child: AnyBody, live: AnyBody) -> bool:
        """Whether exactly this was already applied to the object, whatever it is like now."""
        return self.get_digest(child) == self.get_digest(live) != ""

    def is_out_of_reach(self, body: AnyBody, owner_uid: str) -> bool:
        """Whether Kubernetes does not delete the object with its owner, so we have to."""
        annotations = (body.get("metadata") or {}).get("annotations") or {}
        return bool(annotations.get(OWNED_BY) == owner_uid) and not self._is_copied(body)

    def _is_copied(self, body: AnyBody) -> bool:
        """Whether others have made the object of one of ours, with all that is written on it.

        The server knows who has applied what. The label does not tell: users set it as they like.
        """
        is_told = (body.get("metadata") or {}).get("managedFields") is not None
        return is_told and get_applied_fields(body, self.manager) is None


def get_owners(body: AnyBody) -> Iterator[str]:
    """The uids of the owners of the object, in any of the ways."""
    metadata = body.get("metadata") or {}
    refs = metadata.get("ownerReferences")
    for ref in refs if isinstance(refs, list) else ():
        uid = ref.get("uid") if isinstance(ref, Mapping) else None
        if isinstance(uid, str):
            yield uid
    annotations = metadata.get("annotations")
    owner = annotations.get(OWNED_BY) if isinstance(annotations, Mapping) else None
    if isinstance(owner, str):
        yield owner


def find_other_owner(body: AnyBody, uid: str) -> str | None:
    """Whom the object belongs to, if not to this owner: for the messages.

    Those who own it together with others, with no controller among them, do not count.
    """
    metadata = body.get("metadata") or {}
    refs = metadata.get("ownerReferences")
    for ref in refs if isinstance(refs, list) else ():
        if isinstance(ref, Mapping) and ref.get("controller") and ref.get("uid") != uid:
            return f"{ref.get('kind')} {ref.get('name')}"
    owner = (metadata.get("annotations") or {}).get(OWNED_BY)
    return f"an object with the uid {owner}" if owner and owner != uid else None


def is_in_reach(owner: AnyBody, namespace: str | None) -> bool:
    """Whether the garbage collection of Kubernetes takes care of such an object of the owner."""
    return can_own(owner, namespace=namespace)


def get_identity(resource: Resource, body: AnyBody) -> Identity:
    """What makes two descriptions be of the same object: its kind, namespace, and name."""
    metadata = body.get("metadata") or {}
    return resource.group, resource.plural, metadata.get("namespace"), metadata.get("name")


def show(body: AnyBody) -> str:
    """The object for logs and triggers."""
    metadata = body.get("metadata") or {}
    path = "/".join(
        part for part in (metadata.get("namespace"), metadata.get("name")) if isinstance(part, str)
    )
    return f"{body.get('kind') or 'object'} {path}"


def is_leaving(body: AnyBody) -> bool:
    """Whether the object is being deleted already."""
    return bool((body.get("metadata") or {}).get("deletionTimestamp"))


def _encode_strings(secret: dict[str, Any]) -> None:
    """Put the strings where the server puts them: it never shows them as they were written."""
    strings = secret.pop("stringData", None)
    if isinstance(strings, dict):
        encoded = {
            key: base64.b64encode(str(value).encode()).decode()
            for key, value in strings.items()
            if value is not None
        }
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _digest(data: bytes) -> str:
    """What is different if the content is. It is made in every pass, so it has to be fast."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH]


def _serialize(child: dict[str, Any]) -> bytes:
    """The same as it is going to be sent: with nothing but JSON in it, always in the same order."""
    try:
        return jsons.dumps(child, sort_keys=True)
    except (TypeError, ValueError):
        plain = json.loads(json.dumps(child, default=_plain))
        return jsons.dumps(plain, sort_keys=True)


def _plain(value: Any) -> Any:
    """Let views of objects (such as ``spec``) be what they show."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return list(value)
    raise TypeError(f"Objects of type {type(value).__name__} cannot be a part of what is wanted.")
