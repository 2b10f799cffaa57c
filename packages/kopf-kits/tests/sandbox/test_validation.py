import pytest

from kopf_kits.sandbox.schemas.formats import is_format
from kopf_kits.sandbox.schemas.schemas import Node
from kopf_kits.sandbox.schemas.validation import validate


def check(spec, value):
    return [str(cause) for cause in validate(Node(spec), value, "f")]


@pytest.mark.parametrize(
    ("spec", "good", "bad", "text"),
    [
        ({"type": "integer"}, 1, "x", 'Invalid value: "string": f in body must be of type integer: "string"'),  # noqa: E501
        ({"type": "integer"}, 1.0, True, 'Invalid value: "boolean": f in body must be of type integer: "boolean"'),  # noqa: E501
        ({"type": "string"}, "", None, 'Invalid value: "null": f in body must be of type string: "null"'),  # noqa: E501
        ({"type": "object"}, {}, [], 'Invalid value: "array": f in body must be of type object: "array"'),  # noqa: E501
        ({"type": "array"}, [], {}, 'Invalid value: "object": f in body must be of type array: "object"'),  # noqa: E501
        ({"type": "number"}, 1.5, "x", 'Invalid value: "string": f in body must be of type number: "string"'),  # noqa: E501
        ({"x-kubernetes-int-or-string": True}, "5%", 1.5, 'Invalid value: "number": f in body must be of type integer,string: "number"'),  # noqa: E501
        ({"enum": ["a", "b"]}, "a", "c", 'Unsupported value: "c": supported values: "a", "b"'),
        ({"enum": [1]}, 1, True, "Unsupported value: true: supported values: 1"),
        ({"minimum": 1}, 1, 0, "Invalid value: 0: f in body should be greater than or equal to 1"),
        ({"maximum": 1}, 1, 2, "Invalid value: 2: f in body should be less than or equal to 1"),
        ({"minimum": 1, "exclusiveMinimum": True}, 2, 1, "Invalid value: 1: f in body should be greater than 1"),  # noqa: E501
        ({"multipleOf": 2}, 4, 3, "Invalid value: 3: f in body should be a multiple of 2"),
        ({"minLength": 2}, "ab", "a", 'Invalid value: "a": f in body should be at least 2 chars long'),  # noqa: E501
        ({"maxLength": 2}, "ab", "abc", "Too long: may not be more than 2 bytes"),
        ({"pattern": "^a$"}, "a", "b", "Invalid value: \"b\": f in body should match '^a$'"),
        ({"format": "date-time"}, "2020-01-01T00:00:00Z", "x", 'Invalid value: "x": f in body must be of type date-time: "x"'),  # noqa: E501
        ({"minItems": 1}, [1], [], "Invalid value: []: f in body should have at least 1 items"),
        ({"maxItems": 1}, [1], [1, 2], "Too many: 2: must have at most 1 items"),
        ({"minProperties": 1}, {"a": 1}, {}, "Invalid value: {}: f in body should have at least 1 properties"),  # noqa: E501
        ({"not": {"enum": ["a"]}}, "b", "a", 'Invalid value: "a": f in body must not validate the schema (not)'),  # noqa: E501
        ({"anyOf": [{"enum": [1]}, {"enum": [2]}]}, 1, 3, "Invalid value: 3: f in body must validate at least one schema (anyOf)"),  # noqa: E501
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 1, 3, "Invalid value: 3: f in body must validate one and only one schema (oneOf). Found 2 valid alternatives"),  # noqa: E501
        ({"allOf": [{"minimum": 1}]}, 1, 0, "Invalid value: 0: f in body should be greater than or equal to 1"),  # noqa: E501
    ],
)  # fmt: skip
def test_keywords(spec, good, bad, text):
    assert check(spec, good) == []
    assert check(spec, bad) == [f"f: {text}"]


def test_paths_of_nested_fields():
    item = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["y"]}
    spec = {
        "type": "object",
        "properties": {"list": {"type": "array", "items": item}},
        "additionalProperties": {"type": "string"},
    }
    causes = validate(Node(spec), {"list": [{"x": "a", "y": 1}, {"x": 1}], "k": 1}, "spec")
    assert [cause.field for cause in causes] == ["spec.list[0].x", "spec.list[1].y", "spec.k"]


def test_duplicates():
    spec = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    assert check(spec, ["a", "b"]) == []
    assert check(spec, ["a", "b", "a"]) == ['f[2]: Duplicate value: "a"']
    spec = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    assert check(spec, [{"k": 1}, {"k": 1}]) == ['f[1]: Duplicate value: {"k":1}']


def test_nullable():
    assert check({"type": "string", "nullable": True}, None) == []


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", "2020-01-31", "2020-01-32"),
        ("date-time", "2020-01-01T00:00:00.5+01:00", "2020-13-01T00:00:00Z"),
        ("duration", "1h30m", "hour"),
        ("email", "a@b.c", "abc"),
        ("hostname", "a.bc", "a.b"),
        ("ipv4", "1.2.3.4", "::1"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("uuid", "06c0eefc-9bc9-44ce-903b-536518230583", "x"),
        ("byte", "YQ==", "?"),
    ],
)
def test_formats(name, good, bad):
    assert is_format(name, good)
    assert not is_format(name, bad)


def test_k33_hosts_and_ports_of_addresses_are_checked():
    good = "http://[::1]:80/x http://u:p@h/ http://é/ http://a/[x http://a?[x http://a/| http:a *"
    bad = "http://[::1 http://[::1]x http://a:b/ http://a:80:90 http://a[b http://u[x@h http://a|b"
    bad += " http://a{b} http://%41/ http://a%2fb/ http://[] http://[x]y] http://a#[ http://a:8o?x"
    assert [text for text in good.split() if not is_format("uri", text)] == []
    assert [text for text in bad.split() if is_format("uri", text)] == []


def test_unknown_formats_are_accepted():
    assert is_format("unknown", "anything")


@pytest.mark.parametrize(("good", "bad"), [(2**63 - 1, 2**63), (-(2**63), 2.0**63)])
def test_k33_integers_are_of_64_bits(good, bad):
    assert check({"type": "integer"}, good) == []
    causes = check({"type": "integer"}, bad)
    assert causes[1:] == ['f: Invalid value: "number": f in body must be of type integer: "number"']


def test_k33_integers_of_32_bits():
    spec = {"type": "integer", "format": "int32"}
    assert check(spec, 2**31 - 1) == []
    text = 'Invalid value: "": Checked value must be of type integer with format int32 in f'
    assert check(spec, 2**31) == [f"<nil>: {text}"]


def test_k33_fractions_of_32_bits_take_no_time():
    """They were looked for among all integers of 32 bits, and the sandbox hung for minutes."""
    spec = {"type": "integer", "format": "int32"}
    assert check(spec, 1.0) == []
    assert check(spec, -(2.0**31)) == []
    text = 'Invalid value: "": Checked value must be of type integer with format int32 in f'
    assert check(spec, 2.0**31) == [f"<nil>: {text}"]


def test_k33_addresses_are_parsed_as_in_kubernetes():
    assert is_format("ipv4", "01.2.3.004")
    assert not is_format("ipv6", "fe80::1%eth0")
