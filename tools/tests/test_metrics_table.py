"""The table of metrics is generated, and is current."""

import metrics_table


def test_i_the_table_of_metrics_is_current() -> None:
    text = metrics_table.PAGE.read_text("utf-8")
    assert metrics_table.render(text) == text, "Run `python tools/metrics_table.py`."


def test_i_the_rest_of_the_page_is_kept() -> None:
    text = "# Title\n\nSome words.\n\n| old |\n|---|\n| row |\n"
    rendered = metrics_table.render(text)
    assert rendered.startswith("# Title\n\nSome words.\n\n| metric | type | labels | meaning |\n")
    assert "| old |" not in rendered
    assert "| `kopf_leading` | gauge |" in rendered
