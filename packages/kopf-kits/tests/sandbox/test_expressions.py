import pytest

from kopf_kits.sandbox.base.remarks import Unsupported
from kopf_kits.sandbox.cel.errors import EvaluationError
from kopf_kits.sandbox.cel.expressions import compile_expression

SELF = {
    "name": "abc",
    "low": 1,
    "high": 2,
    "flag": True,
    "items": [{"n": "x", "v": 1}, {"n": "y", "v": 2}],
    "map": {"k": "v"},
    "my-field": 5,
    "nothing": None,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 % 3", 1),
        ("1.5 + 1.0", 2.5),
        ("0x10", 16),
        ("010", 10),
        ("'a' + \"b\"", "ab"),
        (r"'it\'s'", "it's"),
        (r"r'\d'", r"\d"),
        ("!true", False),
        ("true || false && false", True),
        ("1 == true", False),
        ("null == null", True),
        ("1 < 2 ? 'yes' : 'no'", "yes"),
        ("2 in [1, 2]", True),
        ("'k' in self.map", True),
        ("{'a': 1}['a']", 1),
        ("self.low <= self.high", True),
        ("self.items[1].n", "y"),
        ("self.map['k']", "v"),
        ("has(self.name)", True),
        ("has(self.absent)", False),
        ("has(self.nothing)", False),
        ("!has(self.absent) || self.absent > 1", True),
        ("self.absent > 1 || true", True),
        ("self.absent > 1 && false", False),
        ("size(self.name)", 3),
        ("self.items.size()", 2),
        ("self.name.startsWith('a') && self.name.endsWith('c')", True),
        ("self.name.contains('b')", True),
        ("self.name.matches('^[a-z]+$')", True),
        ("self.name.upperAscii()", "ABC"),
        ("self.items.all(item, item.v > 0)", True),
        ("self.items.exists(item, item.n == 'y')", True),
        ("self.items.exists_one(item, item.v > 0)", False),
        ("self.items.map(item, item.n)", ["x", "y"]),
        ("self.items.filter(item, item.v > 1).size()", 1),
        ("self.map.all(key, self.map[key] == 'v')", True),
        ("self.__my__dash__field == 5 || self.my__dash__field == 5", True),
        ("int('5') + 1", 6),
        ("string(true)", "true"),
        ("['a', 'b'].join(',')", "a,b"),
        ("[] in [1]", False),
        ("self.items.map(item, item.v > 1, item.n)", ["y"]),
    ],
)
def test_values(text, expected):
    assert compile_expression(text)({"self": SELF}) == expected


@pytest.mark.parametrize(
    "text", ["self.absent == 1", "self.absent.deeper", "self.items[5]", "self.name > 1", "1 / 0"]
)
def test_absence_of_values(text):
    with pytest.raises(EvaluationError):
        compile_expression(text)({"self": SELF})


@pytest.mark.parametrize(
    "text", ["", "1 +", "(1", "1 2", "@", "unknown(1)", "self.name.unknown()", "other", "[1"]
)
def test_what_is_not_understood(text):
    with pytest.raises(Unsupported):
        compile_expression(text)({"self": SELF})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("duration('1h30m') == duration('90m')", True),
        ("duration('-1.5s') + duration('1500ms') == duration('0')", True),
        ("timestamp('2020-01-01T00:00:00-01:30') == timestamp('2020-01-01T01:30:00Z')", True),
        ("quantity('1.5Gi').compareTo(quantity('1536Mi'))", 0),
        ("quantity('100m').add(quantity('0.9')).asInteger()", 1),
        ("isQuantity('1e3')", True),
        ("isQuantity('1K')", False),
        (r"'\u00e9\x41' == 'éA'", True),
        ("self.name.indexOf('z')", -1),
    ],
)
def test_k33_durations_times_and_quantities(text, expected):
    assert compile_expression(text)({"self": SELF}) == expected


@pytest.mark.parametrize("text", ["-self.name", "1.all(x, x)", "self.flag.startsWith('a')"])
def test_k33_wrong_types_are_failures_of_the_rule(text):
    with pytest.raises(EvaluationError):
        compile_expression(text)({"self": SELF})


@pytest.mark.parametrize("text", ["{0} + 1", "-{0} - 2", "{0} * 2", "(-{0} - 1) / -1"])
def test_k33_integers_overflow(text):
    with pytest.raises(EvaluationError, match="integer overflow"):
        compile_expression(text.format(2**63 - 1))({"self": SELF})
