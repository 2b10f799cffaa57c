"""The door of the sandbox: open to the tools of this machine, but not to web pages of its user.

The sandbox needs no credentials. Browsers send requests to any address that a page names: even to
loopback addresses, and to names that the owner of the page makes lead there.
"""

from __future__ import annotations

import functools
import ipaddress
import urllib.parse
from collections.abc import Mapping

from kopf_kits.sandbox.base.statuses import StatusError, unsupported_media

from .calls import ACCEPTED

_SITES = ("none", "same-origin")
"""The sites of browsers' fetches: the user typed the URL, or a page of the sandbox made it."""


def check_headers(headers: Mapping[str, str], *, has_body: bool) -> None:
    """Raise :class:`StatusError` if a request with these headers is not let in."""
    if not is_loopback_host(headers.get("Host", "")):
        raise _refusal("the Host must be a loopback address, such as 127.0.0.1 or localhost")
    if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") not in _SITES:
        raise _refusal("web pages may not use it")
    if has_body and is_browser(headers) and not headers.get("Content-Type", ""):
        raise unsupported_media(ACCEPTED)  # browsers send untyped bodies without a preflight


def is_browser(headers: Mapping[str, str]) -> bool:
    """Whether a browser has sent the request; other tools, e.g. pykube, send no types, too."""
    agent = headers.get("User-Agent", "")
    return agent.startswith("Mozilla/") or any(name.startswith("Sec-Fetch-") for name in headers)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine only, be it a name or an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@functools.lru_cache(maxsize=100)
def is_loopback_host(header: str) -> bool:
    """Whether the ``Host`` header, maybe with a port, names this machine only."""
    try:
        return is_loopback(urllib.parse.urlsplit(f"//{header}").hostname or "")
    except ValueError:
        return False


def _refusal(reason: str) -> StatusError:
    return StatusError(403, "Forbidden", f"The sandbox refuses the request: {reason}.")
