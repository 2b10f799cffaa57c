"""
Logging in with kubeconfig files: the same that kubectl uses, but with no other tools needed.

The files are merged as kubectl does it: the first file to define a cluster, a user, a context,
or the current context, wins; absent files are skipped; paths are relative to their files.
What is not supported is refused, not ignored: otherwise, it ends up with obscure errors later.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kopf_cogs.clients import yamls
from kopf_cogs.structs import credentials

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings

PRIORITY = 10
"""The priority of these credentials among those of other login methods."""

_UNSUPPORTED = {
    "exec": "exec plugins",
    "as": "impersonation",
    "as-uid": "impersonation",
    "as-groups": "impersonation",
    "as-user-extra": "impersonation",
}


def login_with_kubeconfig(
    *, settings: "OperatorSettings | None" = None, **_: Any
) -> credentials.ConnectionInfo | None:
    """
    Get the credentials of the current context from the files in ``$KUBECONFIG``.

    If it is not set, ``~/.kube/config`` is used; and if there is no such file, it returns ``None``.
    Raises :class:`LoginError` if the files cannot be used for any reason.
    """
    variable = os.environ.get("KUBECONFIG", "")
    paths = [pathlib.Path(path).expanduser() for path in variable.split(os.pathsep) if path]
    if not paths:
        try:
            paths = [pathlib.Path("~/.kube/config").expanduser()]
        except RuntimeError:
            return None  # no home directory, as in some containers
    existing = [path for path in paths if path.exists()]
    if not existing:
        if not variable:
            return None
        raise credentials.LoginError(f"No kubeconfig files exist: $KUBECONFIG is {variable!r}.")
    trust_env = settings is not None and settings.networking.trust_env
    return read_kubeconfig(existing, trust_env=trust_env)


def read_kubeconfig(
    paths: Iterable[pathlib.Path], *, context: str | None = None, trust_env: bool = False
) -> credentials.ConnectionInfo:
    """Get the credentials of the specified context, or of the current one, from the files."""
    config = _Config()
    for path in paths:
        config.add(path, _read(path))
    chosen = config.get_context(context)
    cluster = config.get_cluster(chosen)
    user = config.get_user(chosen)
    for field, title in _UNSUPPORTED.items():
        if user.get(field):
            raise credentials.LoginError(
                f"The kubeconfig's {user.title} needs {title}, which are not supported. "
                f"Use the login handlers or the client libraries instead."
            )
    return credentials.ConnectionInfo(
        server=cluster.get_str("server") or "",
        priority=PRIORITY,
        default_namespace=chosen.get_str("namespace"),
        ca_path=cluster.get_path("certificate-authority"),
        ca_data=cluster.get_str("certificate-authority-data"),
        insecure=cluster.get("insecure-skip-tls-verify"),
        tls_server_name=cluster.get_str("tls-server-name"),
        proxy_url=cluster.get_str("proxy-url"),
        username=user.get_str("username"),
        password=user.get_str("password"),
        token=_read_token(user),
        certificate_path=user.get_path("client-certificate"),
        certificate_data=user.get_str("client-certificate-data"),
        private_key_path=user.get_path("client-key"),
        private_key_data=user.get_str("client-key-data"),
        trust_env=trust_env,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """A named entry of a kubeconfig, which remembers the file it came from."""

    kind: str
    name: str
    fields: Mapping[str, Any]
    folder: pathlib.Path

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name!r}"

    def get(self, field: str) -> Any:
        return self.fields.get(field)

    def get_str(self, field: str) -> str | None:
        value = self.fields.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise credentials.LoginError(f"The kubeconfig's {self.title} has a wrong {field}.")
        return value

    def get_path(self, field: str) -> str | None:
        """The path to a file. The data are used instead of the file if both are present."""
        value = self.get_str(field)
        if value is None or self.fields.get(f"{field}-data"):
            return None
        return str(self.folder / pathlib.Path(value))


class _Config:
    """Several files as one."""

    def __init__(self) -> None:
        super().__init__()
        self._current: str | None = None
        self._entries: dict[tuple[str, str], _Entry] = {}

    def add(self, path: pathlib.Path, doc: Any) -> None:
        if doc is None:
            return
        if not isinstance(doc, Mapping):
            raise credentials.LoginError(f"The kubeconfig is not a mapping: {str(path)!r}.")
        self._current = self._current or doc.get("current-context") or None
        for kind in ("cluster", "user", "context"):
            items = doc.get(f"{kind}s") or []
            if not isinstance(items, list):
                raise credentials.LoginError(f"The kubeconfig's {kind}s are wrong: {str(path)!r}.")
            for item in items:
                self._add_entry(kind, item, path)

    def _add_entry(self, kind: str, item: Any, path: pathlib.Path) -> None:
        fields = (item.get(kind) or {}) if isinstance(item, Mapping) else None
        if not isinstance(fields, Mapping) or not isinstance(item.get("name"), str):
            raise credentials.LoginError(f"The kubeconfig has a wrong {kind}: {str(path)!r}.")
        entry = _Entry(kind, item["name"], fields, path.absolute().parent)
        self._entries.setdefault((kind, entry.name), entry)

    def get_context(self, name: str | None) -> _Entry:
        name = name or self._current
        if name is None:
            raise credentials.LoginError("The current context is not set in the kubeconfig.")
        return self._get("context", name)

    def get_cluster(self, context: _Entry) -> _Entry:
        entry = self._get("cluster", context.get_str("cluster") or "")
        if not entry.get_str("server"):
            raise credentials.LoginError(f"The kubeconfig's {entry.title} has no server.")
        return entry

    def get_user(self, context: _Entry) -> _Entry:
        name = context.get_str("user")
        return self._get("user", name) if name else _Entry("user", "", {}, context.folder)

    def _get(self, kind: str, name: str) -> _Entry:
        try:
            return self._entries[kind, name]
        except KeyError:
            raise credentials.LoginError(
                f"There is no {kind} {name!r} in the kubeconfig."
            ) from None


def _read(path: pathlib.Path) -> Any:
    try:
        return yamls.load(path.read_bytes())
    except OSError as e:
        raise credentials.LoginError(
            f"The kubeconfig cannot be read: {str(path)!r}: {e.strerror}."
        ) from e
    except ValueError as e:
        raise credentials.LoginError(f"The kubeconfig is not valid: {str(path)!r}: {e}") from e


def _read_token(user: _Entry) -> str | None:
    """Unlike in other fields, the file is preferred over the data: the file can be renewed."""
    path = user.get_path("tokenFile")
    if path is not None:
        return read_token_file(path)
    provider = user.get("auth-provider")
    config = provider.get("config") if isinstance(provider, Mapping) else None
    token = config.get("access-token") if isinstance(config, Mapping) else None
    if provider and not token:
        raise credentials.LoginError(
            f"The kubeconfig's {user.title} needs an auth provider, which are not supported."
        )
    return user.get_str("token") or token


def read_token_file(path: str) -> str:
    """Read the token. The file can be briefly empty when it is being renewed: this is an error."""
    try:
        token = pathlib.Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise credentials.LoginError(f"The token cannot be read from {path!r}: {e}") from e
    if not token:
        raise credentials.LoginError(f"The token file is empty: {path!r}.")
    return token
