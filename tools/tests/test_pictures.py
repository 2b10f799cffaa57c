"""The pictures of the documentation."""

import xml.etree.ElementTree as ET

import pictures


def test_pictures_are_current() -> None:
    assert pictures.main(["--check"]) == 0, "Run: python tools/pictures.py"


def test_pictures_are_well_formed() -> None:
    assert all(ET.fromstring(text).tag.endswith("svg") for text in pictures.draw_all().values())


def test_boxes_of_a_row_are_beside_each_other() -> None:
    diagram = pictures.parse("title T\nrow a: A | x; b: B | y\nrow c: C | z\narrow a c: label\n")
    places = diagram.place()
    assert places["a"][1] == places["b"][1] < places["c"][1]
    assert places["a"][0] < places["c"][0] < places["b"][0]
    assert "label" in pictures.draw(diagram, pictures.THEMES["dark"])


def test_commands_are_coloured() -> None:
    drawing = pictures.draw_terminal("$ kopf run <file>\nHandler 'fn' succeeded.\n")
    assert "$ kopf run &lt;file&gt;" in drawing
    assert drawing.count("#7dd3fc") == 1
