"""Addresses, networks, and URLs in expressions, as Kubernetes has them."""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Callable
from typing import Any

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
CIDR = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_LINK_LOCAL: dict[int, ipaddress.IPv4Network | ipaddress.IPv6Network] = {
    4: ipaddress.ip_network("224.0.0.0/24"),
    6: ipaddress.ip_network("ff02::/16"),
}


def parse_ip(value: Any) -> IP:
    """The address, or the one of the network. Raises ``ValueError`` if it is not an address."""
    if isinstance(value, ipaddress.IPv4Interface | ipaddress.IPv6Interface):
        return value.ip
    address = ipaddress.ip_address(value)
    if "%" in value or getattr(address, "ipv4_mapped", None):
        raise ValueError(f"unable to parse ip: {value}")
    return address


def parse_cidr(text: str) -> CIDR:
    """The network of the text; raises ``ValueError`` if it is not a network."""
    address, slash, size = text.partition("/")
    parse_ip(address)
    if not slash or not size.isdecimal() or size != str(int(size)):
        raise ValueError(f"unable to parse cidr: {text}")
    return ipaddress.ip_interface(text)


def parse_url(text: str) -> urllib.parse.SplitResult:
    """The parts of an absolute URL or path; raises ``ValueError`` if the text is neither."""
    url = urllib.parse.urlsplit(text)
    if not (url.scheme and (url.netloc or url.path)) and not text.startswith("/"):
        raise ValueError(f"URL parse error during conversion from string: {text}")
    return url


def is_parsed(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    """Whether a text can be parsed."""

    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def contains_ip(network: CIDR, address: IP | str) -> bool:
    return (parse_ip(address) if isinstance(address, str) else address) in network.network


def contains_cidr(network: CIDR, other: CIDR | str) -> bool:
    inner = (parse_cidr(other) if isinstance(other, str) else other).network
    return inner.version == network.version and (
        inner.prefixlen >= network.network.prefixlen and inner.network_address in network.network
    )


def is_canonical(text: str) -> bool:
    return str(parse_ip(text)) == text


def get_host(url: urllib.parse.SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def get_query(url: urllib.parse.SplitResult) -> dict[str, list[str]]:
    return urllib.parse.parse_qs(url.query, keep_blank_values=True)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ip": parse_ip,
    "isIP": is_parsed(parse_ip),
    "ip.isCanonical": is_canonical,
    "cidr": parse_cidr,
    "isCIDR": is_parsed(parse_cidr),
    "url": parse_url,
    "isURL": is_parsed(parse_url),
}
METHODS: dict[str, Callable[..., Any]] = {
    "ip": parse_ip,
    "family": lambda address: address.version,
    "isUnspecified": lambda address: address.is_unspecified,
    "isLoopback": lambda address: address.is_loopback,
    "isLinkLocalMulticast": lambda address: address in _LINK_LOCAL[address.version],
    "isLinkLocalUnicast": lambda address: address.is_link_local,
    "containsIP": contains_ip,
    "containsCIDR": contains_cidr,
    "masked": lambda cidr: ipaddress.ip_interface(str(cidr.network)),
    "prefixLength": lambda cidr: cidr.network.prefixlen,
    "getScheme": lambda url: url.scheme,
    "getHost": get_host,
    "getHostname": lambda url: (
        get_host(url).rpartition(":")[0].strip("[]")
        if url.port is not None
        else get_host(url).strip("[]")
    ),
    "getPort": lambda url: "" if url.port is None else str(url.port),
    "getEscapedPath": lambda url: url.path,
    "getQuery": get_query,
}
