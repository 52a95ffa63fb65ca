"""The version of the API server."""

from __future__ import annotations

import msgspec

from ringwise.kubeclient.client import ApiError, Client


class _ServerVersion(msgspec.Struct):
    minor: str = ""


async def server_minor_version(client: Client) -> int | None:
    """Return the second number of the version, 30 for Kubernetes 1.30; None if it is not known."""
    try:
        answer = await client.request("GET", "/version")
        minor = msgspec.json.decode(answer, type=_ServerVersion).minor
    except (ApiError, msgspec.MsgspecError):
        return None
    # Distributions write 30+.
    digits = "".join(character for character in minor if character in "0123456789")
    return int(digits[:6]) if digits else None
