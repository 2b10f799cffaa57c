import importlib.metadata

import pytest

from kopf_cogs.helpers import versions


@pytest.fixture(autouse=True)
def _fresh():
    versions.get_version.cache_clear()
    yield
    versions.get_version.cache_clear()


def test_installed_version():
    assert versions.get_version() == importlib.metadata.version("kopf-cogs")
    assert versions.get_user_agent() == f"kopf/{versions.get_version()}"


def test_no_version(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert versions.get_version() == "0"
