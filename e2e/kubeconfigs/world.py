"""A tiny API server with TLS, which tells how it was logged in to; and kubeconfigs for it."""

from __future__ import annotations

import base64
import http.server
import ipaddress
import json
import pathlib
import ssl
import stat
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Obj = dict[str, Any]
V1 = "client.authentication.k8s.io/v1"


class Pair:
    """A certificate with its key; self-signed if there is no issuer."""

    def __init__(self, name: str, issuer: Pair | None = None) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.private_key = ec.generate_private_key(ec.SECP256R1())
        signer = issuer or self
        is_ca = issuer is None
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        key_id = x509.SubjectKeyIdentifier.from_public_key(self.private_key.public_key())
        issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(
            signer.private_key.public_key()
        )
        usage = x509.KeyUsage(True, False, False, False, False, is_ca, False, False, False)
        cert = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(signer.name)
            .public_key(self.private_key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name), address]), False)
            .add_extension(usage, True)
            .add_extension(key_id, False)
            .add_extension(issuer_id, False)
            .sign(signer.private_key, hashes.SHA256())
        )
        self.cert = cert.public_bytes(serialization.Encoding.PEM)
        self.key = self.private_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        cert = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else {}
        self.server.seen.append(describe(dict(cert or {}), list(self.headers.items()), self.path))
        body = b'{"major": "1", "minor": "36"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[str] = []

    def get_request(self) -> Any:
        request, address = super().get_request()
        if self.context is not None:
            request = self.context.wrap_socket(
                request, server_side=True, do_handshake_on_connect=False
            )
        return request, address

    def finish_request(self, request: Any, client_address: Any) -> None:
        # Here it is in a thread of the connection: the handshake does not stop the others.
        if isinstance(request, ssl.SSLSocket):
            request.do_handshake()
        super().finish_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # broken handshakes


def describe(cert: Obj, headers: list[tuple[str, str]], path: str) -> str:
    """Who has come, in one line."""
    parts = [value for key, value in headers if key == "Authorization"]
    for key, value in sorted(headers):
        if key.startswith("Impersonate-"):
            parts.append(f"{key.removeprefix('Impersonate-').lower()}={value}")
    for field in cert.get("subject", ()):
        parts.append(f"certificate of {dict(field)['commonName']}")
    if not path.startswith("/version"):
        parts.append(f"at {path.partition('?')[0]}")
    return ", ".join(parts) or "anonymous"


class World:
    """Everything that kubeconfigs can refer to: servers, certificates, files, plugins."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.ca, self.other_ca = Pair("ca"), Pair("ca")
        self.user = Pair("someone", self.ca)
        self.files = {
            "ca.crt": self.ca.cert,
            "user.crt": self.user.cert,
            "user.key": self.user.key,
            "token": b"from-file\n",
            "empty": b"",
        }
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        self.plain, self.secure = _Server(), _Server()
        self.secure.context = self._make_context()
        for server in (self.plain, self.secure):
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def _make_context(self) -> ssl.SSLContext:
        pair = Pair("named", self.ca)
        path = self.folder / "server.pem"
        path.write_bytes(pair.cert + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=self.ca.cert.decode())
        return context

    def close(self) -> None:
        for server in (self.plain, self.secure):
            server.shutdown()
            server.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.secure.server_port}"

    @property
    def url(self) -> str:
        return f"https://{self.host}"

    @property
    def plain_host(self) -> str:
        return f"127.0.0.1:{self.plain.server_port}"

    def take_seen(self) -> str | None:
        """Who has come last to any of the servers; and forget it."""
        seen = [*self.plain.seen, *self.secure.seen]
        self.plain.seen.clear()
        self.secure.seen.clear()
        return seen[-1] if seen else None

    def config(
        self,
        *,
        cluster: Obj | None = None,
        user: Obj | None = None,
        context: Obj | None = None,
        **fields: Any,
    ) -> Obj:
        """A kubeconfig that works, with something different. ``None`` removes a field."""
        server = {"server": self.url, "certificate-authority-data": b64(self.ca.cert)}
        cluster = drop_nones(server | (cluster or {}))
        context = drop_nones({"cluster": "clu", "user": "usr"} | (context or {}))
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "ctx",
            "contexts": [{"name": "ctx", "context": context}],
            "clusters": [{"name": "clu", "cluster": cluster}],
            "users": [{"name": "usr", "user": user or {}}],
            **fields,
        }

    def plugin(self, code: str, **fields: Any) -> Obj:
        """A user with an exec plugin in Python; ``report()`` prints its credentials."""
        lines = [
            f"#!{sys.executable} -IS",
            "import json, os, sys, time",
            "doc = json.loads(os.environ['KUBERNETES_EXEC_INFO'])",
            "def report(**status):",
            "    print(json.dumps({'apiVersion': doc['apiVersion'],",
            "        'kind': 'ExecCredential', 'status': status}))",
            code,
        ]
        path = self.folder / "plugin"
        path.write_text("\n".join(lines))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        default = {"apiVersion": V1, "command": str(path), "interactiveMode": "Never"}
        return {"exec": drop_nones(default | fields)}

    def write(self, *contents: Any) -> list[pathlib.Path]:
        """Write the kubeconfigs: texts, or documents to be written as JSON."""
        paths = []
        for number, content in enumerate(contents):
            path = self.folder / f"config{number}"
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            paths.append(path)
        return paths


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def drop_nones(fields: Obj) -> Obj:
    return {key: value for key, value in fields.items() if value is not None}
