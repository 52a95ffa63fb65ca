"""References of images."""

from __future__ import annotations

import re

#: Registry and port, path, tag, digest: what a container runtime accepts.
_REFERENCE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


def is_image_reference(text: str) -> bool:
    """Whether a container runtime could pull it: `registry:5000/path/name:tag@sha256:...`"""
    return len(text) <= 512 and _REFERENCE.fullmatch(text) is not None
