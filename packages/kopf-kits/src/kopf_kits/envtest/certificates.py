"""The certificates and keys of one control plane: made for one start, trusted by nobody else."""

from __future__ import annotations

import datetime
import ipaddress
import pathlib
import shutil
import subprocess
from typing import TYPE_CHECKING

from .errors import EnvtestError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

VALIDITY = datetime.timedelta(days=7)
BACKDATED = datetime.timedelta(hours=1)  # for clocks that are set back
HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")
ADMIN, ADMINS = "kopf-envtest-admin", "system:masters"


def write_certificates(folder: pathlib.Path) -> None:
    """
    Write all files that the servers and their admin need for TLS and tokens.

    They are: ``ca.crt``; ``server.crt`` and ``server.key`` for the API server; ``admin.crt`` and
    ``admin.key`` for its client with all rights; ``accounts.key`` for service account tokens.
    The library ``cryptography`` is used if it is installed, or else the ``openssl`` program.
    """
    try:
        import cryptography.x509  # noqa: F401
    except ImportError:
        openssl = shutil.which("openssl")
        if openssl is None:
            raise EnvtestError(
                "The certificates of a control plane cannot be made: "
                "install `cryptography` (`pip install kopf[dev]`) or the openssl program."
            ) from None
        OpensslAuthority(openssl, folder).write()
    else:
        LibraryAuthority(folder).write()


class LibraryAuthority:
    """A certificate authority on the ``cryptography`` library."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__()
        self.folder = folder

    def write(self) -> None:
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        key = self._write_key("ca.key")
        builder = self._build("kopf-envtest-ca", None, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        issuer = self._sign(builder, "kopf-envtest-ca", key, "ca.crt").subject
        names = [x509.DNSName(host) for host in HOSTS]
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
        for name, common, organization, usage in [
            ("server", "kube-apiserver", None, Usage.SERVER_AUTH),
            ("admin", ADMIN, ADMINS, Usage.CLIENT_AUTH),
        ]:
            public = self._write_key(f"{name}.key").public_key()
            builder = self._build(common, organization, public)
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
            if usage == Usage.SERVER_AUTH:
                alternatives = x509.SubjectAlternativeName([*names, *addresses])
                builder = builder.add_extension(alternatives, False)
            self._sign(builder, issuer, key, f"{name}.crt")
        self._write_key("accounts.key")

    def _write_key(self, filename: str) -> ec.EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        path = self.folder / filename
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return key

    def _build(
        self, common: str, organization: str | None, public: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
        if organization is not None:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name(attributes))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(now + VALIDITY)
        )

    def _sign(
        self,
        builder: x509.CertificateBuilder,
        issuer: x509.Name | str,
        key: ec.EllipticCurvePrivateKey,
        filename: str,
    ) -> x509.Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.x509.oid import NameOID

        if isinstance(issuer, str):
            issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)])
        certificate = builder.issuer_name(issuer).sign(key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        (self.folder / filename).write_bytes(pem)
        return certificate


class OpensslAuthority:
    """A certificate authority on the ``openssl`` program."""

    def __init__(self, openssl: str, folder: pathlib.Path) -> None:
        super().__init__()
        self.openssl = openssl
        self.folder = folder

    def write(self) -> None:
        self._write_key("ca.key")
        self._run(
            *["req", "-x509", "-new", "-sha256", "-days", str(VALIDITY.days)],
            *["-subj", "/CN=kopf-envtest-ca", "-key", "ca.key", "-out", "ca.crt"],
        )
        names = [*(f"DNS:{host}" for host in HOSTS), *(f"IP:{addr}" for addr in ADDRESSES)]
        alternatives = f"subjectAltName={','.join(names)}\n"
        self._issue("server", "/CN=kube-apiserver", f"extendedKeyUsage=serverAuth\n{alternatives}")
        self._issue("admin", f"/CN={ADMIN}/O={ADMINS}", "extendedKeyUsage=clientAuth\n")
        self._write_key("accounts.key")

    def _write_key(self, filename: str) -> None:
        (self.folder / filename).touch(mode=0o600)
        self._run("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", filename)

    def _issue(self, name: str, subject: str, extensions: str) -> None:
        self._write_key(f"{name}.key")
        (self.folder / f"{name}.ext").write_text(extensions, encoding="ascii")
        self._run(
            *["req", "-new", "-sha256", "-subj", subject],
            *["-key", f"{name}.key", "-out", f"{name}.csr"],
        )
        self._run(
            *["x509", "-req", "-sha256", "-days", str(VALIDITY.days), "-in", f"{name}.csr"],
            *["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"],
            *["-extfile", f"{name}.ext", "-out", f"{name}.crt"],
        )

    def _run(self, *args: str) -> None:
        command = [self.openssl, *args]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, check=False)
        if done.returncode:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            reason = words[-1] if words else f"it exited with code {done.returncode}"
            raise EnvtestError(f"openssl cannot make the certificates: {reason}")
