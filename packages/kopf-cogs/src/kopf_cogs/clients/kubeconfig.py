"""Logging in with the kubeconfig files of kubectl, without any other tools.

The files are merged as kubectl does it. The first file that defines a cluster, a user, a context,
or the current context wins. Absent files are skipped. Paths are relative to their files.
Unsupported fields are refused: if they were ignored, there would be obscure errors later.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kopf_cogs.clients import kubefiles, plugins, yamls
from kopf_cogs.structs import credentials

if TYPE_CHECKING:
    from kopf_cogs.configs.settings import OperatorSettings

PRIORITY = 10
"""The priority of these credentials among the credentials of all login methods."""

_RISKY_FIELDS = frozenset(
    {
        "exec",
        "auth-provider",
        "tokenFile",
        "client-certificate",
        "client-key",
        "certificate-authority",
    }
)
"""The fields that make the client run programs, or read files."""


def login_with_kubeconfig(
    *, settings: "OperatorSettings | None" = None, **_: Any
) -> credentials.ConnectionInfo | None:
    """Get the credentials of the current context from the files in ``$KUBECONFIG``.

    If the operator serves several clusters, it is the context with the name of the cluster.
    If it is not set, ``~/.kube/config`` is used; and if there is no such file, it returns ``None``.
    An exec plugin is run if the user of the context needs it, so it can take a minute
    (``settings.networking.plugin_timeout``).
    Raises :class:`LoginError` if the files cannot be used for any reason.
    """
    existing = find_files()
    if not existing:
        return None
    if settings is None:
        return read_kubeconfig(existing)
    networking = settings.networking
    return read_kubeconfig(
        existing,
        context=settings.cluster,
        trust_env=networking.trust_env,
        plugin_timeout=networking.plugin_timeout,
    )


def read_kubeconfig(
    paths: Iterable[pathlib.Path],
    *,
    context: str | None = None,
    trust_env: bool = False,
    plugin_timeout: float = plugins.TIMEOUT,
) -> credentials.ConnectionInfo:
    """Get the credentials of the specified context, or of the current one, from the files."""
    config = kubefiles.KubeFiles()
    for path in paths:
        config.add(path)
    info, plugin = _get_connection(config, context, trust_env=trust_env)
    return dataclasses.replace(plugin, timeout=plugin_timeout).renew(info) if plugin else info


def parse_kubeconfig(
    data: bytes, title: str, *, trust_env: bool = False
) -> credentials.ConnectionInfo:
    """Get the credentials of the current context from the content of a foreign kubeconfig.

    It must name no programs and no files: its author could run and read them with our rights.
    """
    try:
        doc = yamls.load(data)
    except ValueError:  # the error quotes the value, which can be secret
        raise credentials.LoginError("The kubeconfig is neither YAML nor JSON.") from None
    config = kubefiles.KubeFiles()
    config.add_doc(doc, pathlib.Path(title))
    chosen = config.get_context(None)
    for entry in (config.get_cluster(chosen), config.get_user(chosen)):
        for name in sorted(_RISKY_FIELDS & entry.fields.keys()):
            raise entry.fail(f"has {name}, which is not permitted here")
    info, _ = _get_connection(config, None, trust_env=trust_env)
    return info


def _get_connection(
    config: kubefiles.KubeFiles, context: str | None, *, trust_env: bool
) -> tuple[credentials.ConnectionInfo, plugins.ExecPlugin | None]:
    chosen = config.get_context(context)
    cluster = config.get_cluster(chosen)
    user = config.get_user(chosen)
    _check_cluster(cluster)
    _check_user(user)
    token_path = user.get_path("tokenFile")
    info = credentials.ConnectionInfo(
        server=_get_server(cluster, user),
        priority=PRIORITY,
        default_namespace=chosen.get_str("namespace"),
        ca_path=cluster.get_path("certificate-authority"),
        ca_data=cluster.get_data("certificate-authority-data"),
        insecure=cluster.get_bool("insecure-skip-tls-verify"),
        tls_server_name=cluster.get_str("tls-server-name"),
        proxy_url=cluster.get_str("proxy-url"),
        username=user.get_str("username"),
        password=user.get_str("password"),
        token=None if token_path is not None else user.get_str("token"),
        token_path=token_path,  # unlike in other fields, the file is preferred: it can be renewed
        certificate_path=user.get_path("client-certificate"),
        certificate_data=user.get_data("client-certificate-data"),
        private_key_path=user.get_path("client-key"),
        private_key_data=user.get_data("client-key-data"),
        impersonation=_get_impersonation(user),
        trust_env=trust_env,
    )
    return info, _get_plugin(user, cluster, info)


class Target(NamedTuple):
    """The cluster that the kubeconfig means."""

    context: str
    server: str


def find_target(context: str | None = None) -> Target | None:
    """The context (by default, the current one), and the address of its cluster.

    It is ``None`` if there is no kubeconfig.

    Raises :class:`LoginError` if the files cannot be used for any reason.
    """
    config = _read_files()
    if config is None:
        return None
    chosen = config.get_context(context)
    return Target(chosen.name, _get_server(config.get_cluster(chosen), config.get_user(chosen)))


def is_plugin_needed(context: str | None = None) -> bool:
    """Whether the user of the context (by default, the current one) logs in by an exec plugin.

    Raises :class:`LoginError` if the files cannot be used for any reason.
    """
    config = _read_files()
    return config is not None and bool(config.get_user(config.get_context(context)).get("exec"))


def find_namespace(context: str | None = None) -> str | None:
    """The namespace of the context (by default, of the current one), if it names any.

    Raises :class:`LoginError` if the files cannot be used for any reason.
    """
    config = _read_files()
    return None if config is None else config.get_context(context).get_str("namespace")


def _read_files() -> kubefiles.KubeFiles | None:
    config, paths = kubefiles.KubeFiles(), find_files()
    for path in paths:
        config.add(path)
    return config if paths else None


def explain_absence() -> str:
    """The reason why there is no kubeconfig; empty if there is any, even a wrong one."""
    try:
        return "" if find_files() else "$KUBECONFIG is not set, and there is no ~/.kube/config"
    except credentials.LoginError as e:
        return str(e).rstrip(".")


def find_files() -> list[pathlib.Path]:
    """The files of ``$KUBECONFIG``, or the usual one; nothing if there is no such file."""
    variable = os.environ.get("KUBECONFIG", "")
    paths = [pathlib.Path(path).expanduser() for path in variable.split(os.pathsep) if path]
    if not paths:
        try:
            paths = [pathlib.Path("~/.kube/config").expanduser()]
        except RuntimeError:
            return []  # no home directory, as in some containers
    existing = [path for path in paths if path.exists()]
    if variable and not existing:
        raise credentials.LoginError(f"No kubeconfig files exist: $KUBECONFIG is {variable!r}.")
    return existing


def _check_cluster(cluster: kubefiles.Entry) -> None:
    has_ca = cluster.get("certificate-authority") or cluster.get("certificate-authority-data")
    if has_ca and cluster.get_bool("insecure-skip-tls-verify"):
        raise cluster.fail("has both a CA and insecure-skip-tls-verify; it is not clear what to do")


def _check_user(user: kubefiles.Entry) -> None:
    """Refuse the fields that are ambiguous, or are not supported at all."""
    if _has_basic_auth(user) and (user.get("token") or user.get("tokenFile")):
        raise user.fail("has both a password and a token; it is not clear what to use")
    has_cert = user.get("client-certificate") or user.get("client-certificate-data")
    has_key = user.get("client-key") or user.get("client-key-data")
    if has_cert and not has_key:
        raise user.fail("has a client certificate, but no key")
    provider = user.get("auth-provider")
    if provider and user.get("exec"):
        raise user.fail("has both an auth-provider and an exec plugin")
    if provider and not (user.get("token") or user.get("tokenFile") or _has_basic_auth(user)):
        name = provider.get("name") if isinstance(provider, Mapping) else None
        raise user.fail(
            f"needs the auth-provider {name!r}: they are not supported, and are removed from most "
            "tools. Use an exec plugin instead (such as kubelogin or gke-gcloud-auth-plugin)"
        )


def _has_basic_auth(user: kubefiles.Entry) -> bool:
    return bool(user.get("username") or user.get("password"))


def _get_server(cluster: kubefiles.Entry, user: kubefiles.Entry) -> str:
    """The address with its scheme. If it has no scheme, the fields for TLS decide."""
    server = cluster.get_str("server") or ""
    if "://" in server:
        return server
    tls_fields = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify")
    cert_fields = ("client-certificate", "client-certificate-data")
    is_tls = any(cluster.get(field) for field in tls_fields) or any(map(user.get, cert_fields))
    return f"https://{server}" if is_tls else f"http://{server}"


def _get_impersonation(user: kubefiles.Entry) -> credentials.Impersonation | None:
    extra = user.get("as-user-extra") or {}
    if not isinstance(extra, Mapping) or not all(isinstance(key, str) for key in extra):
        raise user.fail("has a wrong as-user-extra")
    values = {
        key: kubefiles.Entry(user.kind, user.name, extra, user.folder).get_strs(key)
        for key in extra
    }
    name, uid, groups = user.get_str("as"), user.get_str("as-uid"), user.get_strs("as-groups")
    if name is None:
        if uid or groups or extra:
            raise user.fail("has as-uid, as-groups, or as-user-extra, but nobody to act as")
        return None
    pairs = tuple((key, value) for key in values for value in values[key])
    result = credentials.Impersonation(user=name, uid=uid, groups=tuple(groups), extra=pairs)
    if not all(value.isprintable() for _, value in result.as_headers()):
        raise user.fail("has control characters in the names to act as")
    return result


def _get_plugin(
    user: kubefiles.Entry, cluster: kubefiles.Entry, info: credentials.ConnectionInfo
) -> plugins.ExecPlugin | None:
    """The exec plugin, unless there is a token or a username already."""
    fields = user.get("exec")
    if not fields or info.token or info.username:
        return None
    if not isinstance(fields, Mapping):
        raise user.fail("has a wrong exec")
    entry = kubefiles.Entry("exec plugin of", user.name, fields, user.folder)
    command, version, mode = map(entry.get_str, ("command", "apiVersion", "interactiveMode"))
    if command is None:
        raise entry.fail("has no command")
    if version not in plugins.VERSIONS:
        raise entry.fail(f"has an unsupported apiVersion: {version!r}; use {plugins.VERSIONS[0]}")
    if mode not in (None, "Never", "IfAvailable"):
        raise entry.fail(f"has interactiveMode: {mode}, but operators have no terminals")
    if os.path.dirname(command):
        command = str(user.folder / command)
    return plugins.ExecPlugin(
        title=f"The kubeconfig's {user.title}",
        command=command,
        api_version=version,
        args=tuple(entry.get_strs("args")),
        env=_get_env(entry),
        install_hint=entry.get_str("installHint"),
        cluster=_describe_cluster(entry, cluster, info),
    )


def _get_env(plugin: kubefiles.Entry) -> tuple[tuple[str, str], ...]:
    items = plugin.get("env") or []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise plugin.fail("has a wrong env")
    entries = [kubefiles.Entry(plugin.kind, plugin.name, item, plugin.folder) for item in items]
    return tuple((entry.get_str("name") or "", entry.get_str("value") or "") for entry in entries)


def _describe_cluster(
    plugin: kubefiles.Entry, cluster: kubefiles.Entry, info: credentials.ConnectionInfo
) -> Mapping[str, Any] | None:
    if not plugin.get_bool("provideClusterInfo"):
        return None
    extensions = cluster.get("extensions") or []
    config = next(
        (
            item.get("extension")
            for item in (extensions if isinstance(extensions, list) else [])
            if isinstance(item, Mapping) and item.get("name") == plugins.EXTENSION
        ),
        None,
    )
    try:
        return plugins.describe_cluster(info, config)
    except ValueError as e:
        raise cluster.fail(f"cannot be described to the exec plugin: {e}") from e
