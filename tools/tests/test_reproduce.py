from pathlib import Path

import pytest
import reproduce


def test_differing_files_are_found(tmp_path: Path) -> None:
    for folder, content in {"a": b"1", "b": b"2"}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.whl").write_bytes(b"0")
        (tmp_path / folder / "differing.tar.gz").write_bytes(content)
        (tmp_path / folder / "ignored.txt").write_bytes(content)
    (tmp_path / "b" / "only.whl").write_bytes(b"0")
    first, second = map(reproduce.get_hashes, [tmp_path / "a", tmp_path / "b"])
    assert reproduce.find_differing(first, second) == ["differing.tar.gz", "only.whl"]
    assert reproduce.find_differing(first, first) == []


def test_nothing_built_is_not_reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "rebuild", lambda dist, *_: dist)
    monkeypatch.setenv("UV", "uv")
    assert reproduce.main([str(tmp_path)]) == 1
    (tmp_path / "some.whl").write_bytes(b"0")
    assert reproduce.main([str(tmp_path)]) == 0
