"""The binaries are found or built, once, and in whole; with a fake Go, as the real one is slow."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
FAKE_GO = """#!/bin/sh
echo "$*" >>"$GO_TRACE"
test "$1" = version && echo "go version go1.99 plan9/mips" && exit
test -n "$GO_FAILS" && exit 1
while test "$1" != -o; do shift; done
for name in etcd kube-apiserver; do echo >"$2$name"; chmod +x "$2$name"; done
"""


class Machine:
    """A machine with its own cache, path, and clone of the sources."""

    def __init__(self, root: pathlib.Path) -> None:
        super().__init__()
        self.root = root
        self.sources = self.clone("sources")
        self.trace = root / "trace"
        (root / "bin").mkdir()
        self.add_program(root / "bin" / "go", FAKE_GO)
        self.env = {
            "PATH": f"{root / 'bin'}:/usr/bin:/bin",
            "XDG_CACHE_HOME": str(root / "cache"),
            "GO_TRACE": str(self.trace),
        }

    def clone(self, name: str) -> pathlib.Path:
        shutil.copytree(HERE, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
        return self.root / name

    def add_program(self, path: pathlib.Path, text: str = "#!/bin/sh\n") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(self.sources / "build.py"), *args],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def builds(self) -> int:
        lines = self.trace.read_text().splitlines() if self.trace.exists() else []
        return sum(line.startswith("build ") for line in lines)

    @property
    def cached(self) -> list[str]:
        return sorted(os.listdir(self.root / "cache" / "kopf" / "envtest"))


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


def test_first_run_builds_and_second_does_not(machine: Machine) -> None:
    first, second = machine.run(), machine.run()
    assert first.returncode == second.returncode == 0
    assert first.stdout == second.stdout
    folder = pathlib.Path(first.stdout.strip())
    assert sorted(os.listdir(folder)) == ["etcd", "kube-apiserver"]
    assert folder.parent == machine.root / "cache" / "kopf" / "envtest"
    assert machine.builds == 1


def test_another_clone_builds_nothing(machine: Machine) -> None:
    first = machine.run()
    machine.sources = machine.clone("another")
    second = machine.run()
    assert first.stdout == second.stdout
    assert machine.builds == 1


@pytest.mark.parametrize("changed", ["go.sum", "go.mod", "cmd/etcd/main.go"])
def test_changed_sources_are_built_anew(machine: Machine, changed: str) -> None:
    first = machine.run()
    path = machine.sources / changed
    path.write_text(path.read_text() + "\n")
    second = machine.run()
    assert first.stdout != second.stdout
    assert machine.builds == 2


def test_another_go_builds_anew(machine: Machine) -> None:
    first = machine.run()
    machine.add_program(machine.root / "bin" / "go", FAKE_GO.replace("1.99", "1.100"))
    assert machine.run().stdout != first.stdout


def test_version_is_stamped(machine: Machine) -> None:
    machine.run()
    command = machine.trace.read_text()
    assert "-X k8s.io/component-base/version.gitVersion=v1." in command
    assert "-trimpath" in command


def test_failed_build_leaves_nothing(machine: Machine) -> None:
    done = machine.run(GO_FAILS="yes")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "`go build` has failed with code 1" in done.stderr
    assert machine.cached == []


def test_no_go(machine: Machine) -> None:
    done = machine.run(PATH="/nonexistent")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "install Go, or point KUBEBUILDER_ASSETS to a folder" in done.stderr


def test_given_assets_win(machine: Machine) -> None:
    folder = machine.root / "given"
    for name in ("etcd", "kube-apiserver"):
        machine.add_program(folder / name)
    assert machine.run(KUBEBUILDER_ASSETS=str(folder)).stdout.strip() == str(folder)
    assert machine.run("--build", KUBEBUILDER_ASSETS=str(folder)).stdout.strip() != str(folder)
    assert machine.builds == 1


def test_given_assets_without_binaries_do_not_win(machine: Machine) -> None:
    machine.add_program(machine.root / "given" / "etcd")
    done = machine.run(KUBEBUILDER_ASSETS=str(machine.root / "given"))
    assert "has no kube-apiserver; looking further" in done.stderr
    assert machine.builds == 1


def test_binaries_on_path_win(machine: Machine) -> None:
    for name in ("etcd", "kube-apiserver"):
        machine.add_program(machine.root / "bin" / name)
    assert machine.run().stdout.strip() == str(machine.root / "bin")
    assert machine.builds == 0


def test_only_looking(machine: Machine) -> None:
    done = machine.run("--where")
    assert done.returncode == 1
    assert "make e2e-assets" in done.stderr
    built = machine.run()
    assert machine.run("--where").stdout == built.stdout
    assert machine.builds == 1


def test_leftovers_without_binaries_are_replaced(machine: Machine) -> None:
    folder = pathlib.Path(machine.run().stdout.strip())
    (folder / "etcd").unlink()
    assert machine.run().returncode == 0
    assert (folder / "etcd").exists()
    assert machine.cached == [folder.name]
