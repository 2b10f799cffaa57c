import os
import pathlib
from collections.abc import Iterable

import pytest

from kopf_kits.envtest import EnvtestError, find_assets

BOTH = ("etcd", "kube-apiserver")


def fill(folder: pathlib.Path, names: Iterable[str] = BOTH, mode: int = 0o755) -> pathlib.Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
        (folder / name).chmod(mode)
    return folder


def test_variable_wins_over_path_and_cache(tmp_path: pathlib.Path) -> None:
    given, path = fill(tmp_path / "given"), fill(tmp_path / "path")
    fill(tmp_path / "kopf/envtest/v1.0.0-abc")
    environ = {"KUBEBUILDER_ASSETS": str(given), "PATH": str(path), "XDG_CACHE_HOME": str(tmp_path)}
    found = find_assets(environ)
    assert found.apiserver == given / "kube-apiserver"
    assert found.etcd == given / "etcd"
    assert found.origin == "KUBEBUILDER_ASSETS"
    assert str(found) == f"{given} (KUBEBUILDER_ASSETS)"


def test_variable_without_the_binaries_gives_way_to_path(tmp_path: pathlib.Path) -> None:
    given, path = fill(tmp_path / "given", ["etcd"]), fill(tmp_path / "path")
    found = find_assets({"KUBEBUILDER_ASSETS": str(given), "PATH": str(path)})
    assert (found.etcd, found.origin) == (path / "etcd", "PATH")


def test_path_can_have_them_in_different_folders(tmp_path: pathlib.Path) -> None:
    one, two = fill(tmp_path / "1", ["etcd"]), fill(tmp_path / "2", ["kube-apiserver"])
    found = find_assets({"PATH": f"{one}{os.pathsep}{two}"})
    assert (found.etcd, found.apiserver) == (one / "etcd", two / "kube-apiserver")


def test_latest_whole_build_is_taken_from_the_cache(tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "kopf/envtest"
    for moment, name in enumerate(["old", "new", ".building-x", "partial"]):
        fill(cache / name, BOTH if name != "partial" else ["etcd"])
        os.utime(cache / name, (moment, moment))
    found = find_assets({"XDG_CACHE_HOME": str(tmp_path)})
    assert found.apiserver == cache / "new/kube-apiserver"
    assert found.origin == "cache"


def test_cache_is_in_the_home_folder_by_default(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = fill(tmp_path / ".cache/kopf/envtest/v1")
    assert find_assets({}).apiserver.parent == folder


@pytest.mark.parametrize("extra", [[], ["kube-controller-manager"]])
def test_controller_manager_is_optional(tmp_path: pathlib.Path, extra: list[str]) -> None:
    folder = fill(tmp_path / "given", [*BOTH, *extra])
    found = find_assets({"KUBEBUILDER_ASSETS": str(folder)})
    assert found.controller_manager == (folder / extra[0] if extra else None)


def test_nothing_found(tmp_path: pathlib.Path) -> None:
    with pytest.raises(EnvtestError) as err:
        find_assets({"XDG_CACHE_HOME": str(tmp_path)})
    assert "KUBEBUILDER_ASSETS" in str(err.value)
    assert "make e2e-assets" in str(err.value)
    assert "\n" not in str(err.value)


def test_nothing_found_despite_the_variable(tmp_path: pathlib.Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "KUBEBUILDER_ASSETS": "/nonexistent"}
    with pytest.raises(EnvtestError, match=r"KUBEBUILDER_ASSETS=/nonexistent does not have both"):
        find_assets(environ)


def test_binary_that_is_not_executable(tmp_path: pathlib.Path) -> None:
    folder = fill(tmp_path / "given", mode=0o644)
    with pytest.raises(EnvtestError, match=r"given/etcd is not an executable file"):
        find_assets({"KUBEBUILDER_ASSETS": str(folder)})
