import pytest

from kopf_cogs.structs.label_selectors import is_label_selector


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a",
        "!a",
        "! a",
        "a=",
        "a=b",
        "a == b",
        "a!=b",
        "example.com/a-b_c=x.y",
        "a in (b)",
        "a in(b,c)",
        "a notin ( b , c )",
        "a in (,b)",
        "a>1,b<-2",
        " a , !b,c in (d, e) ,f=g ",
    ],
)
def test_o_label_selectors_are_recognised(text):
    assert is_label_selector(text)


@pytest.mark.parametrize(
    "text",
    ["a in b", "a in (b", "a in ()x", "a b", "a,", ",a", "a=b c", "=b", "a ina (b)", "a=b=c"],
)
def test_o_wrong_label_selectors_are_refused(text):
    assert not is_label_selector(text)
