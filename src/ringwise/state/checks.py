"""Looking at the whole state at once: for doctors, never for decisions."""

from __future__ import annotations

from ringwise.state.cluster import ClusterState


def double_claims(state: ClusterState) -> list[tuple[str, str, int, tuple[str, ...]]]:
    """Chips that two live pods name: (node, resource, chip, pods). Empty in a sane cluster."""
    found = []
    for resource, fleet in state.fleets.items():
        for number, chip in sorted(fleet.extra_claims):
            bit = 1 << chip
            pods = tuple(
                state.pods[uid].pod.key
                for uid in sorted(state.pods_on[number])
                if state.pods[uid].chips & bit and state.pods[uid].pod.cls.resource == resource
            )
            found.append((state.names[number], resource, chip, pods))
    return found
