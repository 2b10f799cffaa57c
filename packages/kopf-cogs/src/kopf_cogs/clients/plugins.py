"""Logging in with exec plugins: the programs that kubeconfigs name, and that print credentials.

This is how EKS, GKE, AKS, and OIDC log in. Nothing of the plugins' output gets to the logs:
both the printed credentials and the complaints of plugins can be secret.
"""

import asyncio
import base64
import contextlib
import dataclasses
import datetime
import functools
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

from kopf_cogs.aiokits.surroundings import get_clock, get_threads
from kopf_cogs.clients import leashes
from kopf_cogs.structs import credentials

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

TIMEOUT = 60.0
"""How long (in seconds) a plugin may run."""

MAX_OUTPUT = 1024 * 1024
"""How much (in bytes) a plugin may print."""

MAX_HINT = 1024

EXTENSION = "client.authentication.k8s.io/exec"
"""The name of the cluster's extension that is for the plugins."""

INFO_VARIABLE = "KUBERNETES_EXEC_INFO"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program with everything it needs to be run. ``title`` is for the texts of errors."""

    title: str
    command: str
    api_version: str
    args: tuple[str, ...] = dataclasses.field(default=(), repr=False)  # there can be secrets
    env: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)
    install_hint: str | None = None
    cluster: Mapping[str, Any] | None = None
    """The description of the cluster for the plugin, if the plugin wants it."""

    timeout: float = TIMEOUT

    def renew(self, info: credentials.ConnectionInfo) -> credentials.ConnectionInfo:
        """Run the plugin, and put the output of the plugin into the credentials.

        Raises :class:`LoginError` if the plugin gives no credentials for any reason.
        """
        _refuse_event_loop(self.title)
        return dataclasses.replace(info, renewal=self.renew, **self._parse(self._run()))

    def _run(self) -> bytes:
        path = shutil.which(self.command)
        if path is None:
            hint = f" {self.install_hint[:MAX_HINT]}" if self.install_hint else ""
            raise credentials.LoginError(
                f"{self.title} needs {self.command!r}, which is not found.{hint}"
            )
        try:
            with leashes.held(functools.partial(self._start, path), _kill) as process, process:
                try:
                    return self._read(process)
                finally:
                    if process.poll() is None:
                        _kill(process)
        except leashes.LeashPulledError as e:
            raise self._fail("is not run, as the operator exits") from e

    def _start(self, path: str) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                [path, *self.args],
                env={**os.environ, **dict(self.env), INFO_VARIABLE: self._describe()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # a reading thread locks the buffer, so it could not be closed
                start_new_session=True,  # no terminal; and its children are killed with it
            )
        except (OSError, ValueError) as e:
            reason = getattr(e, "strerror", None) or "wrong arguments"
            raise self._fail(f"cannot be run: {reason}") from e

    def _read(self, process: "subprocess.Popen[bytes]") -> bytes:
        """Read in another thread: no other way has a time limit on all systems."""
        output: list[bytes] = []
        is_read = threading.Event()

        def read() -> None:
            _read_limited(process, output)
            is_read.set()

        get_threads().start(read, name="kopf-plugin")
        if not is_read.wait(self.timeout):
            _kill(process)
            is_read.wait(1.0)
            raise self._fail(f"has not finished in {self.timeout:g} seconds")
        if len(output[0]) > MAX_OUTPUT:
            raise self._fail(f"has printed more than {MAX_OUTPUT} bytes")
        try:
            code = process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise self._fail(f"has not finished in {self.timeout:g} seconds") from None
        if code:
            raise self._fail(f"has failed with exit code {code}; run it manually to see why")
        return output[0]

    def _describe(self) -> str:
        """The request for the credentials, for the environment of the plugin."""
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        return json.dumps({"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec})

    def _parse(self, output: bytes) -> dict[str, Any]:
        """Get the fields of the credentials out of the output of the plugin."""
        try:
            doc = json.loads(output)
        except (ValueError, RecursionError):
            raise self._fail("has printed something that is not JSON") from None
        kinds = (doc.get("apiVersion"), doc.get("kind")) if isinstance(doc, Mapping) else None
        if kinds != (self.api_version, "ExecCredential"):
            raise self._fail(f"has not printed an ExecCredential of {self.api_version}")
        status = doc.get("status")
        status = status if isinstance(status, Mapping) else {}
        certificate, key = self._get(status, "clientCertificateData", "clientKeyData")
        token, expiration = self._get(status, "token", "expirationTimestamp")
        if (certificate is None) is not (key is None):
            raise self._fail("has printed a certificate and a key, but not both of them")
        if token is None and certificate is None:
            raise self._fail("has printed neither a token nor a certificate")
        fields = {"token": token, "expiration": self._parse_expiration(expiration)}
        if certificate is not None:
            fields |= {"certificate_data": certificate, "private_key_data": key}
            fields |= {"certificate_path": None, "private_key_path": None}
        return fields

    def _get(self, status: Mapping[str, Any], *keys: str) -> list[str | None]:
        values = [status.get(key) or None for key in keys]
        if not all(value is None or isinstance(value, str) for value in values):
            raise self._fail("has printed credentials of wrong types")
        return values

    def _parse_expiration(self, value: str | None) -> datetime.datetime | None:
        if value is None:
            return None
        try:
            moment = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise self._fail("has printed a wrong time of expiration") from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        if moment <= get_clock().now():
            raise self._fail("has printed credentials that are expired already; check the clocks")
        return moment

    def _fail(self, reason: str) -> credentials.LoginError:
        return credentials.LoginError(f"{self.title}: the plugin {self.command!r} {reason}.")


def describe_cluster(info: credentials.ConnectionInfo, config: Any) -> dict[str, Any]:
    """The description of the cluster for plugins. Raises ``ValueError`` if the CA is unreadable."""
    data = info.ca_data
    if info.ca_path:
        try:
            with open(info.ca_path, "rb") as file:
                data = base64.b64encode(file.read()).decode("ascii")
        except OSError as e:
            raise ValueError(f"the CA cannot be read: {e.strerror}") from e
    fields = {
        "server": info.server,
        "tls-server-name": info.tls_server_name,
        "insecure-skip-tls-verify": bool(info.insecure) or None,
        "certificate-authority-data": data,
        "proxy-url": info.proxy_url,
        "config": config,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _refuse_event_loop(title: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise credentials.LoginError(
        f"{title} needs a plugin to be run, which would block the event loop. Log in from a "
        "regular function, or with `await asyncio.to_thread(kopf.login_with_kubeconfig, ...)`."
    )


def _read_limited(process: "subprocess.Popen[bytes]", output: list[bytes]) -> None:
    data = bytearray()
    with contextlib.suppress(OSError, ValueError):
        while len(data) <= MAX_OUTPUT and process.stdout is not None:
            chunk = process.stdout.read(64 * 1024)
            if not chunk:
                break
            data += chunk
    output.append(bytes(data))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program with all its child processes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
