"""The links of terms to the documentation of Kubernetes."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[2] / "docs" / "_extensions" / "kubernetes_terms.py"


@pytest.fixture(scope="module")
def terms() -> Any:
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location("kubernetes_terms", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def link(terms: Any, text: str, linked: set[str]) -> list[str]:
    parts = terms.link(text, linked)
    return [part.get("refuri", "") for part in parts if part.astext() and hasattr(part, "get")]


def test_the_first_terms_are_linked(terms: Any) -> None:
    text = "Kopf adds a finalizer to pods. The finalizer of a pod goes last."
    assert link(terms, text, set()) == [
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/",
        "https://kubernetes.io/docs/concepts/workloads/pods/",
    ]
    assert "".join(part.astext() for part in terms.link(text, set())) == text


def test_terms_are_linked_once_a_page(terms: Any) -> None:
    linked: set[str] = set()
    assert len(link(terms, "A pod.", linked)) == 1
    assert link(terms, "Two pods.", linked) == []


@pytest.mark.parametrize("text", ["A podcast.", "pod-like", "x.pod"])
def test_other_words_are_not_linked(terms: Any, text: str) -> None:
    assert link(terms, text, set()) == []
