"""Webhook servers over real TLS: addresses, certificates, clients, files that change."""

import asyncio
import base64
import datetime
import json
import logging
import os
import pathlib
import shutil
import socket
import ssl
import stat
import sys
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kopf_cogs.aiokits import listeners
from kopf_kits.certificates import Authority, CertificateError
from kopf_kits.webhooks import (
    WebhookDockerDesktopServer,
    WebhookK3dServer,
    WebhookMinikubeServer,
    WebhookServer,
    WebhookServerError,
)

from .conftest import REVIEW, Serve, Served, make_client_context, write_pair

Session = aiohttp.ClientSession
HOSTS = ["localhost", "127.0.0.1"]


def get_bundle(served: Served) -> bytes:
    return base64.b64decode(served.configs[-1]["caBundle"] or "")


async def ask(session: Session, served: Served, tls: ssl.SSLContext) -> dict[str, Any]:
    """Ask as the API server does: it trusts only what it is told to."""
    async with session.post(served.url, json=REVIEW, ssl=tls) as response:
        assert response.status == 200
        return dict(await response.json())


@pytest.mark.parametrize(
    ("addr", "host", "url"),
    [
        (None, None, "https://localhost:{port}"),
        ("127.0.0.1", None, "https://127.0.0.1:{port}"),
        ("0.0.0.0", None, "https://127.0.0.1:{port}"),
        ("localhost", None, "https://localhost:{port}"),
        ("127.0.0.1", "example.dev", "https://example.dev:{port}"),
        ("127.0.0.1", "::1", "https://[::1]:{port}"),
    ],
)
@pytest.mark.usefixtures("cryptography")
async def test_urls(
    serve: Serve, unused_port: int, addr: str | None, host: str | None, url: str
) -> None:
    async with serve(WebhookServer(addr=addr, host=host, port=unused_port)) as served:
        assert served.url == url.format(port=unused_port)


@pytest.mark.parametrize(
    ("cls", "host"),
    [
        (WebhookK3dServer, "host.k3d.internal"),
        (WebhookMinikubeServer, "host.minikube.internal"),
        (WebhookDockerDesktopServer, "host.docker.internal"),
    ],
)
@pytest.mark.usefixtures("cryptography")
async def test_magic_hostnames(
    serve: Serve, session: Session, cls: type[WebhookServer], host: str
) -> None:
    async with serve(cls(path="/hooks")) as served:
        assert served.url.startswith(f"https://{host}:")
        port = int(served.url.removesuffix("/hooks").rpartition(":")[2])
        tls = make_client_context(get_bundle(served))
        url = f"https://127.0.0.1:{port}/hooks"
        async with session.post(url, json=REVIEW, ssl=tls, server_hostname=host) as response:
            assert response.status == 200


@pytest.mark.usefixtures("cryptography")
async def test_generated_certificates_are_trusted_strictly(serve: Serve, session: Session) -> None:
    async with serve(WebhookServer(addr="127.0.0.1", extra_sans=["other.example"])) as served:
        tls = make_client_context(get_bundle(served))
        answer = await ask(session, served, tls)
        assert answer["response"]["allowed"] is True
        async with session.post(
            served.url, json=REVIEW, ssl=tls, server_hostname="other.example"
        ) as response:
            assert response.status == 200


async def test_provided_certificate(
    serve: Serve, session: Session, authority: Authority, tmp_path: pathlib.Path
) -> None:
    certfile, pkeyfile = write_pair(tmp_path, authority.issue("x", hostnames=HOSTS))
    ca = authority.pair.certificate
    server = WebhookServer(addr="127.0.0.1", certfile=certfile, pkeyfile=pkeyfile, cadata=ca)
    async with serve(server) as served:
        assert get_bundle(served) == ca
        await ask(session, served, make_client_context(ca))


async def test_bundle_has_no_keys(
    serve: Serve, authority: Authority, tmp_path: pathlib.Path
) -> None:
    pair = authority.issue("x", hostnames=HOSTS)
    path = tmp_path / "both.pem"
    path.write_bytes(pair.key + pair.certificate)
    async with serve(WebhookServer(addr="127.0.0.1", certfile=path)) as served:
        assert get_bundle(served) == pair.certificate


@pytest.mark.parametrize("has_files", [False, True])
async def test_own_context(
    serve: Serve, session: Session, authority: Authority, tmp_path: pathlib.Path, has_files: bool
) -> None:
    files = write_pair(tmp_path, authority.issue("x", hostnames=HOSTS))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    ca = authority.pair.certificate
    server = WebhookServer(addr="127.0.0.1", context=context, cadata=ca)
    if has_files:
        server.certfile, server.pkeyfile = files
    else:
        context.load_cert_chain(*files)
    async with serve(server) as served:
        tls = make_client_context(get_bundle(served))
        await ask(session, served, tls)
        tls.maximum_version = ssl.TLSVersion.TLSv1_2
        async with aiohttp.ClientSession() as another:
            with pytest.raises(aiohttp.ClientError):
                await ask(another, served, tls)


async def test_insecure_server_has_nothing_to_trust(insecure: Served, session: Session) -> None:
    assert insecure.url.startswith("http://127.0.0.1:")
    assert set(insecure.configs[0]) == {"url"}


@pytest.mark.parametrize("password", [None, "wrong"])
@pytest.mark.usefixtures("cryptography")
async def test_wrong_password(serve: Serve, tmp_path: pathlib.Path, password: str | None) -> None:
    cert, key = WebhookServer.build_certificate(["x"], "right")
    (tmp_path / "both.pem").write_bytes(cert + key)
    server = WebhookServer(addr="127.0.0.1", certfile=tmp_path / "both.pem", password=password)
    with pytest.raises(CertificateError, match=r"^The certificate of .* cannot be used: .+$") as e:
        async with serve(server):
            pass
    assert "wrong" not in str(e.value)
    assert ("there is no password" in str(e.value)) is (password is None)


@pytest.mark.usefixtures("cryptography")
async def test_right_password(serve: Serve, session: Session, tmp_path: pathlib.Path) -> None:
    cert, key = WebhookServer.build_certificate(["127.0.0.1"], "right")
    (tmp_path / "both.pem").write_bytes(cert + key)
    server = WebhookServer(addr="127.0.0.1", certfile=tmp_path / "both.pem", password="right")
    async with serve(server) as served:
        await ask(session, served, make_client_context(get_bundle(served)))


async def test_absent_files(serve: Serve, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "absent.pem"
    with pytest.raises(CertificateError, match=r"absent\.pem: no such file or directory$"):
        async with serve(WebhookServer(certfile=path)):
            pass


async def test_absent_library(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    with pytest.raises(
        CertificateError, match=r"^A self-signed .* `pip install 'kopf\[webhooks\]'`, or"
    ):
        async with serve(WebhookServer(addr="127.0.0.1")):
            pass


async def test_busy_port(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        message = f"^Cannot serve the webhooks at 127.0.0.1:{port}: address already in use$"
        with pytest.raises(WebhookServerError, match=message):
            async with serve(WebhookServer(addr="127.0.0.1", port=port)):
                pass


def test_parameters_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="needs its certificate"):
        WebhookServer(pkeyfile="key.pem")
    with pytest.raises(ValueError, match="must be positive"):
        WebhookServer(file_check_interval=0)


@pytest.mark.usefixtures("cryptography")
async def test_port_is_free_afterwards(serve: Serve) -> None:
    async with serve(WebhookServer(addr="127.0.0.1")) as served:
        port = int(served.url.rpartition(":")[2])
    socket.create_server(("127.0.0.1", port)).close()


@pytest.mark.usefixtures("cryptography")
async def test_context_manager_closes_abandoned_generators(handlers: Any) -> None:
    async with WebhookServer(addr="127.0.0.1") as server:
        config = await anext(server(handlers))
        port = int(str(config["url"]).rpartition(":")[2])
    socket.create_server(("127.0.0.1", port)).close()


async def test_inheritance_as_documented(serve: Serve, session: Session) -> None:
    class MyTunnel(WebhookServer):
        async def __call__(self, fn: Any) -> Any:  # type: ignore[override]
            async for config in super().__call__(fn):
                yield {**config, "url": f"{config['url']}/extra"}

    tunnel = MyTunnel(addr="127.0.0.1", insecure=True)
    async with serve(tunnel) as served, session.post(served.url, json=REVIEW) as response:
        assert response.status == 200
    assert served.handlers.calls[0]["webhook"] == "extra"


# The clients and their certificates.


def make_verifying(authority: Authority, **kwargs: Any) -> WebhookServer:
    return WebhookServer(
        addr="127.0.0.1", verify_cadata=authority.pair.certificate.decode(), **kwargs
    )


async def test_g5_accepted_client(
    serve: Serve, session: Session, authority: Authority, tmp_path: pathlib.Path
) -> None:
    files = write_pair(tmp_path, authority.issue("Some Client", organization="Some Org"))
    async with serve(make_verifying(authority, verify_mode=ssl.CERT_REQUIRED)) as served:
        await ask(session, served, make_client_context(get_bundle(served), *files))
    [call] = served.handlers.calls
    assert call["sslpeer"]["subject"] == (
        (("commonName", "Some Client"),),
        (("organizationName", "Some Org"),),
    )
    assert call["sslpeer"]["issuer"] == ((("commonName", "Some CA"),),)


@pytest.mark.parametrize("kind", ["none", "alien", "expired", "itself"])
async def test_g5_refused_clients(
    serve: Serve,
    session: Session,
    authority: Authority,
    alien: Authority,
    tmp_path: pathlib.Path,
    kind: str,
) -> None:
    expired = datetime.timedelta(hours=-1)
    pairs = {
        "alien": alien.issue("Some Client"),
        "expired": authority.issue("Some Client", validity=expired),
        "itself": alien.pair,
    }
    files = write_pair(tmp_path, pairs[kind]) if kind in pairs else ()
    async with serve(make_verifying(authority, verify_mode=ssl.CERT_REQUIRED)) as served:
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await ask(session, served, make_client_context(get_bundle(served), *files))
    assert served.handlers.calls == []


async def test_g5_optional_clients(
    serve: Serve, session: Session, authority: Authority, alien: Authority, tmp_path: pathlib.Path
) -> None:
    """They can have none; but if they have one, it must be verified."""
    files = write_pair(tmp_path, alien.issue("Some Client"))
    async with serve(make_verifying(authority)) as served:
        await ask(session, served, make_client_context(get_bundle(served)))
        async with aiohttp.ClientSession() as another:
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await ask(another, served, make_client_context(get_bundle(served), *files))
    assert [call["sslpeer"] for call in served.handlers.calls] == [None]


@pytest.mark.parametrize("form", ["cafile", "pem", "capath"])
async def test_forms_of_clients_authorities(
    serve: Serve, session: Session, authority: Authority, tmp_path: pathlib.Path, form: str
) -> None:
    files = write_pair(tmp_path, authority.issue("Some Client"), "client")
    path = tmp_path / "ca.pem"
    path.write_bytes(authority.pair.certificate)
    options: dict[str, Any] = {
        "cafile": {"verify_cafile": path},
        "pem": {"verify_cadata": authority.pair.certificate},
        "capath": {"verify_capath": tmp_path},
    }[form]
    if form == "capath":
        openssl = shutil.which("openssl")
        if openssl is None:
            pytest.skip("openssl is not installed")
        process = await asyncio.create_subprocess_exec(openssl, "rehash", str(tmp_path))
        assert await process.wait() == 0
    async with serve(WebhookServer(addr="127.0.0.1", **options)) as served:
        await ask(session, served, make_client_context(get_bundle(served), *files))
    assert served.handlers.calls[0]["sslpeer"]["subject"] == ((("commonName", "Some Client"),),)


# The files that change.

INTERVAL = 0.01  # how often the files are looked at


class Client:
    """Connects anew all the time, and trusts what it has been told to trust by then."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.count = 0
        self._served = served
        self._turned = asyncio.Condition()

    async def run(self) -> None:
        while True:
            connector = aiohttp.TCPConnector(force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                tls = make_client_context(get_bundle(self._served))
                await ask(session, self._served, tls)
            async with self._turned:
                self.count += 1
                self._turned.notify_all()

    async def turn(self) -> None:
        """Wait until whatever is told by now is in use."""
        goal = self.count + 2
        async with self._turned:
            await self._turned.wait_for(lambda: self.count >= goal)


async def test_g4_swap_under_load(
    serve: Serve, authority: Authority, alien: Authority, tmp_path: pathlib.Path
) -> None:
    cafile, certfile, pkeyfile = (tmp_path / name for name in ["ca.pem", "tls.crt", "tls.key"])
    cafile.write_bytes(authority.pair.certificate)
    write_pair(tmp_path, authority.issue("x", hostnames=HOSTS))
    files: Any = {"certfile": certfile, "pkeyfile": pkeyfile, "cafile": cafile}
    server = WebhookServer(addr="127.0.0.1", **files, file_check_interval=INTERVAL)
    async with serve(server) as served, asyncio.TaskGroup() as group:
        clients = [Client(served) for _ in range(3)]
        tasks = [group.create_task(client.run()) for client in clients]

        async def turn() -> None:
            await asyncio.gather(*(client.turn() for client in clients))

        served.applied = turn
        for number, owner in enumerate([alien, authority, alien]):
            # They are not replaced at once, and neither in the right order.
            pair = owner.issue("x", hostnames=HOSTS)
            for path, data in [(certfile, pair.certificate), (pkeyfile, pair.key)]:
                path.write_bytes(data)
                await turn()
            cafile.write_bytes(owner.pair.certificate)
            await served.wait(3 + number * 2)
            assert get_bundle(served) == owner.pair.certificate
        await turn()
        for task in tasks:
            task.cancel()
    both = base64.b64decode(served.configs[1]["caBundle"] or "")
    assert both == alien.pair.certificate + authority.pair.certificate


@pytest.mark.usefixtures("cryptography")
async def test_g4_generated_ones_are_renewed(
    serve: Serve, session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    class Impatient(WebhookServer):
        count = 0

        def _make_pair(self, *args: Any) -> Any:
            self.count += 1
            return super()._make_pair(*args)

    monkeypatch.setattr(
        "kopf_kits.webhooks.identities.get_renewal_time",
        lambda _: datetime.datetime(2000 if server.count < 2 else 9000, 1, 1, tzinfo=datetime.UTC),
    )
    dump = tmp_path / "ca.pem"
    server = Impatient(addr="127.0.0.1", file_check_interval=INTERVAL, cadump=dump)
    async with serve(server) as served:
        await served.wait(3)
        first, both, second = (
            base64.b64decode(config["caBundle"] or "") for config in served.configs
        )
        assert both == second + first
        assert first != second
        assert dump.read_bytes() == second
        await ask(session, served, make_client_context(second))


# Saving the certificates.


@pytest.mark.parametrize("kind", ["absent", "file", "symlink", "dangling"])
@pytest.mark.usefixtures("cryptography")
async def test_g8_cadump_replaces_symlinks(serve: Serve, tmp_path: pathlib.Path, kind: str) -> None:
    path, victim = tmp_path / "ca.pem", tmp_path / "victim"
    victim.write_text("precious")
    if kind == "file":
        path.write_text("old")
    elif kind != "absent":
        path.symlink_to(victim if kind == "symlink" else tmp_path / "nowhere")
    async with serve(WebhookServer(addr="127.0.0.1", cadump=path)) as served:
        assert path.read_bytes() == get_bundle(served)
    assert victim.read_text() == "precious"
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert sorted(os.listdir(tmp_path)) == ["ca.pem", "victim"]


@pytest.mark.parametrize("name", ["absent/ca.pem", "folder"])
@pytest.mark.usefixtures("cryptography")
async def test_g8_cadump_to_wrong_places(serve: Serve, tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(WebhookServerError, match=r"^Cannot save the certificates"):
        async with serve(WebhookServer(addr="127.0.0.1", cadump=tmp_path / name)):
            pass


# As it is documented.


async def run_curl(*args: str) -> tuple[str, str]:
    """Returns the body of the response, and the HTTP status."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    process = await asyncio.create_subprocess_exec(
        *[curl, "-sS", "-w", "\n%{http_code}", *args],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors
    body, _, status = output.decode().rpartition("\n")
    return body, status


@pytest.fixture
def review_file(tmp_path: pathlib.Path) -> str:
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "1ca13837-ad60-4c9e-abb8-86f29d6c0e84",
            "kind": {"group": "kopf.dev", "version": "v1", "kind": "KopfExample"},
            "resource": {"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"},
        },
        "operation": "CREATE",
        "object": {"metadata": {"name": "kopf-example-1", "namespace": "default"}},
        "dryRun": True,
    }
    path = tmp_path / "review.json"
    path.write_text(json.dumps(review, indent=2))
    return f"@{path}"


ANSWER = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {"uid": "1ca13837-ad60-4c9e-abb8-86f29d6c0e84", "allowed": True},
}


@pytest.mark.usefixtures("cryptography")
async def test_curl_insecure(serve: Serve, review_file: str) -> None:
    async with serve(WebhookServer()) as served:
        body, status = await run_curl("--insecure", served.url, "-d", review_file)
    assert (json.loads(body), status) == (ANSWER, "200")


async def test_curl_without_tls(serve: Serve, review_file: str) -> None:
    async with serve(WebhookServer(insecure=True)) as served:
        body, status = await run_curl(served.url, "-d", review_file)
    assert (json.loads(body), status) == (ANSWER, "200")


@pytest.mark.usefixtures("cryptography")
async def test_curl_with_the_dumped_certificate(
    serve: Serve, review_file: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "selfsigned.pem"
    async with serve(WebhookServer(cadump=path)) as served:
        assert served.url.startswith("https://localhost:")
        body, status = await run_curl("--cacert", str(path), served.url, "-d", review_file)
    assert (json.loads(body), status) == (ANSWER, "200")


async def test_curl_with_a_client_certificate(
    serve: Serve, review_file: str, authority: Authority, tmp_path: pathlib.Path
) -> None:
    """The client's certificate is its own authority, as in the documentation."""
    cert, key = write_pair(tmp_path, authority.pair, "client")
    async with serve(WebhookServer(verify_cafile=cert)) as served:
        url = served.url.replace("https://", "https://ussser:passsw@")
        args = ("--insecure", "--cert", cert, "--key", key)
        body, status = await run_curl(*args, url, "-d", review_file)
    assert (json.loads(body), status) == (ANSWER, "200")
    [call] = served.handlers.calls
    assert call["sslpeer"]["subject"] == ((("commonName", "Some CA"),),)
    assert call["headers"]["Authorization"] == "Basic dXNzc2VyOnBhc3Nzdw=="
    assert call["headers"]["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.usefixtures("cryptography")
async def test_curl_with_a_large_body(serve: Serve, tmp_path: pathlib.Path) -> None:
    """For these, it asks first whether they are expected."""
    path = tmp_path / "large.json"
    path.write_text(json.dumps({**REVIEW, "object": "x" * 6 * 1024 * 1024}))
    async with serve(WebhookServer(addr="127.0.0.1")) as served:
        _, status = await run_curl(
            *["--insecure", "-H", "Expect: 100-continue", "--data-binary", f"@{path}", served.url]
        )
    assert status == "200"


async def test_k23_peers_that_do_not_hang_up_keep_no_connection_of_a_closed_server(
    authority: Authority, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop can end right after that. Then, nobody else would close the connection."""
    monkeypatch.setattr(listeners, "DRAINING_TIMEOUT", 0.01)

    async def handle(_: web.BaseRequest) -> web.Response:
        return web.Response(text="served")

    def ask(port: int) -> ssl.SSLSocket:
        tls = make_client_context(authority.pair.certificate)
        sock = socket.create_connection(("127.0.0.1", port))
        peer = tls.wrap_socket(sock, server_hostname=HOSTS[0])
        peer.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert peer.recv(8) == b"HTTP/1.1"
        return peer

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*write_pair(tmp_path, authority.issue("x", hostnames=HOSTS)))
    sock = socket.create_server(("127.0.0.1", 0))
    listener = listeners.Listener(handle, sock, logging.getLogger("kopf.test"))
    await listener.swap(context)
    peer = await asyncio.to_thread(ask, listener.port)
    await listener.close()
    with peer:
        assert await asyncio.to_thread(has_ended, peer)


def has_ended(peer: ssl.SSLSocket) -> bool:
    """Whether the server has closed the connection itself, not only said farewell in TLS."""
    with socket.socket(fileno=peer.detach()) as raw:
        raw.settimeout(10)
        try:
            while raw.recv(1000):
                pass
        except TimeoutError:
            return False
        except ConnectionResetError:
            pass
        return True
