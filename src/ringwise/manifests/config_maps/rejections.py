"""F5: pods that kubelet rejected at admission, in their status and in that of their vcjob.

The vcjob has those that are made again in `status.controlledResources`, which holds texts by name; clients
look for names of theirs. The text is `pod=times,pod=times`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ringwise.state.failures import MAX_REJECTIONS
from ringwise.topology.numbers import whole_number
from ringwise.wellknown import NO_NPU_RESOURCE, SEGMENT_FAILED

KEY = "kubelet-rejections"


#: Words of kubelets that do not begin the message as later ones do, and how it begins.
_REJECTIONS = frozenset(
    {
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "NodePorts",
        "NodeShutdown",
        "TopologyAffinityError",
        "SMTAlignmentError",
        "Evicted",
    }
)
_OUT_OF_RESOURCE = "OutOf"
_REJECTED = "Pod was rejected"
_MAX_WORD = 64


def rejection(reason: str | None, message: str | None) -> str:
    """Why kubelet rejected a failed pod at admission; empty where it did not.

    The pod has no status of any container: kubelet writes one for each once it has admitted the pod.
    """
    word = reason or ""
    is_listed = word in _REJECTIONS or word.startswith(_OUT_OF_RESOURCE)
    return word[:_MAX_WORD] if word and (is_listed or (message or "").startswith(_REJECTED)) else ""


def allocate_error(message: str | None) -> str:
    """Why the device plugin could not create a vNPU (V16); empty if the message does not say it."""
    return next((word for word in (SEGMENT_FAILED, NO_NPU_RESOURCE) if word in (message or "")), "")


def write_rejections(rejections: Mapping[str, int] | None) -> dict[str, str | None]:
    """None removes the name."""
    if rejections is None:
        return {}
    return {KEY: ",".join(f"{pod}={times}" for pod, times in rejections.items()) or None}


def read_rejections(controlled: Mapping[str, str]) -> dict[str, int]:
    """What cannot be read is left out."""
    result: dict[str, int] = {}
    for entry in controlled.get(KEY, "").split(","):
        pod, _, text = entry.partition("=")
        times = whole_number(text, 1, MAX_REJECTIONS)
        if pod and times is not None:
            result[pod] = times
    return result
