import ssl

import aiohttp
import pytest

from kopf_cogs.clients import errors
from kopf_cogs.clients.retries import is_retriable


@pytest.mark.parametrize("payload", [None, [], "text", 1, {}, {"code": "x", "message": 1}])
def test_senseless_payloads(payload):
    error = errors.make_status_error(payload)
    assert type(error) is errors.APIServerError
    assert (error.status, error.code) == (500, 500)
    assert error.message is None
    assert error.reason is None
    assert error.details == {}
    assert error.causes == []
    assert str(error) == "500"


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (410, errors.APIGoneError),
        (504, errors.APIServerError),
        (429, errors.APITooManyRequestsError),
        (418, errors.APIClientError),
        (302, errors.APIRedirectError),
        (0, errors.APIServerError),
    ],
)
def test_codes_of_payloads_are_used_without_responses(code, cls):
    assert type(errors.make_status_error({"code": code})) is cls


def test_statuses_of_responses_take_precedence():
    error = errors.make_status_error({"code": 404}, status=503)
    assert type(error) is errors.APIServerError
    assert (error.status, error.code) == (503, 404)


@pytest.mark.parametrize(
    "message",
    [
        "failed to create typed patch object (ns/x; v1, Kind=Service): .spec.prots: "
        "field not declared in schema",
        "failed to convert new object (ns/x; v1, Kind=Event) to smd typed: .eventTime: wrong",
    ],
)
def test_h3_applies_of_what_is_not_in_the_schema_are_no_failures_of_the_server(message):
    error = errors.make_status_error({"code": 500, "message": message}, status=500)
    assert type(error) is errors.APIUnprocessableError
    assert str(error) == f"500: {message}"


@pytest.mark.parametrize(
    "message",
    [
        "etcdserver: request is too large",
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max "
        "(2200301 vs. 2097152)",
        "rpc error: code = ResourceExhausted desc = grpc: trying to send message larger than max "
        "(2200301 vs. 2097152)",
        "Internal error occurred: etcdserver: request is too large",
        "unable to store: rpc error: code = InvalidArgument desc = etcdserver: request is too "
        "large",
    ],
)
def test_h3_objects_that_are_too_large_are_no_failures_of_the_server(message):
    error = errors.make_status_error({"code": 500, "message": message}, status=500)
    assert type(error) is errors.APIClientError
    assert not is_retriable(error)


@pytest.mark.parametrize(
    "message",
    [
        "etcdserver: request timed out",
        "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (5)",
        "etcdserver: mvcc: database space exceeded",
        'Internal error occurred: failed calling webhook "x": it says "etcdserver: request is too',
        "something quotes: it failed to create typed patch object",
    ],
)
def test_other_failures_of_the_server_can_go_away(message):
    error = errors.make_status_error({"code": 500, "message": message}, status=500)
    assert type(error) is errors.APIServerError
    assert is_retriable(error)


def test_errors_can_say_what_they_are_about():
    error = errors.make_status_error({"message": "It is wrong.", "reason": "Bad"}, status=400)
    error.is_repeated = True
    named = error.about("Pod ns/x")
    assert type(named) is type(error)
    assert str(named) == "400 Bad: Pod ns/x: It is wrong."
    assert (named.reason, named.is_repeated) == ("Bad", True)
    assert str(errors.make_status_error({}, status=503).about("it")) == "503: it: no explanation"


def test_long_messages_are_cut():
    error = errors.make_status_error({"message": "x" * 1_000_000}, status=500)
    assert len(str(error)) < 1100


@pytest.mark.parametrize(
    ("details", "header", "expected"),
    [
        ({}, None, None),
        ({"retryAfterSeconds": 3}, None, "3"),
        ({"retryAfterSeconds": 3}, "5", "5"),
        ({"retryAfterSeconds": "x"}, None, None),
        ({"retryAfterSeconds": -1}, None, None),
    ],
)
def test_retry_after(details, header, expected):
    error = errors.make_status_error({"details": details}, status=429, retry_after=header)
    assert error.retry_after == expected


def test_causes():
    causes = [{"field": "x"}, "junk", None]
    error = errors.make_status_error({"details": {"causes": causes}}, status=422)
    assert error.causes == [{"field": "x"}]


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (OSError("boo"), "boo"),
        (OSError(), "OSError"),
        (TimeoutError(), "the request has timed out"),
        (
            aiohttp.ClientPayloadError("Response payload is not completed: <...: 400, ...>"),
            "the response is cut, or broken on its way",
        ),
        (OSError("http://user:pwd@host/ failed"), "http://***@host/ failed"),
        (OSError("No way to host:80 ssl:default [refused]"), "No way to host:80 [refused]"),
        (OSError("No connection to host:80 ssl:<SSLContext object>"), "No connection to host:80"),
    ],
)
def test_texts_of_connection_errors(exc, expected):
    assert str(errors.make_connection_error(exc)) == expected


def test_all_errors_are_expected():
    assert errors.make_connection_error(OSError()).expected
    assert errors.make_status_error({}).expected


def test_refused_certificates_are_recognised_in_all_versions_of_the_http_client():
    error = aiohttp.ClientConnectorCertificateError(None, ssl.CertificateError("expired"))
    vars(error).pop("_os_error", None)  # as in the older ones
    assert errors.is_distrust(error)
