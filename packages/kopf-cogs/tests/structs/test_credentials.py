import datetime
import ssl

import pytest

from kopf_cogs.structs.credentials import AiohttpSession, ConnectionInfo, KubeContext, LoginError

SERVER = "https://localhost:6443"
UTC = datetime.UTC


@pytest.mark.parametrize(
    ("kwargs", "headers"),
    [
        ({}, {}),
        ({"token": "T"}, {"Authorization": "Bearer T"}),
        ({"token": "T", "scheme": "Digest"}, {"Authorization": "Digest T"}),
        ({"scheme": "Anonymous"}, {"Authorization": "Anonymous"}),
        ({"token": ""}, {}),
        ({"username": "u", "password": "p"}, {"Authorization": "Basic dTpw"}),
        ({"username": "u", "password": "p", "token": "T"}, {"Authorization": "Basic dTpw"}),
        ({"username": "u"}, {}),
    ],
)
def test_http_headers(kwargs, headers):
    info = ConnectionInfo(server=SERVER, **kwargs)
    assert info.as_http_headers() == headers
    assert info.as_aiohttp_basic_auth() is None


def test_request_arguments():
    info = ConnectionInfo(server=SERVER, proxy_url="http://u:p@h:1", tls_server_name="name")
    assert info.as_aiohttp_kwargs() == {"proxy": "http://u:p@h:1", "server_hostname": "name"}
    assert ConnectionInfo(server=SERVER).as_aiohttp_kwargs() == {}


def test_e5_secrets_are_not_shown():
    secrets = dict.fromkeys(["password", "token", "private_key_data", "certificate_data"], "SECRET")
    info = ConnectionInfo(
        server=SERVER, username="me", ca_data=b"SECRET", proxy_url="http://u:SECRET@h", **secrets
    )
    for text in [repr(info), str(info), f"{info}", repr([info])]:
        assert "SECRET" not in text
        assert "token=***" in text
        assert "username='me'" in text
        assert SERVER in text


def test_e5_sessions_are_not_shown_with_their_headers():
    session = AiohttpSession(server=SERVER, aiohttp_session=None)
    assert repr(session) == f"AiohttpSession(server={SERVER!r}, priority=0)"


def test_credentials_are_immutable_values():
    info1 = ConnectionInfo(server=SERVER, token="T")
    info2 = ConnectionInfo(server=SERVER, token="T")
    assert info1 == info2
    assert hash(info1) == hash(info2)
    assert info1 != ConnectionInfo(server=SERVER, token="X")
    with pytest.raises(AttributeError):
        info1.token = "X"
    with pytest.raises(TypeError):
        ConnectionInfo(SERVER)


@pytest.mark.parametrize(
    ("expiration", "expired"),
    [
        (None, False),
        (datetime.datetime(2020, 1, 1, 12, 0, 1), False),
        (datetime.datetime(2020, 1, 1, 12, 0, 0), True),
        (datetime.datetime(2020, 1, 1, 11, 59, 59), True),
        (datetime.datetime(2020, 1, 1, 12, 0, 1, tzinfo=UTC), False),
        (datetime.datetime.fromisoformat("2020-01-01T13:00:01+01:00"), False),
        (datetime.datetime.fromisoformat("2020-01-01T12:59:59+01:00"), True),
    ],
)
def test_naive_expiration_is_in_utc(expiration, expired):
    now = datetime.datetime(2020, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert KubeContext(server=SERVER, expiration=expiration).is_expired(now) is expired


def test_ssl_by_default_is_verified_with_system_certificates():
    context = ConnectionInfo(server=SERVER).as_ssl_context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


def test_ssl_insecure_is_not_verified():
    context = ConnectionInfo(server=SERVER, insecure=True).as_ssl_context()
    assert context.verify_mode == ssl.CERT_NONE
    assert not context.check_hostname


def test_login_errors_are_exceptions():
    assert str(LoginError("no credentials")) == "no credentials"
