import pytest

from kopf_cogs.clients.incluster import (
    find_token_path,
    login_with_service_account,
    read_service_account,
)
from kopf_cogs.structs.credentials import ConnectionInfo, LoginError

ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "token").write_text("tok\n")
    (tmp_path / "ca.crt").write_text("pem")
    (tmp_path / "namespace").write_text("ns\n")
    return tmp_path


def test_in_cluster(folder):
    assert read_service_account(folder, ENVIRON, trust_env=True) == ConnectionInfo(
        server="https://10.0.0.1:6443",
        ca_path=str(folder / "ca.crt"),
        token="tok",
        token_path=str(folder / "token"),
        default_namespace="ns",
        priority=10,
        trust_env=True,
    )


def test_only_the_token_is_required(folder):
    (folder / "ca.crt").unlink()
    (folder / "namespace").unlink()
    assert read_service_account(folder, ENVIRON) == ConnectionInfo(
        server="https://10.0.0.1:6443",
        token="tok",
        token_path=str(folder / "token"),
        priority=10,
    )


def test_out_of_cluster(tmp_path, settings, monkeypatch):
    assert read_service_account(tmp_path, ENVIRON) is None
    monkeypatch.setattr("kopf_cogs.clients.incluster._FOLDER", tmp_path)
    assert login_with_service_account() is None
    assert login_with_service_account(settings=settings, logger=None) is None


def test_settings_are_used(folder, settings, monkeypatch):
    settings.networking.trust_env = True
    monkeypatch.setattr("kopf_cogs.clients.incluster._FOLDER", folder)
    assert login_with_service_account(settings=settings).trust_env


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (ENVIRON, "https://10.0.0.1:6443"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "https://10.0.0.1:443"),
        (ENVIRON | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, "https://[fd00::1]:6443"),
        ({}, "https://kubernetes.default.svc"),
        ({"KUBERNETES_SERVICE_HOST": ""}, "https://kubernetes.default.svc"),
    ],
)
def test_b14_addresses_do_not_depend_on_dns_if_possible(folder, environ, expected):
    assert read_service_account(folder, environ).server == expected


def test_b6_empty_tokens_are_never_used(folder):
    (folder / "token").write_text("")
    with pytest.raises(LoginError, match="empty"):
        read_service_account(folder, ENVIRON)


@pytest.mark.parametrize(("token", "known"), [("tok", True), ("x", False), ("", False)])
def test_tokens_of_pods_are_recognised(folder, monkeypatch, token, known):
    """Other client libraries give the token only; it has to be read again some day."""
    monkeypatch.setattr("kopf_cogs.clients.incluster._FOLDER", folder)
    assert find_token_path(token) == (str(folder / "token") if known else None)


def test_tokens_out_of_clusters_are_not_recognised(tmp_path, monkeypatch):
    monkeypatch.setattr("kopf_cogs.clients.incluster._FOLDER", tmp_path)
    assert find_token_path("tok") is None
