"""What is asked: it is either understood in full, or refused with the reason."""

import types

import pytest

from kopf_cogs.structs.reviews import ReviewError
from kopf_core.engines.admission.requests import parse_review


def test_request_is_parsed(make_review):
    request = parse_review(make_review({"a": 1}, old={"a": 0}, subResource="status", dryRun=True))
    assert request.uid == "uid-of-review"
    assert request.api_version == "admission.k8s.io/v1"
    assert request.resource == ("kopf.dev", "v1", "kopfexamples")
    assert (request.operation, request.subresource, request.dryrun) == ("UPDATE", "status", True)
    assert request.userinfo["username"] == "me"
    assert (request.old["spec"], request.new["spec"]) == ({"a": 0}, {"a": 1})
    assert request.body is request.new


def test_deleted_object_is_the_old_one(make_review):
    request = parse_review(make_review(old={"a": 0}, operation="DELETE"))
    assert request.new is None
    assert request.body is request.old


def test_review_as_in_the_documentation_is_understood(make_review):
    inner = ("uid", "kind", "resource")
    review = make_review()
    outer = {key: value for key, value in review["request"].items() if key not in inner}
    request = {key: review["request"][key] for key in inner}
    parsed = parse_review(review | outer | {"request": request})
    assert parsed == parse_review(review)


def test_g6_version_of_the_review_is_echoed(make_review):
    assert parse_review(make_review() | {"apiVersion": "x/v1beta1"}).api_version == "x/v1beta1"
    assert parse_review({"request": make_review()["request"]}).api_version == "admission.k8s.io/v1"


def test_absent_optional_fields_have_defaults(make_review):
    review = make_review()
    for key in ("uid", "operation", "dryRun", "kind", "name", "namespace", "oldObject"):
        del review["request"][key]
    request = parse_review(review)
    assert (request.uid, request.operation, request.dryrun) == ("", None, False)


def frozen(value):
    """The same with no dictionaries in it: users' own servers can parse with anything."""
    if isinstance(value, dict):
        return types.MappingProxyType({key: frozen(item) for key, item in value.items()})
    return value


@pytest.mark.parametrize("path", [(), ("request",), ("request", "object"), ("request", "userInfo")])
def test_any_mappings_are_understood(make_review, path):
    review = make_review({"a": {"b": 1}}, old={"a": {"b": 0}})
    expected = parse_review(make_review({"a": {"b": 1}}, old={"a": {"b": 0}}))
    if path:
        parent = review
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = frozen(parent[path[-1]])
    else:
        review = frozen(review)
    request = parse_review(review)
    assert request == expected
    assert type(request.new) is type(request.new["spec"]["a"]) is dict


@pytest.mark.parametrize(
    "review",
    [None, [], 1, 1.5, True, "", "text", {}, {"request": None}, {"request": []}, {"request": {}}],
)
def test_g2_what_is_not_a_review_is_refused(review):
    with pytest.raises(ReviewError) as error:
        parse_review(review)
    assert error.value.status == 400
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("uid", 1),
        ("uid", ["x"]),
        ("operation", "DESTROY"),
        ("operation", 5),
        ("operation", ["CREATE"]),
        ("subResource", 5),
        ("userInfo", None),
        ("userInfo", "me"),
        ("resource", None),
        ("resource", "kopfexamples"),
        ("resource", {"group": None, "version": "v1", "resource": "x"}),
        ("resource", {"version": "v1", "resource": "x"}),
        ("object", None),
        ("object", []),
        ("object", "text"),
        ("oldObject", 5),
        ("object", {"metadata": []}),
        ("object", {"metadata": {"labels": []}}),
        ("object", {"metadata": {"labels": {"x": 1}}}),
        ("object", {"metadata": {"annotations": "x"}}),
        ("object", {"metadata": {"name": 5}}),
        ("object", {"metadata": {"uid": {}}}),
    ],
)
def test_g2_wrong_fields_are_refused(make_review, field, value):
    with pytest.raises(ReviewError):
        parse_review(make_review(**{field: value}))
