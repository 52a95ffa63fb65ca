"""The end of pods on simulated nodes."""

from __future__ import annotations

from ringwise_bench.control_plane import ApiAnswer, ControlPlane
from tests.cluster.recorder import Change, Watch


class PodRemover:
    """Removes terminating pods whose containers have ended, as kubelets do: by name and UID.

    kwok deletes by name alone. If it is late, that is already the name of the next pod.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        Watch(plane, "/api/v1/pods", self._look_at)

    def _look_at(self, change: Change) -> None:
        pod = change.object
        node, phase = pod["spec"].get("nodeName"), pod["status"].get("phase")
        if change.type == "DELETED" or not change.terminates or not node or phase == "Running":
            return
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": change.uid}}
        try:
            # Without its node no kubelet is there.
            self._plane.admin.get(f"/api/v1/nodes/{node}")
            self._plane.admin.delete(f"/api/v1/namespaces/{change.namespace}/pods/{change.name}", options)
        except ApiAnswer as answer:
            if answer.status not in (404, 409):
                raise
