"""The entrypoint of the images, in a scratch folder instead of a container."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "deploy" / "image"
DOCKERFILE = IMAGE / "Dockerfile"
TOOL = '#!/bin/sh\necho "{name} $$ $*"\nexit {code}\n'

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="There is no shell here.")


class Container:
    """A scratch folder with `/app`, and with commands that tell how they are called."""

    def __init__(self, root: Path) -> None:
        self.app = root / "app"
        self.bin = root / "bin"
        self.app.mkdir()
        self.bin.mkdir()
        self.set_tool("pip")
        self.set_tool("kopf")

    def set_tool(self, name: str, code: int = 0) -> None:
        path = self.bin / name
        path.write_text(TOOL.format(name=name, code=code))
        path.chmod(0o755)

    def run(self, *args: str) -> tuple[int, list[str], str]:
        """Returns the exit code, the calls of the commands, and the errors."""
        env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "KOPF_APP": str(self.app)}
        with subprocess.Popen(
            [IMAGE / "entrypoint.sh", *args],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            out, err = process.communicate()
        lines = out.replace(str(self.app), "/app").replace(str(process.pid), "PID").splitlines()
        return process.returncode, lines, err


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_main_file_is_found(container: Container) -> None:
    (container.app / "main.py").touch()
    # It has the pid of the entrypoint: so, the signals come to it directly.
    assert container.run() == (0, ["kopf PID run --verbose /app/main.py"], "")


def test_nothing_to_run(container: Container) -> None:
    code, calls, err = container.run()
    assert (code, calls) == (2, [])
    assert err.startswith("There is nothing to run: mount the operator as ")


def test_arguments_are_passed_as_they_are(container: Container) -> None:
    (container.app / "main.py").touch()
    assert container.run("run", "-m", "my.main", "-n", "a b")[1] == [
        "kopf PID run -m my.main -n a b"
    ]
    assert container.run("--version")[1] == ["kopf PID --version"]


def test_requirements_and_projects_are_installed_before(container: Container) -> None:
    for name in ["main.py", "requirements.txt", "pyproject.toml"]:
        (container.app / name).touch()
    calls = [call.split(" ", 2)[::2] for call in container.run()[1]]
    assert calls == [
        ["pip", "install --requirement /app/requirements.txt"],
        ["pip", "install --editable /app/"],
        ["kopf", "run --verbose /app/main.py"],
    ]


def test_nothing_runs_if_requirements_are_not_installed(container: Container) -> None:
    for name in ["main.py", "requirements.txt"]:
        (container.app / name).touch()
    container.set_tool("pip", code=7)
    code, calls, _ = container.run()
    assert code == 7
    assert [call.split()[0] for call in calls] == ["pip"]


def test_exit_codes_are_of_the_operator(container: Container) -> None:
    container.set_tool("kopf", code=3)
    assert container.run("run")[0] == 3


def test_copied_files_are_in_the_build_context() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    recipe = DOCKERFILE.read_text("utf-8")
    sources = [line.split()[1] for line in recipe.splitlines() if line.startswith("COPY ")]
    assert sources == ["deploy/image/entrypoint.sh"]
    assert "--mount=type=bind,source=dist," in recipe
    assert ignored == ["*", "!dist/*.whl", "!deploy/image/entrypoint.sh"]
    assert os.access(ROOT / sources[0], os.X_OK)


def test_there_is_no_root_in_the_container() -> None:
    lines = DOCKERFILE.read_text("utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    last_run = max(number for number, line in enumerate(lines) if line.startswith("RUN "))
    assert users == ["1000:0"]
    assert lines.index("USER 1000:0") > last_run


def test_the_recipe_passes_the_linter() -> None:
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]  # it is installed with us
    linter = shutil.which("hadolint", path=os.pathsep.join(folders))
    if linter is None:
        pytest.skip("There is no hadolint for this platform.")
    done = subprocess.run([linter, DOCKERFILE], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_extras_of_the_image_exist() -> None:
    (line,) = [
        line
        for line in DOCKERFILE.read_text("utf-8").splitlines()
        if line.startswith("ARG EXTRAS=")
    ]
    project = tomllib.loads((ROOT / "packages/kopf/pyproject.toml").read_text("utf-8"))
    known = project["project"]["optional-dependencies"].keys()
    assert {*line.partition("=")[2].split(",")} <= known


def test_compose_file_mounts_what_the_entrypoint_looks_for() -> None:
    services = yaml.safe_load((IMAGE / "compose.yaml").read_text("utf-8"))["services"]
    targets = [volume.split(":")[-2] for volume in services["operator"]["volumes"]]
    assert targets == ["/app/main.py", "/home/kopf/.kube/config"]


def test_q_the_public_ci_builds_the_image_of_each_kind_that_is_released() -> None:
    jobs = {
        name: yaml.safe_load((ROOT / ".github/workflows" / name).read_text("utf-8"))["jobs"]
        for name in ("ci.yaml", "release.yaml")
    }
    variants = jobs["release.yaml"]["image"]["strategy"]["matrix"]["variant"]
    steps = [step.get("run", "") for step in jobs["ci.yaml"]["build"]["steps"]]
    [recipe] = [step for step in steps if "docker build" in step]
    assert steps.index("make build") < steps.index(recipe)
    assert "--file deploy/image/Dockerfile " in recipe
    assert {*re.findall(r"python:3\.14-(\w+)", recipe)} == {*variants}


def test_q_the_page_says_for_which_processors_the_images_are() -> None:
    """The machines of the workflow build only for themselves, unless platforms are named."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text("utf-8"))
    job = workflow["jobs"]["image"]
    recipes = "".join(step.get("run", "") for step in job["steps"])
    is_for_one = "--platform" not in recipes and "arm" not in job["runs-on"]
    page = (ROOT / "docs/images.md").read_text("utf-8")
    assert is_for_one == ("The published images are for amd64 only." in page)
