#!/usr/bin/env python3
"""Put the binaries of a real control plane where the tests look for them, and print the folder.

Binaries that are already there win: first those in the folder of `KUBEBUILDER_ASSETS`, then those
on `PATH`, then those of an earlier build in the user's cache. Only when there are none, they are
built with the Go toolchain from the published modules pinned in `go.mod` and `go.sum` beside this
file. It needs nothing but Python's standard library and Go.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
REQUIRED = ("etcd", "kube-apiserver")
OPTIONAL = ("kube-controller-manager",)
STAMP = "k8s.io/component-base/version"


class BuildError(Exception):
    """The assets can neither be found nor built; the message says why and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Find or build kube-apiserver and etcd.")
    parser.add_argument("--where", action="store_true", help="only look; never build")
    parser.add_argument("--build", action="store_true", help="ignore KUBEBUILDER_ASSETS and PATH")
    parser.add_argument("--jobs", type=int, default=2, help="processes of the Go build (2)")
    args = parser.parse_args()
    try:
        folder = None if args.build else find_given()
        folder = folder or obtain(build_missing=not args.where, jobs=args.jobs)
    except BuildError as e:
        say(str(e))
        return 1
    print(folder)
    return 0


def find_given() -> pathlib.Path | None:
    """Find the binaries that the user has provided: by the variable, or on the path."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        missing = [name for name in REQUIRED if not is_program(pathlib.Path(assets, name))]
        if not missing:
            return pathlib.Path(assets)
        say(f"KUBEBUILDER_ASSETS={assets} has no {' and no '.join(missing)}; looking further")
    found = [shutil.which(name) for name in REQUIRED]
    if all(found):
        return pathlib.Path(str(found[-1])).parent
    return None


def obtain(*, build_missing: bool, jobs: int) -> pathlib.Path:
    """Return the folder of the cache with the binaries, building them if they are not there."""
    target = cache_root() / cache_key()
    if all(is_program(target / name) for name in REQUIRED):
        return target
    if not build_missing:
        raise BuildError("no kube-apiserver and etcd are found or built yet: run `make e2e-assets`")
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        build(scratch, jobs=jobs)
        publish(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def build(folder: pathlib.Path, *, jobs: int) -> None:
    version = kubernetes_version()
    major, minor, _ = version.lstrip("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitCommit": ""}
    ldflags = ["-s", "-w", *(f"-X {STAMP}.{key}={value}" for key, value in stamps.items())]
    command = ["build", "-p", str(jobs), "-trimpath", "-ldflags", " ".join(ldflags)]
    say(f"building Kubernetes {version}; the first time takes minutes")
    started = time.monotonic()
    run_go([*command, "-o", f"{folder}{os.sep}", "./cmd/..."], capture=False)
    elapsed = time.monotonic() - started
    sizes = [f"{p.name} {p.stat().st_size / 2**20:.0f} MiB" for p in sorted(folder.iterdir())]
    say(f"built in {elapsed:.0f} s: {', '.join(sizes)}")


def publish(scratch: pathlib.Path, target: pathlib.Path) -> None:
    """Show the finished folder under its name at once; another build that was first stays."""
    scratch.chmod(0o755)
    try:
        scratch.rename(target)
    except OSError:
        if all(is_program(target / name) for name in REQUIRED):
            return
        shutil.rmtree(target)  # the leftovers of somebody's clean-up
        scratch.rename(target)


def cache_root() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "kopf" / "envtest"


def cache_key() -> str:
    """Name all that determines the binaries: the modules, our mains, the Go version & platform."""
    digest = hashlib.sha256()
    sources = [HERE / "go.sum", HERE / "go.mod", *sorted(HERE.glob("cmd/*/*.go"))]
    for path in sources:
        digest.update(f"{path.relative_to(HERE).as_posix()}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    digest.update(run_go(["version"]).encode())
    return f"{kubernetes_version()}-{digest.hexdigest()[:16]}"


def kubernetes_version() -> str:
    required = (HERE / "go.mod").read_text(encoding="utf-8")
    match = re.search(r"^\s*k8s\.io/kubernetes (v\S+)$", required, re.MULTILINE)
    if match is None:
        raise BuildError(f"go.mod in {HERE} does not require k8s.io/kubernetes")
    return match.group(1)


def run_go(args: list[str], *, capture: bool = True) -> str:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "no Go toolchain is found to build kube-apiserver and etcd: install Go, or point "
            "KUBEBUILDER_ASSETS to a folder with both binaries, or put them on PATH"
        )
    stdout = subprocess.PIPE if capture else sys.stderr
    env = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run([go, *args], cwd=HERE, env=env, stdout=stdout, text=True, check=False)
    if done.returncode:
        raise BuildError(f"`go {args[0]}` has failed with code {done.returncode}; see above")
    return done.stdout or ""


def say(message: str) -> None:
    print(f"e2e-assets: {message}", file=sys.stderr)


def is_program(path: pathlib.Path) -> bool:
    names = (path, path.with_name(f"{path.name}.exe"))
    return any(name.is_file() and os.access(name, os.X_OK) for name in names)


if __name__ == "__main__":
    sys.exit(main())
