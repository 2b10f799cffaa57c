"""Certificates made on the spot: for local control planes, and for webhook servers.

They are made with the ``cryptography`` library. Only the making imports it: operators that have
certificates do not need it.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import ssl
import tempfile
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

VALIDITY = datetime.timedelta(days=90)
"""For how long a certificate is valid, unless told otherwise."""

BACKDATED = datetime.timedelta(hours=1)
"""How long before now a certificate begins: for clocks that are set back."""

REMAINDER = 1 / 3
"""The part of the life of a certificate that is left when its owner must renew it."""

MAX_COMMON_NAME = 64
"""How long the common name can be, by the standard; alternative names have no such limit."""


class CertificateError(Exception):
    """A certificate cannot be made or understood. The message is one line for the user."""

    expected = True


class MissingLibraryError(CertificateError):
    """The library for certificates is not installed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its private key, both in PEM. The key is never shown in logs."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)

    def make_context(self) -> ssl.SSLContext:
        """The context of a server with this certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.NamedTemporaryFile() as file:  # only files can be loaded
            file.write(self.certificate + self.key)
            file.flush()
            context.load_cert_chain(file.name)
        return context


def require_cryptography(purpose: str) -> None:
    """Raise :class:`MissingLibraryError` with a way out if the library is not installed."""
    try:
        import cryptography.x509  # noqa: F401
    except ImportError:
        raise MissingLibraryError(
            f"{purpose} cannot be made without the `cryptography` library: "
            "install it with `pip install 'kopf[webhooks]'`, or provide the certificates in files."
        ) from None


def make_self_signed(
    hostnames: Collection[str],
    *,
    password: str | None = None,
    validity: datetime.timedelta = VALIDITY,
    now: datetime.datetime | None = None,
) -> Pair:
    """Make a certificate of a server that is its own authority: clients trust only this one.

    The hostnames and addresses are its alternative names. The first hostname is the common name,
    or the first address if there are no hostnames. "Any" addresses (``0.0.0.0``, ``::``)
    are skipped, as they name no server. The key is encrypted if there is a password.
    """
    require_cryptography("A self-signed certificate")
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

    names = list(_parse_names(hostnames))
    if not names:
        raise CertificateError("A certificate cannot be made for no hostname and no address.")
    domains = [name.value for name in names if isinstance(name, x509.DNSName)]
    common = str(domains[0] if domains else names[0].value)
    key = _make_key()
    builder = _start(common, None, key.public_key(), validity, now)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([Usage.SERVER_AUTH]), False)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
    certificate = _sign(builder, _name(common), key)
    return Pair(_dump_certificate(certificate), _dump_key(key, password))


class Authority:
    """A certificate authority of one owner: its own certificate, and the ones that it issues."""

    def __init__(self, common: str, *, validity: datetime.timedelta = VALIDITY) -> None:
        super().__init__()
        require_cryptography("The certificates of an authority")
        from cryptography import x509

        self._validity = validity
        self._key = _make_key()
        builder = _start(common, None, self._key.public_key(), validity)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_key_usage(), True)
        self._certificate = _sign(builder, _name(common), self._key)

    @property
    def pair(self) -> Pair:
        """The certificate to trust, and the key of the authority itself."""
        return Pair(_dump_certificate(self._certificate), _dump_key(self._key, None))

    def issue(
        self,
        common: str,
        *,
        organization: str | None = None,
        hostnames: Collection[str] = (),
        validity: datetime.timedelta | None = None,
    ) -> Pair:
        """Issue a certificate: of a server if there are hostnames, or of a client if none.

        A negative ``validity`` makes a certificate that has expired already.
        """
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        key = _make_key()
        builder = _start(common, organization, key.public_key(), validity or self._validity)
        usage = Usage.SERVER_AUTH if hostnames else Usage.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        if hostnames:
            names = list(_parse_names(hostnames))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        certificate = _sign(builder, self._certificate.subject, self._key)
        return Pair(_dump_certificate(certificate), _dump_key(key, None))


def make_key() -> bytes:
    """Make a private key alone, e.g. to sign tokens; not encrypted, in PEM."""
    require_cryptography("A private key")
    return _dump_key(_make_key(), None)


def encrypt_key(key: bytes, password: str) -> bytes:
    """Encrypt a key in PEM. Raises :class:`CertificateError` if it is not an open key."""
    require_cryptography("An encrypted key")
    from cryptography.hazmat.primitives import serialization

    try:
        loaded = serialization.load_pem_private_key(key, None)
    except (TypeError, ValueError):
        raise CertificateError("The private key is broken or encrypted.") from None
    return loaded.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )


def get_renewal_time(certificate: bytes) -> datetime.datetime:
    """When to renew the certificate (the first one in PEM): when a third of its life is left.

    Raises :class:`CertificateError` if it is not a certificate.
    """
    loaded = _load(certificate)
    life = loaded.not_valid_after_utc - loaded.not_valid_before_utc
    return loaded.not_valid_after_utc - life * REMAINDER


def get_hostnames(certificate: bytes) -> frozenset[str]:
    """The alternative names of the certificate (the first one in PEM), addresses included.

    Raises :class:`CertificateError` if it is not a certificate.
    """
    from cryptography import x509

    try:
        extension = _load(certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in extension.value)


def _load(certificate: bytes) -> x509.Certificate:
    require_cryptography("The dates of a certificate")
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError:
        raise CertificateError("This is not a certificate in PEM.") from None


def _parse_names(hostnames: Iterable[str]) -> Iterable[x509.DNSName | x509.IPAddress]:
    from cryptography import x509

    for hostname in dict.fromkeys(hostnames):
        try:
            address = ipaddress.ip_address(hostname.strip("[]"))
        except ValueError:
            yield x509.DNSName(_to_ascii(hostname))
        else:
            if not address.is_unspecified:
                yield x509.IPAddress(address)


def _to_ascii(hostname: str) -> str:
    try:
        return hostname if hostname.isascii() else hostname.encode("idna").decode("ascii")
    except UnicodeError:
        raise CertificateError(f"This is not a hostname: {hostname!r}") from None


def _make_key() -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str, organization: str | None = None) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common[:MAX_COMMON_NAME])]
    if organization is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _start(
    common: str,
    organization: str | None,
    public: ec.EllipticCurvePublicKey,
    validity: datetime.timedelta,
    now: datetime.datetime | None = None,
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = now or datetime.datetime.now(datetime.UTC)
    ends = now + validity
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common, organization))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, ends) - BACKDATED)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), False)
    )


def _sign(
    builder: x509.CertificateBuilder,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = builder.issuer_name(issuer).add_extension(identifier, False)
    return builder.sign(key, hashes.SHA256())


def _key_usage() -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        key_cert_sign=True,
        digital_signature=True,  # for owners that use it as their own certificate, too
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _dump_certificate(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)


def _dump_key(key: ec.EllipticCurvePrivateKey, password: str | None) -> bytes:
    """Open keys are in the form that all tools read, kube-apiserver included."""
    from cryptography.hazmat.primitives import serialization

    encoding, forms = serialization.Encoding.PEM, serialization.PrivateFormat
    if password:
        encryption = serialization.BestAvailableEncryption(password.encode())
        return key.private_bytes(encoding, forms.PKCS8, encryption)
    return key.private_bytes(encoding, forms.TraditionalOpenSSL, serialization.NoEncryption())
