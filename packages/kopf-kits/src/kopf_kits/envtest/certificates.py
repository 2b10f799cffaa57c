"""The certificates and keys of one control plane: made for one start, and trusted only there."""

from __future__ import annotations

import datetime
import pathlib

from kopf_kits.certificates import Authority, CertificateError, Pair, make_key

from .errors import EnvtestError

VALIDITY = datetime.timedelta(days=7)
HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")
ADMIN, ADMINS = "kopf-envtest-admin", "system:masters"


def write_certificates(folder: pathlib.Path) -> None:
    """Write all files that the servers and their admin need for TLS and tokens.

    ``ca.crt`` is the authority. ``server.crt`` and ``server.key`` are for the API server,
    ``admin.crt`` and ``admin.key`` for its client with all rights. ``accounts.key`` is for
    service account tokens.
    """
    try:
        authority = Authority("kopf-envtest-ca", validity=VALIDITY)
    except CertificateError:
        raise EnvtestError(
            "The certificates of a control plane cannot be made without the `cryptography` "
            "library: install it with `pip install 'kopf[dev]'`."
        ) from None
    _write_pair(folder, "ca", authority.pair)
    _write_pair(folder, "server", authority.issue("kube-apiserver", hostnames=(*HOSTS, *ADDRESSES)))
    _write_pair(folder, "admin", authority.issue(ADMIN, organization=ADMINS))
    _write_key(folder / "accounts.key", make_key())


def _write_pair(folder: pathlib.Path, name: str, pair: Pair) -> None:
    (folder / f"{name}.crt").write_bytes(pair.certificate)
    _write_key(folder / f"{name}.key", pair.key)


def _write_key(path: pathlib.Path, key: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key)
