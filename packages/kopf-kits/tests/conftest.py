"""What the tests of several tools share."""

import pathlib
import sys
from collections.abc import Iterator

import pytest

from kopf_kits.logs import preserved_logging

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def _logging_preserved() -> Iterator[None]:
    """The logs that a test configures are not configured in the tests after it."""
    with preserved_logging():
        yield


@pytest.fixture(scope="session")
def cryptography() -> None:
    """For the tests that make certificates. On CPython, the library must be there."""
    if sys.implementation.name != "cpython":
        pytest.importorskip("cryptography", reason="cryptography has no wheels for PyPy")


@pytest.fixture(scope="session")
def crd_path() -> pathlib.Path:
    """The definition of the custom resource of the examples."""
    return EXAMPLES / "crd.yaml"


@pytest.fixture(scope="session")
def obj_path() -> pathlib.Path:
    """An object of that custom resource."""
    return EXAMPLES / "obj.yaml"
