"""N8: annotations that only the scheduler and the device plugin write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ringwise.state.model import Pod
from ringwise.wellknown import CHIP_RESOURCE_FAMILIES, OWNED_ANNOTATIONS


def owned_in(keys: Iterable[str]) -> tuple[str, ...]:
    """The owned ones among annotation keys, sorted."""
    return tuple(
        sorted(key for key in keys if key in OWNED_ANNOTATIONS or key.startswith(CHIP_RESOURCE_FAMILIES))
    )


def without_stray(pod: Pod) -> Pod:
    """A pod that is not bound, without owned annotations: a user copied them, and they mean nothing."""
    stray = owned_in(pod.annotations) if pod.annotations else ()
    if not stray:
        return pod
    own = {key: value for key, value in pod.annotations.items() if key not in stray}
    return replace(pod, annotations=own, holds=(), mounted=(), stray=tuple(sorted({*pod.stray, *stray})))
