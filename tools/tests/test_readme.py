"""What the README shows is what is run: by `make demo`, and by hand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def read_blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_k36_the_operator_above_is_the_one_that_is_run() -> None:
    operator, _reconciler = read_blocks("README.md", "python")
    assert (ROOT / "examples/01-minimal/example.py").read_text("utf-8").startswith(operator)
    commands = "".join(read_blocks("README.md", "bash"))
    assert commands.count(" examples/01-minimal/example.py") == 2


@pytest.mark.parametrize("page", ["README.md", "docs/installation.md"])
def test_k36_by_hand_the_environment_of_make_is_not_touched(page: str) -> None:
    blocks = [block for block in read_blocks(page, "bash") if "--find-links dist" in block]
    assert blocks
    for block in blocks:
        lines = block.splitlines()
        [build] = [index for index, line in enumerate(lines) if line.startswith("make build")]
        [venv] = re.findall(r"python3 -m venv (\S+)", block)
        assert venv != ".venv"  # There, everything is editable, and satisfies the requirements.
        assert f"source {venv}/bin/activate" in block
        assert f"python3 -m venv {venv}" not in "\n".join(lines[: build + 1])
