"""Proxies: which one the requests to a server go through, if any."""

import urllib.request

import yarl

from kopf_cogs.structs import credentials


def find_proxy(info: credentials.ConnectionInfo) -> str | None:
    """The proxy of these credentials, or that of the environment if it is trusted.

    The HTTP client could do the same, but it trusts ``~/.netrc`` then, too: the passwords of
    there would replace our tokens.

    Raises :class:`LoginError` if the proxy is of an unsupported type.
    """
    url = info.proxy_url
    if not url and info.trust_env:
        url = _find_in_environment(yarl.URL(info.server))
    if not url:
        return None
    scheme = url.partition("://")[0]
    if scheme not in ("http", "https"):
        raise credentials.LoginError(
            f"Proxies of type {scheme!r} are not supported, only http and https are; for others, "
            "return kopf.AiohttpSession with a session of your own from a login handler."
        )
    return url


def _find_in_environment(server: yarl.URL) -> str | None:
    url = urllib.request.getproxies_environment().get(server.scheme)
    if not url or urllib.request.proxy_bypass(f"{server.host}:{server.port}"):
        return None
    return url if "://" in url else f"http://{url}"
