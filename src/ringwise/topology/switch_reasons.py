"""What can be wrong with a leaf-switch topology.

These are problems of the ConfigMap, not of a job. They never stop the scheduler:
they are shown by `doctor` and beside the reason of the jobs they concern.
"""

from __future__ import annotations

from ringwise.reasons import ReasonKind, Stage, Trigger

_TOPOLOGY = frozenset({Trigger.TOPOLOGY_CHANGED})
_TOPOLOGY_OR_NODES = frozenset({Trigger.TOPOLOGY_CHANGED, Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

TOPOLOGY_MISSING = ReasonKind(
    "switch-topology-missing",
    Stage.VALIDATE,
    "the job has the label tor-affinity, but the cluster has no leaf-switch topology ({origin})",
    (
        "create ConfigMap kube-system/basic-tor-node-cm: `ringwise topology import FILE` writes it",
        "remove the label tor-affinity from the job",
    ),
    _TOPOLOGY | {Trigger.JOB_CHANGED},
)
TOPOLOGY_UNREADABLE = ReasonKind(
    "switch-topology-unreadable",
    Stage.VALIDATE,
    "the leaf-switch topology cannot be read: {problem}",
    ("mend ConfigMap kube-system/basic-tor-node-cm: `ringwise topology import FILE` writes it anew",),
    _TOPOLOGY,
)
TOPOLOGY_EMPTY = ReasonKind(
    "switch-topology-empty",
    Stage.VALIDATE,
    "{origin} lists no leaf switch",
    ("put at least one switch with its servers into server_list of basic-tor-node-cm",),
    _TOPOLOGY,
)
NO_NODES_PER_SWITCH = ReasonKind(
    "switch-tor-count-invalid",
    Stage.VALIDATE,
    "{origin}: tor_count is {tor_count}; it is the number of nodes per leaf switch and must be at least 1",
    ("set tor_count in basic-tor-node-cm; the largest switch listed has {largest} servers",),
    _TOPOLOGY,
)
TOO_MANY_SERVERS = ReasonKind(
    "switch-too-many-servers",
    Stage.VALIDATE,
    "{origin}: switch {switch} lists {servers} servers, but tor_count is {tor_count}",
    ("raise tor_count in basic-tor-node-cm to {servers}, or correct the servers of {switch}",),
    _TOPOLOGY,
)
SERVER_UNDER_TWO_SWITCHES = ReasonKind(
    "server-under-two-switches",
    Stage.VALIDATE,
    "{origin}: server {server} is listed under switch {switch} and again under {other}; "
    "only the first counts",
    ("list server {server} in basic-tor-node-cm once",),
    _TOPOLOGY,
)
SWITCH_LISTED_TWICE = ReasonKind(
    "switch-listed-twice",
    Stage.VALIDATE,
    "{origin}: switch {switch} is listed as entry {first} and again as entry {second}; "
    "their servers count as one switch",
    ("list switch {switch} in basic-tor-node-cm once, with all its servers",),
    _TOPOLOGY,
)
SWITCH_WITHOUT_SERVERS = ReasonKind(
    "switch-without-servers",
    Stage.VALIDATE,
    "{origin}: switch {switch} lists 0 servers",
    ("list the servers of {switch} in basic-tor-node-cm, or remove the switch",),
    _TOPOLOGY,
)
SERVER_IS_NO_NODE = ReasonKind(
    "server-is-no-node",
    Stage.VALIDATE,
    "{origin}: {count} of {total} servers are no nodes of the cluster: {servers}",
    (
        "make server_ip in basic-tor-node-cm equal to the InternalIP of the node",
        "add the node to the cluster, or remove the server from basic-tor-node-cm",
    ),
    _TOPOLOGY_OR_NODES,
)

#: Problems that leave no usable topology: every switch-aware job is refused with them.
FATAL = frozenset(
    {TOPOLOGY_MISSING.code, TOPOLOGY_UNREADABLE.code, TOPOLOGY_EMPTY.code, NO_NODES_PER_SWITCH.code}
)
