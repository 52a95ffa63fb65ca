"""What can be wrong with the SuperPoDs themselves, before any job is looked at."""

from __future__ import annotations

from ringwise.reasons import ReasonKind, Stage, Trigger

_TOPOLOGY = frozenset({Trigger.NODE_CHANGED, Trigger.TOPOLOGY_CHANGED, Trigger.CONFIGURATION_CHANGED})

SUPERPOD_ID_MISSING = ReasonKind(
    "superpod-id-missing",
    Stage.PREDICATE,
    "node {node} has no SuperPoD id",
    (
        "let the device plugin report SuperPodID in mindx-dl-deviceinfo-{node}",
        "annotate the node with superPodID, or label it huawei.com/topotree.superpodid",
    ),
    _TOPOLOGY,
)

SUPERPOD_ID_WRONG = ReasonKind(
    "superpod-id-wrong",
    Stage.PREDICATE,
    "node {node} has SuperPoD id {superpod}; allowed are the numbers 0 to {largest}",
    (
        "-1 and -2 come from the driver when it knows no SuperPoD: check driver and cabling of the node",
        "correct SuperPodID in mindx-dl-deviceinfo-{node} or the node's annotation superPodID",
    ),
    _TOPOLOGY,
)

SUPERPOD_OVERSIZE = ReasonKind(
    "superpod-oversize",
    Stage.PLAN,
    "SuperPoD {superpod} has {nodes} {what}, more than super-pod-size {super_pod_size}",
    (
        "set super-pod-size to at least {nodes}",
        "correct the SuperPoD ids of nodes that do not belong to SuperPoD {superpod}",
    ),
    _TOPOLOGY,
)
