"""Names and addresses of the machine itself; apart from the web framework, which takes long to import."""

from __future__ import annotations

import ipaddress

LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain"})


def is_address(name: str) -> bool:
    """An address cannot be made to point elsewhere."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server that listens there."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
