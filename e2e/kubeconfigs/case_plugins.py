"""Exec plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from e2e.kubeconfigs.case import REFUSED, Case
from e2e.kubeconfigs.world import World


def _plugin(code: str, **fields: Any) -> Callable[[World], Any]:
    return lambda w: w.config(user=w.plugin(code, **fields))


PLUGINS = [
    Case("exec", "a token", _plugin("report(token='T')"), "Bearer T"),
    Case(
        "exec-beta",
        "`v1beta1`",
        _plugin("report(token='T')", apiVersion="client.authentication.k8s.io/v1beta1"),
        "Bearer T",
    ),
    Case(
        "exec-alpha",
        "`v1alpha1`",
        _plugin("report(token='T')", apiVersion="client.authentication.k8s.io/v1alpha1"),
        REFUSED,
        "unsupported apiVersion",
    ),
    Case(
        "exec-relative",
        "a command relative to the file",
        _plugin("report(token='T')", command="./plugin"),
        "Bearer T",
    ),
    Case(
        "exec-args",
        "arguments and environment",
        _plugin(
            "report(token=sys.argv[1] + os.environ['X'])",
            args=["a"],
            env=[{"name": "X", "value": "b"}],
        ),
        "Bearer ab",
    ),
    Case(
        "exec-info",
        "`provideClusterInfo: true`",
        _plugin("report(token=doc['spec']['cluster']['server'][:8])", provideClusterInfo=True),
        "Bearer https://",
    ),
    Case(
        "exec-cert",
        "a certificate",
        _plugin(
            "report(clientCertificateData=open(sys.argv[1]).read(),"
            " clientKeyData=open(sys.argv[2]).read())",
            args=["user.crt", "user.key"],
        ),
        "certificate of someone",
    ),
    Case(
        "exec-token",
        "together with a token: nothing is run",
        lambda w: w.config(user={"token": "T"} | w.plugin("sys.exit(1)")),
        "Bearer T",
    ),
    Case(
        "exec-always",
        "`interactiveMode: Always`",
        _plugin("report(token='T')", interactiveMode="Always"),
        REFUSED,
        "operators have no terminals",
    ),
    Case(
        "exec-no-mode",
        "`v1` without `interactiveMode`",
        _plugin("report(token='T')", interactiveMode=None),
        "Bearer T",
        "",
        REFUSED,
        "There is no terminal anyway, so there is nothing to choose.",
    ),
    Case("exec-no-command", "no command", _plugin("", command=""), REFUSED, "has no command"),
    Case(
        "exec-absent",
        "an absent command",
        _plugin("", command="no-such-command", installHint="Install it!"),
        REFUSED,
        "is not found. Install it!",
    ),
    Case("exec-fails", "it fails", _plugin("sys.exit(1)"), REFUSED, "failed with exit code 1"),
    Case("exec-garbage", "it prints garbage", _plugin("print('?')"), REFUSED, "is not JSON"),
    Case("exec-nothing", "it gives nothing", _plugin("report()"), REFUSED, "neither a token nor"),
    Case(
        "exec-huge",
        "it prints over 1 MiB",
        _plugin("report(token='T', junk='x' * 1048576)"),
        REFUSED,
        "has printed more than",
        "Bearer T",
        "kubectl has no limit.",
    ),
    Case(
        "exec-expired",
        "it gives an expired token",
        _plugin("report(token='T', expirationTimestamp='2020-01-01T00:00:00Z')"),
        REFUSED,
        "expired already",
        "Bearer T",
        "It would be run again and again.",
    ),
    Case(
        "exec-time",
        "it gives a wrong time of expiration",
        _plugin("report(token='T', expirationTimestamp='soon')"),
        REFUSED,
        "wrong time of expiration",
    ),
]
