"""The binaries of the control plane: where they are, and where they came from."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping

from .errors import EnvtestError

VARIABLE = "KUBEBUILDER_ASSETS"


@dataclasses.dataclass(frozen=True)
class Assets:
    """The binaries of one control plane.

    The controller manager is optional. Without it, namespaces remain "Terminating" forever,
    and owned objects outlive their owners: as in any control plane without controllers.
    """

    etcd: pathlib.Path
    apiserver: pathlib.Path
    controller_manager: pathlib.Path | None
    origin: str

    def __str__(self) -> str:
        return f"{self.apiserver.parent} ({self.origin})"


def find_assets(environ: Mapping[str, str] | None = None) -> Assets:
    """Find the binaries of the control plane, following the convention of envtest.

    The first place with both ``kube-apiserver`` and ``etcd`` wins. The places are the folder in
    the environment variable ``KUBEBUILDER_ASSETS``, the folders in ``PATH``, and the latest build
    in the user's cache (``$XDG_CACHE_HOME/kopf/envtest/``, by default in ``~/.cache``).

    Raises :class:`EnvtestError` if there is no such place, or if a binary is there but is not
    an executable file.
    """
    environ = os.environ if environ is None else environ
    for origin, folders in _list_places(environ):
        etcd, apiserver = _locate("etcd", folders), _locate("kube-apiserver", folders)
        if etcd is not None and apiserver is not None:
            manager = _locate("kube-controller-manager", folders)
            return Assets(_checked(etcd), _checked(apiserver), manager, origin)
    given = environ.get(VARIABLE)
    hint = f" ({VARIABLE}={given} does not have both)" if given else ""
    raise EnvtestError(
        f"kube-apiserver and etcd are not found{hint}: set {VARIABLE} to a folder with both "
        "binaries (as `setup-envtest` downloads them), or put them on PATH, "
        "or build them with `make e2e-assets` in a clone of Kopf."
    )


def get_cache_folder(environ: Mapping[str, str]) -> pathlib.Path:
    """Get the folder where the builds are kept, each in a folder of its own."""
    base = environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "kopf" / "envtest"


def _list_places(environ: Mapping[str, str]) -> Iterator[tuple[str, list[pathlib.Path]]]:
    if environ.get(VARIABLE):
        yield VARIABLE, [pathlib.Path(environ[VARIABLE])]
    path = environ.get("PATH", "")
    yield "PATH", [pathlib.Path(folder) for folder in path.split(os.pathsep) if folder]
    cache = get_cache_folder(environ)
    builds = [path for path in cache.glob("[!.]*") if path.is_dir()] if cache.is_dir() else []
    for build in sorted(builds, key=lambda path: path.stat().st_mtime, reverse=True):
        yield "cache", [build]


def _locate(name: str, folders: list[pathlib.Path]) -> pathlib.Path | None:
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    found = shutil.which(name, path=os.pathsep.join(map(str, folders)))
    return pathlib.Path(found) if found else None


def _checked(path: pathlib.Path) -> pathlib.Path:
    if not path.is_file() or not os.access(path, os.X_OK):
        raise EnvtestError(f"{path} is not an executable file: fix it, or remove it.")
    return path.absolute()
