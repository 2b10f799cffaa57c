"""Logging in as other Kubernetes clients do: their authentication methods, but our requests.

This is the only module that imports those clients, and only when their functions are called:
their imports are slow. If they are not installed, the functions return nothing.

The configured libraries remain configured: users can use them in their handlers. With several
clusters, they are not configured: there is one configuration for the whole process.
"""

import importlib
import inspect
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kopf_cogs.clients import incluster
from kopf_cogs.clients.kubeconfig import explain_absence, find_namespace, is_plugin_needed
from kopf_cogs.structs import credentials

if TYPE_CHECKING:
    import logging

    from kopf_cogs.configs.settings import OperatorSettings

    Logger = logging.Logger | logging.LoggerAdapter[Any]

PRIORITY_OF_CLIENT = 10
PRIORITY_OF_PYKUBE = 20

KNOWN_TO_PYKUBE = frozenset({"token", "username", "auth-provider", "client-certificate"})
UNKNOWN_TO_PYKUBE = frozenset({"exec", "tokenFile"})
"""With these fields only, all requests would be anonymous, and so forbidden for ever."""

HEADER_KEYS = ("BearerToken", "authorization")
"""The keys of the header in the client libraries. Only some versions treat them as the same."""


_MODULES = {"pykube": ("pykube",), "kubernetes": ("kubernetes.client", "kubernetes.config")}
"""The modules that the default login handlers import, by the names of the libraries."""


def has_client() -> bool:
    """Whether the official client library is installed."""
    return _is_installed("kubernetes")


def has_pykube() -> bool:
    """Whether the pykube library is installed."""
    return _is_installed("pykube")


def import_clients() -> None:
    """Import the client libraries of the default login handlers, if they are installed."""
    for name in filter(_is_installed, _MODULES):
        _import(name)


def find_broken_clients() -> Iterator[str]:
    """Say which of these clients are installed, but cannot be imported; and why.

    The login functions are silent about that: they return nothing, so that Kopf tries others.
    """
    for name in filter(_is_installed, _MODULES):
        try:
            _import(name)
        except ImportError as e:
            yield f"The library {name!r} is installed, but cannot be imported: {e}."


def _import(name: str) -> None:
    for module in _MODULES[name]:
        importlib.import_module(module)


def _is_installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def login_via_client(
    *, logger: "Logger", settings: "OperatorSettings", **_: Any
) -> credentials.ConnectionInfo | None:
    """Log in with the official client library: ``kubernetes``.

    If the operator serves several clusters, it is the context with the name of the cluster.
    Raises :class:`LoginError` if the library is installed, but cannot log in.
    """
    try:
        import kubernetes.client
        import kubernetes.config
    except ImportError:
        return None
    failures = (kubernetes.config.ConfigException, OSError)
    if settings.cluster is not None:
        config = kubernetes.client.Configuration()
        try:
            kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
                _get_kubeconfig(),
                context=settings.cluster,
                client_configuration=config,
            )
        except failures as e:
            raise _make_context_error("the client library", settings.cluster, e) from e
        return _convert_client_config(config, _find_header(config), settings)
    try:
        kubernetes.config.load_incluster_config()  # type: ignore[no-untyped-call]
        logger.debug("Client is configured in cluster with service account.")
    except failures:
        try:
            kubernetes.config.load_kube_config(_get_kubeconfig())  # type: ignore[no-untyped-call]
            logger.debug("Client is configured via kubeconfig file.")
        except failures as e:
            raise _make_login_error("the client library") from e
    config = kubernetes.client.Configuration.get_default_copy()
    return _convert_client_config(config, _find_header(config), settings)


def _find_header(config: Any) -> str | None:
    return next(filter(None, map(config.get_api_key_with_prefix, HEADER_KEYS)), None)


def _get_kubeconfig() -> str | None:
    """The current value of the variable: the libraries remember its value at their import."""
    return os.environ.get("KUBECONFIG") or None


async def login_via_async_client(
    *, logger: "Logger", settings: "OperatorSettings", **_: Any
) -> credentials.ConnectionInfo | None:
    """Log in with the asynchronous client library: ``kubernetes_asyncio``.

    If it is not installed, the asynchronous part of the official library is used, if any.
    If the operator serves several clusters, it is the context with the name of the cluster.
    Raises :class:`LoginError` if the library is installed, but cannot log in.
    """
    library = _import_async_client()
    if library is None:
        return None
    module, client = library
    if settings.cluster is None:
        await _load_async_config(module, logger)
        config = client.Configuration.get_default_copy()
    else:
        config = client.Configuration()
        try:
            await module.load_kube_config(
                _get_kubeconfig(), context=settings.cluster, client_configuration=config
            )
        except (module.ConfigException, OSError) as e:
            raise _make_context_error("the async client library", settings.cluster, e) from e
    for key in HEADER_KEYS:
        header = config.get_api_key_with_prefix(key)
        if inspect.isawaitable(header):  # in some versions only
            header = await header
        if header:
            break
    return _convert_client_config(config, header, settings)


async def _load_async_config(module: Any, logger: "Logger") -> None:
    failures = (module.ConfigException, OSError)
    try:
        module.load_incluster_config()
        logger.debug("Async client is configured in cluster with service account.")
    except failures:
        try:
            await module.load_kube_config(_get_kubeconfig())
            logger.debug("Async client is configured via kubeconfig file.")
        except failures as e:
            raise _make_login_error("the async client library") from e


def _import_async_client() -> tuple[Any, Any] | None:
    try:
        import kubernetes_asyncio.client
        import kubernetes_asyncio.config

        return kubernetes_asyncio.config, kubernetes_asyncio.client
    except ImportError:
        pass
    try:
        import kubernetes.aio.client
        import kubernetes.aio.config

        return kubernetes.aio.config, kubernetes.aio.client
    except ImportError:
        return None


def _convert_client_config(
    config: Any, header: str | None, settings: "OperatorSettings"
) -> credentials.ConnectionInfo:
    """Both libraries are generated by the same tool, so they have the same configuration."""
    if not (header or config.username or config.cert_file) and is_plugin_needed(settings.cluster):
        raise credentials.LoginError(
            "The exec plugin of the kubeconfig has given no credentials to the client library. "
            "Use kopf.login_with_kubeconfig() in a login handler to see why."
        )
    scheme, _, token = (header or "").partition(" ")
    if not token:
        scheme, token = "", scheme  # either no scheme, or nothing at all
    token_path = incluster.find_token_path(token.strip())
    return credentials.ConnectionInfo(
        server=config.host,
        priority=PRIORITY_OF_CLIENT,
        default_namespace=_find_namespace(token_path, settings),
        ca_path=config.ssl_ca_cert or None,
        insecure=not config.verify_ssl,
        tls_server_name=getattr(config, "tls_server_name", None) or None,
        username=config.username or None,
        password=config.password or None,
        scheme=scheme.capitalize() if scheme.islower() else scheme or None,
        token=token.strip() or None,
        token_path=token_path,
        certificate_path=config.cert_file or None,
        private_key_path=config.key_file or None,
        proxy_url=getattr(config, "proxy", None) or None,
        trust_env=settings.networking.trust_env,
    )


def _find_namespace(token_path: str | None, settings: "OperatorSettings") -> str | None:
    """The namespace of the pod or of the context: the client libraries do not tell it."""
    if token_path is not None:
        return incluster.find_namespace()
    try:
        return find_namespace(settings.cluster)
    except credentials.LoginError:  # the library can be less strict about the files
        return None


def login_via_pykube(
    *, logger: "Logger", settings: "OperatorSettings", **_: Any
) -> credentials.ConnectionInfo | None:
    """Log in with the ``pykube-ng`` library; nothing if it does not understand the kubeconfig.

    If the operator serves several clusters, it is the context with the name of the cluster.
    Raises :class:`LoginError` if the library is installed, but cannot log in.
    """
    try:
        import pykube
    except ImportError:
        return None
    failures = (pykube.PyKubeError, OSError, LookupError)
    config = _load_pykube_config(pykube, failures, logger, settings.cluster)
    user = (config.user or {}).keys()
    if user & UNKNOWN_TO_PYKUBE and not user & KNOWN_TO_PYKUBE:
        logger.warning(
            f"Pykube does not support {', '.join(sorted(user & UNKNOWN_TO_PYKUBE))!r} of the "
            "kubeconfig: use kopf.login_with_kubeconfig() in a login handler."
        )
        return None
    try:
        return _convert_pykube_config(config, settings)
    except failures as e:
        raise _make_login_error("pykube") from e


def _load_pykube_config(
    pykube: Any, failures: tuple[type[Exception], ...], logger: "Logger", context: str | None
) -> Any:
    if context is not None:
        try:
            config = pykube.KubeConfig.from_file()
            config.set_current_context(context)
            config.cluster  # noqa: B018  # an unknown context fails here
        except failures as e:
            raise _make_context_error("pykube", context, e) from e
        return config
    try:
        config = pykube.KubeConfig.from_service_account()
        logger.debug("Pykube is configured in cluster with service account.")
    except failures:
        try:
            config = pykube.KubeConfig.from_file()
            logger.debug("Pykube is configured via kubeconfig file.")
        except failures as e:
            raise _make_login_error("pykube") from e
    return config


def _convert_pykube_config(config: Any, settings: "OperatorSettings") -> credentials.ConnectionInfo:
    cluster, user = config.cluster, config.user or {}
    provider = (user.get("auth-provider") or {}).get("config") or {}
    token = user.get("token") or provider.get("access-token") or provider.get("id-token")
    return credentials.ConnectionInfo(
        server=cluster.get("server"),
        priority=PRIORITY_OF_PYKUBE,
        default_namespace=config.namespace,
        ca_path=_get_filename(cluster.get("certificate-authority")),
        insecure=cluster.get("insecure-skip-tls-verify"),
        tls_server_name=cluster.get("tls-server-name"),
        username=user.get("username"),
        password=user.get("password"),
        token=token,
        token_path=incluster.find_token_path(token),
        certificate_path=_get_filename(user.get("client-certificate")),
        private_key_path=_get_filename(user.get("client-key")),
        proxy_url=cluster.get("proxy-url"),
        trust_env=settings.networking.trust_env,
    )


def _get_filename(source: Any) -> str | None:
    """Pykube writes the data to temporary files when asked for their names."""
    return None if source is None else str(source.filename())


def _make_login_error(title: str) -> credentials.LoginError:
    absence = explain_absence()
    reason = f": {absence}" if absence else ""
    return credentials.LoginError(
        f"Cannot authenticate {title} neither in-cluster, nor via kubeconfig{reason}."
    )


def _make_context_error(title: str, context: str, exc: Exception) -> credentials.LoginError:
    return credentials.LoginError(
        f"Cannot authenticate {title} via the context {context!r} of the kubeconfig: {exc}"
    )
