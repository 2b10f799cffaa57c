"""A certificate that is kept in a Secret, and is shared by all replicas of the operator."""

import base64
import binascii
import dataclasses
import logging
import secrets
from collections.abc import Collection, Mapping
from typing import Any

from kopf_cogs.aiokits.clocks import Clock
from kopf_cogs.clients.errors import APIConflictError, APIError, APINotFoundError
from kopf_cogs.clients.session import Client
from kopf_cogs.structs.resources import Resource
from kopf_kits.certificates import (
    CertificateError,
    encrypt_key,
    get_hostnames,
    get_renewal_time,
    make_self_signed,
    require_cryptography,
)

from .identities import Material, merge_bundles

logger = logging.getLogger("kopf._kits.webhooks")

SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
MARK = {"app.kubernetes.io/managed-by": "kopf"}
ATTEMPTS = 5
"""How many times other replicas can be quicker: each time, there is a new state to read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """The content of the Secret; empty if the Secret is absent or not understood."""

    certificate: bytes = b""
    key: bytes = dataclasses.field(default=b"", repr=False)
    bundle: bytes | None = None

    @classmethod
    def parse(cls, secret: Mapping[str, Any]) -> "Stored":
        data = secret.get("data") or {}
        try:
            certificate, key, bundle = (
                base64.b64decode(data.get(name) or "") for name in ("tls.crt", "tls.key", "ca.crt")
            )
        except (binascii.Error, ValueError):
            return cls()
        return cls(certificate, key, bundle or None) if certificate and key else cls()

    def render(self) -> dict[str, str]:
        values = {"tls.crt": self.certificate, "tls.key": self.key, "ca.crt": self.bundle or b""}
        return {name: base64.b64encode(value).decode("ascii") for name, value in values.items()}


class SecretProvider:
    """The certificate in a Secret: the first replica makes it, and the other replicas read it.

    It is renewed in the same way, when a third of its life is left: the versions of the object
    decide which replica is the first. The previous certificate stays among the trusted ones then,
    until all the replicas have noticed the new one.

    A Secret with no mark of ours is only read: another client makes and renews its certificate.
    """

    def __init__(
        self, client: Client, namespace: str, name: str, hostnames: Collection[str], clock: Clock
    ) -> None:
        super().__init__()
        self._client = client
        self._namespace = namespace
        self._name = name
        self._hostnames = frozenset(hostnames)
        self._clock = clock
        self._last: tuple[Stored, Material] | None = None

    async def fetch(self) -> Material:
        require_cryptography("The certificate in a Secret")
        try:
            return self._make_material(await self._synchronise())
        except APIError as e:
            message = f"Secret {self._namespace}/{self._name} cannot be read or written: {e}"
            raise CertificateError(message) from None

    async def _synchronise(self) -> Stored:
        for _ in range(ATTEMPTS):
            secret = await self._read()
            stored = Stored() if secret is None else Stored.parse(secret)
            if secret is not None and not is_ours(secret):
                return self._verify_foreign(stored)
            if secret is not None and self._is_fresh(stored):
                return stored
            try:
                return await self._renew(secret, stored)
            except APIConflictError:
                continue  # another replica was quicker
        raise CertificateError(
            f"Secret {self._namespace}/{self._name} is being changed by others all the time."
        )

    async def _read(self) -> Any:
        url = SECRETS.get_url(namespace=self._namespace, name=self._name)
        try:
            return await self._client.get(url)
        except APINotFoundError:
            return None

    async def _renew(self, secret: Mapping[str, Any] | None, stored: Stored) -> Stored:
        hostnames = sorted(self._hostnames, key=len, reverse=True)
        pair = make_self_signed(hostnames, now=self._clock.now())
        bundle = merge_bundles(pair.certificate, stored.certificate)
        fresh = Stored(pair.certificate, pair.key, bundle)
        if secret is None:
            metadata = {"name": self._name, "namespace": self._namespace, "labels": MARK}
            secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
            payload = {**secret, "metadata": metadata, "data": fresh.render()}
            await self._client.post(SECRETS.get_url(namespace=self._namespace), payload)
        else:
            payload = {**secret, "data": {**(secret.get("data") or {}), **fresh.render()}}
            url = SECRETS.get_url(namespace=self._namespace, name=self._name)
            await self._client.put(url, payload)
        logger.info(f"A new certificate is put to Secret {self._namespace}/{self._name}.")
        return fresh

    def _is_fresh(self, stored: Stored) -> bool:
        try:
            return (
                self._clock.now() < get_renewal_time(stored.certificate)
                and self._hostnames <= get_hostnames(stored.certificate)
                and bool(stored.key)
            )
        except CertificateError:
            return False

    def _verify_foreign(self, stored: Stored) -> Stored:
        if not stored.certificate:
            raise CertificateError(
                f"Secret {self._namespace}/{self._name} is not of ours, and has no certificate: "
                "use another name, or delete it."
            )
        return stored

    def _make_material(self, stored: Stored) -> Material:
        """Equal material for equal content: each encryption of the key would differ."""
        if self._last is None or self._last[0] != stored:
            password = secrets.token_hex(32)
            material = Material(
                certificate=stored.certificate,
                key=encrypt_key(stored.key, password),
                password=password,
                bundle=stored.bundle or stored.certificate,
            )
            self._last = (stored, material)
        return self._last[1]


def is_ours(secret: Mapping[str, Any]) -> bool:
    """Whether this operator or its replica has made the Secret."""
    labels = secret.get("metadata", {}).get("labels") or {}
    return MARK.items() <= labels.items()
