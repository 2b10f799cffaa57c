"""Links of the documentation, offline: Sphinx checks those between the pages; here are others."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("packages/*/*.md")]
    if "_build" not in path.parts
)
OWN = re.compile(r"https://github\.com/nolar/kopf/(?:blob|tree|raw)/main/([^#\s]+)")
HOSTED = re.compile(r"https://nolar\.github\.io/kopf/(?:([\w/-]+)\.html)?")
EXTERNAL = {
    "https://github.com/MagicStack/uvloop",
    "https://github.com/timebertt/kubernetes-controller-sharding",
    "https://kmock.readthedocs.io/",
    "https://kubernetes.io/docs/concepts/architecture/controller/",
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/",
    "https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/",
    "https://kubernetes.io/docs/concepts/extend-kubernetes/operator/",
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/",
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/",
    "https://kubernetes.io/docs/concepts/architecture/garbage-collection/",
    "https://kubernetes.io/docs/concepts/architecture/leases/",
    "https://kubernetes.io/docs/reference/access-authn-authz/rbac/",
    "https://kubernetes.io/docs/reference/using-api/api-concepts/",
    "https://kubernetes.io/docs/reference/using-api/server-side-apply/",
    "https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/",
    "https://kubernetes.io/docs/tasks/tools/",
    "https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/"
    "custom-resource-definition-versioning/",
}
"""All the pages of others that we refer to. When adding one, look at it with your own eyes."""


def get_links(path: Path) -> list[str]:
    """The links for people to follow, not the addresses in code and in tables of options."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2$", "", path.read_text("utf-8"), flags=re.M | re.S)
    return re.findall(r"(?<!`)(?:\]\(|<)(https?://[^)>\s]+)", text)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    links = get_links(path)
    own = [match[1] for link in links if (match := OWN.match(link))]
    own += [f"docs/{match[1] or 'index'}.md" for link in links if (match := HOSTED.match(link))]
    assert [name for name in own if not (ROOT / name).exists()] == []
    others = {link.partition("#")[0] for link in links if not re.match(r"\S+nolar\S+kopf", link)}
    assert others <= EXTERNAL


def test_messages_name_pages_that_exist() -> None:
    sources = [path.read_text("utf-8") for path in ROOT.glob("packages/*/src/**/*.py")]
    pages = {match[1] for source in sources for match in HOSTED.finditer(source)}
    assert pages
    assert [name for name in pages if not (ROOT / "docs" / f"{name}.md").exists()] == []


def test_all_known_links_are_used() -> None:
    used = {link.partition("#")[0] for path in PAGES for link in get_links(path)}
    assert used >= EXTERNAL
