"""The bounds of the processor's instructions; the counting itself is done by `make callgrind`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench import callgrind
from bench.callgrind import LANDED, Build, Record, count, main, read_records, write_record
from bench.spine import STORIES, Story

OURS = Build(python="3.11", libc="glibc 2.36", valgrind="valgrind-3.19.0", machine="x86_64 avx2")
THEIRS = Build(python="3.11", libc="glibc 2.39", valgrind="valgrind-3.19.0", machine="x86_64 avx2")


@pytest.fixture
def landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each story takes 1,000 instructions: this has landed, and is counted now."""
    path = tmp_path / "callgrind.json"
    path.write_text("[]")
    write_record(path, Record(OURS, {story.name: 1000 for story in STORIES}))
    monkeypatch.setattr(callgrind, "LANDED", path)
    monkeypatch.setattr(Build, "detect", lambda: OURS)
    monkeypatch.setattr(callgrind, "count", lambda *_: 1000)
    monkeypatch.setattr(sys, "argv", ["bench.callgrind"])
    return path


def test_m_each_story_has_landed_figures() -> None:
    records = read_records(LANDED)
    assert records
    for record in records:
        assert set(record.instructions) == {story.name for story in STORIES}


def test_m_the_same_instructions_pass(landed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert capsys.readouterr().out.count(" ok\n") == len(STORIES)


def test_m_three_more_percent_pass(landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind, "count", lambda *_: 1030)
    main()


def test_m_more_instructions_in_one_story_fail(
    landed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(callgrind, "count", lambda story, _: 1000 + 31 * (story.name == "hot"))
    with pytest.raises(SystemExit, match="3% more instructions"):
        main()
    [line] = [line for line in capsys.readouterr().out.splitlines() if "EXCEEDED" in line]
    assert line.split() == ["hot", "1,031", "1,000", "+3.1%", "EXCEEDED"]


def test_m_another_build_is_not_compared(
    landed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Build, "detect", lambda: THEIRS)
    monkeypatch.setattr(callgrind, "count", lambda *_: 2000)
    main()
    out = capsys.readouterr().out
    assert "NOT COMPARED" in out
    assert "glibc 2.39" in out


def test_m_figures_are_recorded_beside_those_of_other_builds(
    landed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(landed, Record(THEIRS, {"hot": 5}))
    monkeypatch.setattr(callgrind, "count", lambda *_: 2000)
    monkeypatch.setattr(sys, "argv", ["bench.callgrind", "--only=hot", "--record"])
    main()
    ours, theirs = json.loads(landed.read_text())
    assert ours["instructions"] == {**{story.name: 1000 for story in STORIES}, "hot": 2000}
    assert theirs["instructions"] == {"hot": 5}


@pytest.mark.parametrize(("name", "divisor"), [("create", 96), ("start", 200)])
def test_m_only_the_additional_objects_are_counted(
    name: str, divisor: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-2:] == ["--live", name]
        for part, total in ((1, 7000), (2, 7000 + 50 * divisor)):
            (tmp_path / f"{name}.{part}").write_text(f"# profile\ntotals: {total}\n")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert count(find_story(name), tmp_path) == 50


def test_m_a_process_that_fails_is_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, stderr="It is broken.")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(SystemExit, match=r"failed:\nIt is broken\."):
        count(find_story("hot"), tmp_path)


def find_story(name: str) -> Story:
    [story] = [story for story in STORIES if story.name == name]
    return story
