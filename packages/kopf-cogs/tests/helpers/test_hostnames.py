import getpass
import os
import socket

import pytest

from kopf_cogs.helpers import hostnames


def fail(exc):
    def fn():
        raise exc

    return fn


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("host", "host"),
        ("host.domain.com", "host"),
        ("", "localhost"),
    ],
)
def test_hostnames(monkeypatch, name, expected):
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    assert hostnames.get_hostname() == expected


def test_no_hostname(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", fail(OSError()))
    assert hostnames.get_hostname() == "localhost"


def test_usernames(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "me")
    assert hostnames.get_username() == "me"


@pytest.mark.parametrize("exc", [KeyError(), OSError(), ImportError()])
def test_f6_users_with_no_names(monkeypatch, exc):
    monkeypatch.setattr(getpass, "getuser", fail(exc))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert hostnames.get_username() == "12345"


def test_no_users_at_all(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", fail(OSError()))
    monkeypatch.delattr(os, "getuid")
    assert hostnames.get_username() == "unknown"
