"""What is expected here was given by the ``regexp`` package of Go for the same patterns."""

import pytest

from kopf_kits.sandbox.base.patterns import BadPattern, compile_pattern
from kopf_kits.sandbox.base.remarks import Unsupported


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^a$", "a", "a\n"),
        (r"^a\z", "a", "a\n"),
        ("(?m)^b$", "a\nb\nc", "ab"),
        ("^.$", "a", "\n"),
        ("(?s)^.$", "\n", ""),
        ("^[^a]$", "\n", "a"),
        (r"^\d$", "1", "\u0661"),
        (r"^\D$", "\u0661", "1"),
        (r"^\w$", "_", "é"),
        (r"^\s$", "\f", "\v"),
        (r"^a\bé$", "aé", "a"),
        (r"^[\d-x]$", "-", "y"),
        (r"^\pL+$", "aé", "1"),
        (r"^\p{^L}$", "1", "a"),
        (r"^[\PLa]$", "a", "b"),
        ("(?i)^k$", "\u212a", "x"),
        ("(?i)^[^k]$", "x", "K"),
        ("^(?i:a)b$", "Ab", "AB"),
        ("^(a(?i)b|c)d$", "Cd", "CD"),
        ("^a{,2}$", "a{,2}", "aa"),
        ("^a{2}$", "aa", "a"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^\x41\x{62}\103$", "AbC", "abc"),
        ("^[[:alpha:]]$", "a", "é"),
        ("^[[:^alpha:]]$", "é", "a"),
        ("^[]a]$", "]", "b"),
        ("^(?P<n>a)(?<m>b)$", "ab", "a"),
        (r"^$|^\B$", "", "a"),
    ],
)
def test_k33_patterns_are_those_of_re2(pattern, good, bad):
    assert compile_pattern(pattern).search(good)
    assert not compile_pattern(pattern).search(bad)


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)b", "invalid named capture: `(?<!a)b`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a++", "invalid nested repetition operator: `++`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        (r"a\Z", r"invalid escape sequence: `\Z`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("[a", "missing closing ]: `[a`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
    ],
)
def test_k33_what_re2_does_not_know_is_refused(pattern, error):
    with pytest.raises(BadPattern) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == f"error parsing regexp: {error}"


def test_k33_scripts_are_not_known():
    with pytest.raises(Unsupported, match="Greek"):
        compile_pattern(r"\p{Greek}")
