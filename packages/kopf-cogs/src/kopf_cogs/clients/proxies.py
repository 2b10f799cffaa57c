"""Proxies: which one the requests to a server go through, if any."""

import urllib.request

import yarl

from kopf_cogs.structs import credentials


def find_proxy(info: credentials.ConnectionInfo) -> str | None:
    """The proxy of these credentials, or the proxy of the environment if that is trusted.

    The HTTP client could do the same, but then it would also trust ``~/.netrc``: the passwords
    from that file would replace our tokens.

    Raises :class:`LoginError` if the proxy is unusable.
    """
    url = info.proxy_url
    if not url and info.trust_env:
        url = _find_in_environment(yarl.URL(info.server))
    if not url:
        return None
    scheme = _find_scheme(url)
    if scheme not in ("http", "https"):
        raise credentials.LoginError(
            f"Proxies of type {scheme!r} are not supported, only http and https are; for others, "
            "return kopf.AiohttpSession with a session of your own from a login handler."
        )
    return url


def _find_scheme(url: str) -> str:
    """The scheme of a sensible address. Errors do not quote the address: it can have a password."""
    try:
        parsed = yarl.URL(url)
        is_sensible = parsed.host and (parsed.port or parsed.scheme)  # these are parsed only here
    except ValueError:
        is_sensible = False
    if not is_sensible:
        raise credentials.LoginError("The address of the proxy makes no sense: it is not a URL.")
    return parsed.scheme


def _find_in_environment(server: yarl.URL) -> str | None:
    url = urllib.request.getproxies_environment().get(server.scheme)
    if not url or urllib.request.proxy_bypass(f"{server.host}:{server.port}"):
        return None
    return url if "://" in url else f"http://{url}"
