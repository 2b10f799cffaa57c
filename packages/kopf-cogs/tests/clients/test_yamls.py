import sys

import pytest

from kopf_cogs.clients import yamls


def test_normal_documents():
    assert yamls.load(b"a: [1, {b: c}]\nx: &x {y: z}\nw: {<<: *x, v: u}") == {
        "a": [1, {"b": "c"}],
        "x": {"y": "z"},
        "w": {"y": "z", "v": "u"},
    }


def test_b18_merge_bombs():
    keys = ", ".join(f"k{n}: 1" for n in range(10))
    lines = [f"a0: &a0 {{{keys}}}"]
    for level in range(1, 12):
        refs = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {{<<: [{refs}]}}")
    with pytest.raises(ValueError, match="too many merged keys"):
        yamls.load("\n".join(lines).encode())


def test_b18_alias_bombs_do_not_expand():
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 100)]
    doc = yamls.load("\n".join(lines).encode())
    assert doc["a99"][0] is doc["a99"][1]


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_b18_depth_bombs(brackets):
    opening = "[" if brackets == "[]" else "{a: "
    depth = 600 if sys.implementation.name == "cpython" else 20_000  # PyPy goes deeper
    data = opening * depth + brackets[1] * depth
    with pytest.raises(ValueError, match="too deep"):
        yamls.load(data.encode())


def test_b18_big_files(monkeypatch):
    monkeypatch.setattr(yamls, "MAX_SIZE", 10)
    with pytest.raises(ValueError, match="too big"):
        yamls.load(b"x" * 11)
