"""Secure connections with all their failures, over real sockets."""

import asyncio
import base64
import contextlib
import datetime
import ipaddress
import json
import logging
import ssl

import pytest
from listeners import stop_listening

from kopf_cogs.aiokits.clocks import FakeClock
from kopf_cogs.clients import errors
from kopf_cogs.clients.kubeconfig import read_kubeconfig
from kopf_cogs.clients.renewals import POLLING, SETTLING, Renewer
from kopf_cogs.clients.session import Client
from kopf_cogs.clients.vault import Vault
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError

x509 = pytest.importorskip("cryptography.x509")  # there are no wheels of it for PyPy
hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Pair:
    """A certificate with its key."""

    def __init__(self, name, issuer=None, *, ip="127.0.0.1", until=NOW + DAY):
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        issuer = issuer or self
        names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address(ip))]
        usage = x509.KeyUsage(True, False, False, False, False, issuer is self, False, False, False)
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer._key.public_key())
        cert = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(issuer.name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 10 * DAY)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=issuer is self, path_length=None), True)
            .add_extension(x509.SubjectAlternativeName(names), False)
            .add_extension(usage, True)
            .add_extension(key_id, False)
            .add_extension(issuer_id, False)
            .sign(issuer._key, hashes.SHA256())
        )
        self.cert = cert.public_bytes(serialization.Encoding.PEM)
        self.key = self.export(serialization.NoEncryption())

    def export(self, encryption):
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )


@pytest.fixture(scope="module")
def ca():
    return Pair("ca")


@pytest.fixture
async def secure(server, tmp_path, ca):
    """Start the same scripted server with TLS; get its URL."""
    started = []

    async def start(pair, *, client_ca=None):
        path = tmp_path / "server.pem"
        path.write_bytes(pair.cert + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=client_ca.cert.decode())
        started.append(await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context))
        return f"https://127.0.0.1:{started[-1].sockets[0].getsockname()[1]}"

    yield start
    for item in started:
        await stop_listening(item)


async def request(settings, **fields):
    async with Client(ConnectionInfo(**fields), settings) as client:
        return await client.get("/path")


@pytest.fixture(autouse=True)
def _quiet():
    # The server complains of broken handshakes, as it should.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("asyncio").setLevel(logging.NOTSET)


async def test_trusted_servers(server, secure, settings, ca):
    server.script(server.reply({"a": 1}))
    url = await secure(Pair("localhost", ca))
    assert await request(settings, server=url, ca_data=ca.cert) == {"a": 1}


@pytest.mark.parametrize("case", ["unknown", "other", "expired", "host"])
async def test_b16_untrusted_servers(server, secure, settings, ca, case):
    pair = {
        "unknown": Pair("localhost", ca),
        "other": Pair("localhost", ca),
        "expired": Pair("localhost", ca, until=NOW - DAY),
        "host": Pair("elsewhere", ca, ip="10.0.0.1"),
    }[case]
    cadata = {"unknown": None, "other": Pair("ca").cert}.get(case, ca.cert)
    url = await secure(pair)
    with pytest.raises(errors.APIConnectionError, match=r"certificate|IP address") as err:
        await request(settings, server=url, ca_data=cadata, token="secret")
    assert "secret" not in str(err.value)
    assert not server.requests  # i.e. there was no fallback to insecure connections


async def test_insecure_servers_if_requested(server, secure, settings):
    server.script(server.reply({"a": 1}))
    url = await secure(Pair("localhost"))
    assert await request(settings, server=url, insecure=True) == {"a": 1}


async def test_b17_other_server_names(server, secure, settings, ca):
    server.script(server.reply({"a": 1}))
    url = await secure(Pair("elsewhere", ca, ip="10.0.0.1"))
    result = await request(settings, server=url, ca_data=ca.cert, tls_server_name="elsewhere")
    assert result == {"a": 1}


async def test_client_certificates(server, secure, settings, ca, tmp_path):
    server.script(server.reply({"a": 1}), server.reply({"b": 2}))
    url = await secure(Pair("localhost", ca), client_ca=ca)
    user = Pair("user", ca)
    assert await request(
        settings, server=url, ca_data=ca.cert, certificate_data=user.cert, private_key_data=user.key
    ) == {"a": 1}
    (tmp_path / "c").write_bytes(user.cert)
    (tmp_path / "k").write_bytes(user.key)
    assert await request(
        settings,
        server=url,
        ca_data=ca.cert,
        certificate_path=str(tmp_path / "c"),
        private_key_path=str(tmp_path / "k"),
    ) == {"b": 2}


@pytest.mark.parametrize("case", ["absent", "other", "expired"])
async def test_b16_refused_client_certificates(server, secure, settings, ca, case):
    url = await secure(Pair("localhost", ca), client_ca=ca)
    fields = {}
    if case != "absent":
        user = Pair("user") if case == "other" else Pair("user", ca, until=NOW - DAY)
        fields = {"certificate_data": user.cert, "private_key_data": user.key}
    with pytest.raises(errors.APIConnectionError):
        await request(settings, server=url, ca_data=ca.cert, **fields)
    assert not server.requests


async def test_b16_encrypted_keys(secure, settings, ca):
    user = Pair("user", ca)
    key = user.export(serialization.BestAvailableEncryption(b"password"))
    with pytest.raises(LoginError, match="encrypted"):
        await request(
            settings,
            server="https://127.0.0.1:1",
            ca_data=ca.cert,
            certificate_data=user.cert,
            private_key_data=key,
        )


async def test_b16_mismatching_keys(secure, settings, ca):
    user, other = Pair("user", ca), Pair("user", ca)
    with pytest.raises(LoginError, match="TLS certificates or keys cannot be used"):
        await request(
            settings,
            server="https://127.0.0.1:1",
            certificate_data=user.cert,
            private_key_data=other.key,
        )


async def renew(renewer, clock):
    clock.advance(POLLING)
    await renewer.check()


async def test_b16_rotated_authorities_are_trusted_without_restarts(
    server, secure, settings, tmp_path, caplog
):
    old, new = Pair("old-ca"), Pair("new-ca")
    path = tmp_path / "ca.crt"
    path.write_bytes(old.cert)
    url = await secure(Pair("localhost", new))
    clock = FakeClock()
    vault = Vault({"x": ConnectionInfo(server=url, ca_path=path)}, clock=clock)
    renewer = Renewer(vault, clock=clock)
    await renewer.check()
    async with Client(vault, settings, clock=clock) as client:
        with pytest.raises(errors.APIConnectionError, match="certificate"):
            await client.get("/path")
        await vault.wait_for_emptiness()  # the login handlers are asked for something better
        path.write_bytes(new.cert)
        clock.advance(SETTLING)
        await renewer.check()  # once is enough: it cannot be worse
        server.script(server.reply({"a": 1}))
        assert await client.get("/path") == {"a": 1}
    assert "There is no trust between the server and 'x'" in caplog.text


async def test_b16_rotated_client_certificates_are_used_by_new_connections(
    server, secure, settings, ca, tmp_path
):
    old, new = Pair("old-user", ca), Pair("new-user", ca)
    path = tmp_path / "user.pem"
    path.write_bytes(old.cert + old.key)
    url = await secure(Pair("localhost", ca), client_ca=ca)
    clock = FakeClock()
    info = ConnectionInfo(server=url, ca_data=ca.cert, certificate_path=path)
    vault = Vault({"x": info}, clock=clock)
    renewer = Renewer(vault, clock=clock)
    gate = asyncio.Event()
    server.script(server.stream(b"1\n", gate, b"2\n"), path="/stream")
    server.script(server.reply({}), server.reply({}))
    async with Client(vault, settings, clock=clock) as client, client.stream("/stream") as response:
        assert await response.content.readany() == b"1\n"
        await renewer.check()
        path.write_bytes(new.cert)  # the key comes a moment later, as it does
        await renew(renewer, clock)
        await renew(renewer, clock)
        await client.get("/path")
        path.write_bytes(new.cert + new.key)
        await renew(renewer, clock)
        await renew(renewer, clock)
        await client.get("/path")
        gate.set()
        assert await response.content.read() == b"2\n"
    names = [dict(field[0] for field in cert["subject"]) for cert in server.certificates]
    assert [name["commonName"] for name in names] == ["old-user", "old-user", "new-user"]


async def test_connections_of_streams_end_though_the_server_is_not_heard(
    server, secure, settings, ca
):
    """A polite end of TLS waits for the server; event loops are often closed before that."""
    port = int((await secure(Pair("localhost", ca))).rpartition(":")[2])
    is_frozen, ended, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()
    server.script(server.stream(b"1\n", gate))

    async def serve(reader, writer):
        there = await asyncio.open_connection("127.0.0.1", port)
        replies = asyncio.create_task(forward(there[0], writer))
        await forward(reader, there[1])
        ended.set()
        gate.set()
        there[1].close()
        writer.close()
        await replies

    async def forward(reader, writer):
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                if not is_frozen.is_set():
                    writer.write(chunk)

    forwarder = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{forwarder.sockets[0].getsockname()[1]}"
    async with Client(ConnectionInfo(server=url, ca_data=ca.cert), settings) as client:
        async with client.stream("/stream") as response:
            assert await response.content.readany() == b"1\n"
            is_frozen.set()
        async with asyncio.timeout(60):
            await ended.wait()
    await stop_listening(forwarder)


# --- Behind a proxy: it only sees where to connect to, all the rest goes through it encrypted. ---


class Tunnels:
    """An HTTP proxy that does nothing but ``CONNECT``."""

    def __init__(self):
        self.heads = []
        self.seen = bytearray()
        self.refusal = None
        self._tasks = set()

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self.refusal is not None:
                writer.write(self.refusal)
                return
            host, _, port = head.split(" ")[1].rpartition(":")
            there = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(self._pump(reader, there[1]), self._pump(there[0], writer))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pump(self, reader, writer):
        try:
            while chunk := await reader.read(65536):
                self.seen += chunk
                writer.write(chunk)
                await writer.drain()
        finally:
            writer.close()

    async def close(self):
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


@pytest.fixture
async def tunnels():
    tunnels = Tunnels()
    server = await asyncio.start_server(tunnels.serve, "127.0.0.1", 0)
    tunnels.url = f"http://usr:pwd@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield tunnels
    await stop_listening(server)
    await tunnels.close()


@pytest.fixture
def login(tmp_path, tunnels, ca):
    """Log in with a kubeconfig of a server behind the proxy."""

    def login(server, **cluster):
        data = base64.b64encode(ca.cert).decode()
        fields = {"server": server, "proxy-url": tunnels.url, "certificate-authority-data": data}
        config = {
            "clusters": [{"name": "c", "cluster": fields | cluster}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "current-context": "x",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        return read_kubeconfig([path])

    return login


async def test_b15_secure_servers_behind_proxies(server, secure, settings, ca, tunnels, login):
    url = await secure(Pair("localhost", ca))
    server.script(server.reply({"a": 1}), server.stream({"b": 2}, server.HANG))
    async with Client(login(url), settings) as client:
        assert await client.get("/path") == {"a": 1}
        async with client.stream("/watched") as response:
            assert await response.content.readline() == b'{"b": 2}\n'
    assert [request.path for request in server.requests] == ["/path", "/watched"]
    assert server.requests[0].headers["Authorization"] == "Bearer secret"
    assert "Proxy-Authorization" not in server.requests[0].headers
    assert tunnels.heads[0].startswith(f"CONNECT {url.removeprefix('https://')} HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic dXNyOnB3ZA==" in tunnels.heads[0]
    assert "secret" not in "".join(tunnels.heads)
    assert tunnels.seen
    assert b"secret" not in tunnels.seen


async def test_b17_other_server_names_behind_proxies(server, secure, settings, ca, login):
    server.script(server.reply({"a": 1}))
    url = await secure(Pair("elsewhere", ca, ip="10.0.0.1"))
    async with Client(login(url, **{"tls-server-name": "elsewhere"}), settings) as client:
        assert await client.get("/path") == {"a": 1}


async def test_b16_untrusted_servers_behind_proxies(server, secure, settings, tunnels, login):
    url = await secure(Pair("localhost", Pair("other")))
    async with Client(login(url), settings) as client:
        with pytest.raises(errors.APIConnectionError, match="certificate") as err:
            await client.get("/path")
    assert "pwd" not in str(err.value)
    assert not server.requests


async def test_b15_refusals_of_proxies_are_errors_of_connections(settings, tunnels, login):
    tunnels.refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    async with Client(login("https://example.invalid:6443"), settings) as client:
        with pytest.raises(errors.APIConnectionError, match="407") as err:
            await client.get("/path")
    assert "pwd" not in str(err.value)
    assert "secret" not in str(err.value)
    assert tunnels.heads[0].startswith("CONNECT example.invalid:6443 ")


async def test_b15_secure_proxies(server, secure, settings, ca, tunnels, login, tmp_path):
    """Tunnels in tunnels: a proxy is trusted by the same authorities as the server."""
    proxy, path = Pair("proxy", ca), tmp_path / "proxy.pem"
    path.write_bytes(proxy.cert + proxy.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    outer = await asyncio.start_server(tunnels.serve, "127.0.0.1", 0, ssl=context)
    server.script(server.reply({"a": 1}))
    url = f"https://127.0.0.1:{outer.sockets[0].getsockname()[1]}"
    info = login(await secure(Pair("localhost", ca)), **{"proxy-url": url})
    async with Client(info, settings) as client:
        assert await client.get("/path") == {"a": 1}
    await stop_listening(outer)
    assert b"secret" not in tunnels.seen
