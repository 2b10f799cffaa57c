"""Clusters and users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from e2e.kubeconfigs.case import ASKED, NOWHERE, OURS_ONLY, REFUSED, Case
from e2e.kubeconfigs.world import World, b64


def _user(**fields: Any) -> Callable[[World], Any]:
    names = {key.replace("_", "-"): value for key, value in fields.items()}
    return lambda w: w.config(user=names)


def _cluster(**fields: Any) -> Callable[[World], Any]:
    names = {key.replace("_", "-"): value for key, value in fields.items()}
    return lambda w: w.config(cluster=names, user={"token": "T"})


LOGINS = [
    Case("no-server", "no server", _cluster(server=None), REFUSED, "has no server", NOWHERE),
    Case(
        "path",
        "a server with a path",
        lambda w: w.config(cluster={"server": f"{w.url}/k8s/c-1/"}, user={"token": "T"}),
        "Bearer T, at /k8s/c-1/version",
        "",
        "Bearer T",
        "Only raw requests of kubectl ignore the path; its other requests do not.",
    ),
    Case(
        "no-scheme",
        "no scheme, with a CA",
        lambda w: w.config(cluster={"server": w.host}, user={"token": "T"}),
        "Bearer T",
        "",
        REFUSED,
        "A CA means TLS; kubectl sends plain HTTP to it.",
    ),
    Case(
        "no-scheme-no-tls",
        "no scheme, without TLS",
        lambda w: w.config(
            cluster={"server": w.plain_host, "certificate-authority-data": None},
        ),
        "anonymous",
    ),
    Case(
        "plain",
        "`http://` with a token",
        lambda w: w.config(
            cluster={"server": f"http://{w.plain_host}", "certificate-authority-data": None},
            user={"token": "T"},
        ),
        "Bearer T",
        "",
        "anonymous",
        "kubectl sends no credentials without TLS; local proxies and test servers need them.",
    ),
    Case(
        "ca-path",
        "a CA by its path, relative to the file",
        _cluster(certificate_authority_data=None, certificate_authority="ca.crt"),
        "Bearer T",
    ),
    Case(
        "ca-both",
        "a CA by both its path and data: the data win",
        _cluster(certificate_authority="user.crt"),
        "Bearer T",
        "",
        REFUSED,
        "kubectl says that the data override the path, and exits.",
    ),
    Case(
        "ca-absent",
        "an absent file of the CA",
        _cluster(certificate_authority_data=None, certificate_authority="absent"),
        REFUSED,
        "The CA cannot be loaded",
    ),
    Case(
        "ca-bad",
        "a CA that is not base64",
        _cluster(certificate_authority_data="%%%"),
        REFUSED,
        "is not base64",
    ),
    Case(
        "ca-pem",
        "a CA as PEM instead of base64",
        lambda w: w.config(
            cluster={"certificate-authority-data": w.ca.cert.decode()}, user={"token": "T"}
        ),
        "Bearer T",
        "",
        REFUSED,
        "It cannot be anything else.",
    ),
    Case(
        "ca-other",
        "a CA of another server",
        lambda w: w.config(
            cluster={"certificate-authority-data": b64(w.other_ca.cert)}, user={"token": "T"}
        ),
        REFUSED,
        "certificate",
    ),
    Case(
        "insecure",
        "`insecure-skip-tls-verify: true`",
        _cluster(certificate_authority_data=None, insecure_skip_tls_verify=True),
        "Bearer T",
    ),
    Case(
        "insecure-ca",
        "`insecure-skip-tls-verify: true` with a CA",
        _cluster(insecure_skip_tls_verify=True),
        REFUSED,
        "both a CA and insecure-skip-tls-verify",
    ),
    Case(
        "insecure-text",
        '`insecure-skip-tls-verify: "false"`',
        _cluster(insecure_skip_tls_verify="false"),
        REFUSED,
        "wrong insecure-skip-tls-verify",
    ),
    Case("sni", "`tls-server-name`", _cluster(tls_server_name="named"), "Bearer T"),
    Case(
        "sni-other",
        "`tls-server-name` of another server",
        _cluster(tls_server_name="other"),
        REFUSED,
        "certificate",
    ),
    Case(
        "proxy-scheme",
        "`proxy-url` of an unknown type",
        _cluster(proxy_url="ftp://127.0.0.1:1"),
        REFUSED,
        "Proxies of type 'ftp'",
    ),
    Case(
        "proxy-absent",
        "`proxy-url` where nobody listens",
        _cluster(proxy_url="http://127.0.0.1:1"),
        REFUSED,
        "Cannot connect",
    ),
    # Users.
    Case("number", "a number as a token", _user(token=123), REFUSED, "wrong token"),
    Case("password", "a password", _user(username="u", password="p"), "Basic dTpw"),
    Case(
        "username",
        "a username without a password",
        _user(username="u"),
        "anonymous",
        "",
        "Basic dTo=",
        "As in Kopf before.",
    ),
    Case(
        "password-token",
        "a password and a token",
        _user(username="u", password="p", token="T"),
        REFUSED,
        "both a password and a token",
    ),
    Case("token-file", "`tokenFile`", _user(tokenFile="token"), "Bearer from-file"),
    Case(
        "token-file-token",
        "`tokenFile` and a token: the file wins",
        _user(tokenFile="token", token="T"),
        "Bearer from-file",
    ),
    Case(
        "token-file-empty",
        "an empty `tokenFile`",
        _user(tokenFile="empty"),
        REFUSED,
        "token file is empty",
        ASKED,
        OURS_ONLY,
    ),
    Case(
        "token-file-absent",
        "an absent `tokenFile`",
        _user(tokenFile="absent"),
        REFUSED,
        "token cannot be read",
    ),
    Case(
        "cert",
        "a certificate by its path",
        _user(client_certificate="user.crt", client_key="user.key"),
        "certificate of someone",
    ),
    Case(
        "cert-data",
        "a certificate by its data",
        lambda w: w.config(
            user={
                "client-certificate-data": b64(w.user.cert),
                "client-key-data": b64(w.user.key),
            }
        ),
        "certificate of someone",
    ),
    Case(
        "cert-no-key",
        "a certificate without a key",
        _user(client_certificate="user.crt"),
        REFUSED,
        "a client certificate, but no key",
    ),
    Case(
        "cert-absent",
        "an absent certificate",
        _user(client_certificate="absent", client_key="user.key"),
        REFUSED,
        "client certificate cannot be loaded",
    ),
    Case(
        "as",
        "`as`, `as-uid`, `as-groups`, `as-user-extra`",
        _user(
            **{"as": "me"},
            token="T",
            as_uid="1",
            as_groups=["a", "b"],
            as_user_extra={"k/x": ["1", "2"]},
        ),
        "Bearer T, extra-k%2fx=1, extra-k%2fx=2, group=a, group=b, uid=1, user=me",
    ),
    Case(
        "as-nobody",
        "`as-groups` without `as`",
        _user(token="T", as_groups=["a"]),
        REFUSED,
        "nobody to act as",
    ),
    Case(
        "auth-provider",
        "`auth-provider` of a cloud",
        _user(auth_provider={"name": "gcp", "config": {"access-token": "T"}}),
        REFUSED,
        "needs the auth-provider 'gcp'.* Use an exec plugin",
    ),
    Case(
        "auth-provider-token",
        "`auth-provider` and a token",
        _user(token="T", auth_provider={"name": "gcp"}),
        "Bearer T",
        "",
        REFUSED,
        "There is something to log in with.",
    ),
    Case(
        "auth-provider-exec",
        "`auth-provider` and `exec`",
        lambda w: w.config(user=w.plugin("report(token='T')") | {"auth-provider": {"name": "x"}}),
        REFUSED,
        "both an auth-provider and an exec plugin",
    ),
]
