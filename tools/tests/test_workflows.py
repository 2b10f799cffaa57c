"""What the workflows of GitHub promise: what they run, by what, and with which rights."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
WRITING = {
    ("release.yaml", "publish"): {"id-token": "write"},
    ("release.yaml", "announce"): {"contents": "write"},
    ("release.yaml", "push"): {"packages": "write"},
    ("release.yaml", "docs"): {"contents": "read", "id-token": "write", "pages": "write"},
    ("docs.yaml", "publish"): {"id-token": "write", "pages": "write"},
}


def load(path: Path) -> dict[str, Any]:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return workflow


def read_targets(job: dict[str, Any]) -> set[tuple[str, str]]:
    """The targets of make in the commands of a job, with their arguments."""
    found = set()
    for step in job["steps"]:
        for line in step.get("run", "").splitlines():
            words = shlex.split(line.partition("make ")[2]) if "make " in line else []
            found |= {(word, "") for word in words if re.fullmatch(r"[a-z0-9-]+", word)}
    for row in job.get("strategy", {}).get("matrix", {}).get("include", []):
        targets = row.get("targets", "").split()
        found |= {(target, row.get("args", "")) for target in targets}
    return found


def test_k38_the_public_ci_runs_all_that_is_run_before_a_merge() -> None:
    text = (ROOT / ".ci" / "run").read_text("utf-8")
    steps = re.findall(r'^step +\d+ +"[^"]+" +make ([a-z0-9-]+)$', text, re.M)
    in_lanes = re.findall(r"^\d+ ([a-z0-9-]+)$", text, re.M)
    assert len(steps) == len(re.findall(r"^step +\d", text, re.M)) > 3
    assert len(in_lanes) == len(re.findall(r"^\d", text, re.M)) > 8
    jobs = load(ROOT / ".github" / "workflows" / "ci.yaml")["jobs"]
    run = {target for job in jobs.values() for target in read_targets(job)}
    missing = {(target, "") for target in steps + in_lanes} - run
    assert not missing
    assert set(jobs["passed"]["needs"]) == set(jobs) - {"passed"}


def test_k21_the_oldest_dependencies_are_tried_in_the_public_ci() -> None:
    """E.g. the declared floor of aiohttp, where the passwords of netrc have replaced the tokens."""
    jobs = load(ROOT / ".github" / "workflows" / "ci.yaml")["jobs"]
    [job] = [job for job in jobs.values() if ("test-floors", "") in read_targets(job)]
    assert "continue-on-error" not in job
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipe = makefile.partition("\ntest-floors:")[2].partition("\n\n")[0]
    assert "--resolution lowest-direct" in recipe
    assert "-m pytest -p no:cacheprovider packages " in recipe


def test_k38_unit_tests_are_run_on_other_systems() -> None:
    job = load(ROOT / ".github" / "workflows" / "ci.yaml")["jobs"]["test-elsewhere"]
    systems = {name.partition("-")[0] for name in job["strategy"]["matrix"]["os"]}
    assert systems == {"macos", "windows"}
    assert job["steps"][-1]["run"].endswith("uv run pytest packages")
    assert "continue-on-error" not in job


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_k26_actions_are_pinned_by_digests(path: Path) -> None:
    uses = re.findall(r"uses: *(.*)", path.read_text("utf-8"))
    assert uses
    for action in uses:
        if action == "$/.github/workflows/docs.yaml":  # of the same commit
            continue
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_k26_the_actions_are_those_of_the_policy() -> None:
    texts = [path.read_text("utf-8") for path in WORKFLOWS]
    used = {name for text in texts for name in re.findall(r"uses: *([\w/-]+)@", text)}
    assert {name.rpartition("/")[2] for name in used} == {
        "checkout",
        "upload-artifact",
        "download-artifact",
        "gh-action-pypi-publish",
        "upload-pages-artifact",
        "deploy-pages",
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_k26_tokens_are_read_only_but_for_few_jobs(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        writing = WRITING.get((path.name, name))
        if writing is None:
            assert set(job["permissions"].items()) <= {("contents", "read")}, name
        else:
            assert job["permissions"] == writing
            assert not [step for step in job.get("steps", []) if "checkout" in step.get("uses", "")]


def test_k26_everything_is_taken_from_the_lock() -> None:
    for path in WORKFLOWS:
        assert load(path)["env"]["UV_LOCKED"] == "1", path.name
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "--require-hashes -r tools/uv.txt" in makefile
    assert "--only-group build" in makefile
    assert "UV_BUILD_CONSTRAINT" in makefile
    assert '{ name = "hatchling"' in (ROOT / "uv.lock").read_text("utf-8")
    assert "--hash=sha256:" in (ROOT / "tools" / "uv.txt").read_text("utf-8")


def test_k26_nothing_is_relaxed_for_zizmor() -> None:
    zizmor = str(Path(sys.executable).with_name("zizmor"))
    command = [zizmor, "--offline", "--no-progress", ".github"]
    config = yaml.safe_load((ROOT / ".github" / "zizmor.yml").read_text("utf-8"))
    assert config == {"rules": {"unpinned-uses": {"config": {"policies": {"*": "hash-pin"}}}}}
    assert not [path for path in WORKFLOWS if "zizmor:" in path.read_text("utf-8")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
