"""Why no board serves a job, and what can be wrong with switch topologies, SuperPoD ids and rack ids.

Problems of a topology are not problems of a job. They never stop the scheduler: `doctor`
shows them, and so do the reasons of the jobs they concern.
"""

from __future__ import annotations

from ringwise.reasons import SPECIFICATION, ReasonFamily, Stage, Trigger

# --- boards (rule N1) ---------------------------------------------------------

_invalid = ReasonFamily(Stage.VALIDATE, SPECIFICATION)

UNKNOWN_RESOURCE = _invalid(
    "unknown-chip-resource",
    'unknown chip resource "{resource}": must be one of {allowed}',
    "request one of {allowed}",
    "add a board profile for {resource}",
)
VIRTUAL_CHIPS = _invalid(
    "virtual-chips-not-supported",
    "{resource} is a part of a chip (vNPU), which is not supported",
    "request whole chips: {allowed}",
)
POLICY_NOT_SUPPORTED = _invalid(
    "policy-not-supported",
    "schedule_policy {policy} ({what}) is not supported; must be one of {allowed}",
    "use one of {allowed}",
)
UNKNOWN_POLICY = _invalid(
    "unknown-schedule-policy",
    'huawei.com/schedule_policy "{policy}" does not select a board of {resource}; must be one of {allowed}',
    "use one of {allowed}",
)
UNKNOWN_ACCELERATOR_TYPE = _invalid(
    "unknown-accelerator-type",
    'accelerator-type "{type}" does not select a board of {resource}; must be one of {allowed}',
    "use one of {allowed}",
    "select the board with the annotation huawei.com/schedule_policy ({policies})",
)
POLICY_NEEDED = _invalid(
    "schedule-policy-needed",
    "jobs that request {resource} require the annotation huawei.com/schedule_policy: one of {allowed}",
    "set huawei.com/schedule_policy to one of {allowed}",
)
UNKNOWN_STRATEGY = _invalid(
    "unknown-strategy-label",
    "the labels {labels} do not select a board of {resource}; must be one of {allowed}",
    "use {allowed}",
    "remove the labels to get the board {default}",
)

# --- leaf switches (rule S10) --------------------------------------------------

_TOPOLOGY = frozenset({Trigger.TOPOLOGY_CHANGED})
_TOPOLOGY_OR_NODES = frozenset({Trigger.TOPOLOGY_CHANGED, Trigger.NODE_ADDED, Trigger.NODE_CHANGED})


_missing = ReasonFamily(Stage.VALIDATE, _TOPOLOGY | {Trigger.JOB_CHANGED})

TOPOLOGY_MISSING = _missing(
    "switch-topology-missing",
    "the job has the label tor-affinity, but the cluster has no leaf-switch topology ({origin})",
    "create ConfigMap kube-system/basic-tor-node-cm with `ringwise topology import FILE`",
    "remove the label tor-affinity from the job",
)

_invalid_topology = ReasonFamily(Stage.VALIDATE, _TOPOLOGY)

TOPOLOGY_UNREADABLE = _invalid_topology(
    "switch-topology-invalid",
    "invalid leaf-switch topology: {problem}",
    "correct ConfigMap kube-system/basic-tor-node-cm, or create it with `ringwise topology import FILE`",
)
TOPOLOGY_EMPTY = _invalid_topology(
    "switch-topology-empty",
    "{origin} lists no leaf switches",
    "add at least one switch with its servers to server_list of basic-tor-node-cm",
)
NO_NODES_PER_SWITCH = _invalid_topology(
    "switch-tor-count-invalid",
    "{origin}: invalid tor_count {tor_count}: must be at least 1",
    "set tor_count in basic-tor-node-cm to the size of the largest switch (now {largest})",
)
TOO_MANY_SERVERS = _invalid_topology(
    "switch-too-many-servers",
    "{origin}: switch {switch} lists {servers:server}, more than tor_count ({tor_count})",
    "raise tor_count in basic-tor-node-cm to {servers}, or correct the servers of {switch}",
)
SERVER_UNDER_TWO_SWITCHES = _invalid_topology(
    "server-under-two-switches",
    "{origin}: server {server} is listed under switches {switch} and {other}; the first one is used",
    "list server {server} in basic-tor-node-cm once",
)
SWITCH_LISTED_TWICE = _invalid_topology(
    "switch-listed-twice",
    "{origin}: switch {switch} is listed twice (entries {first} and {second}); their servers are merged",
    "list switch {switch} in basic-tor-node-cm once, with all its servers",
)
SWITCH_WITHOUT_SERVERS = _invalid_topology(
    "switch-without-servers",
    "{origin}: switch {switch} lists 0 servers",
    "add the servers of {switch} to basic-tor-node-cm, or remove the switch",
)

_unknown_server = ReasonFamily(Stage.VALIDATE, _TOPOLOGY_OR_NODES)

SERVER_IS_NO_NODE = _unknown_server(
    "server-not-a-node",
    "{origin}: {count} of {total:server} {count:=is not a node|are not nodes} of the cluster: {servers}",
    "set server_ip in basic-tor-node-cm to the InternalIP of the node",
    "add the node to the cluster, or remove the server from basic-tor-node-cm",
)

#: Problems that leave no usable topology: every switch-aware job is refused with them.
FATAL = frozenset(
    {TOPOLOGY_MISSING.code, TOPOLOGY_UNREADABLE.code, TOPOLOGY_EMPTY.code, NO_NODES_PER_SWITCH.code}
)

# --- SuperPoDs (rule P6) -------------------------------------------------------

_SUPERPOD_IDS = frozenset({Trigger.NODE_CHANGED, Trigger.TOPOLOGY_CHANGED, Trigger.CONFIGURATION_CHANGED})

_invalid_superpod = ReasonFamily(Stage.PREDICATE, _SUPERPOD_IDS)

SUPERPOD_ID_MISSING = _invalid_superpod(
    "superpod-id-missing",
    "node {node} does not have a SuperPoD ID",
    "configure the device plugin to report SuperPodID in mindx-dl-deviceinfo-{node}",
    "annotate the node with superPodID, or label it huawei.com/topotree.superpodid",
)

SUPERPOD_NONE = _invalid_superpod(
    "not-in-superpod",
    "node {node} reports that it is not in a SuperPoD (ID {superpod})",
    "no action required if the board is not part of a SuperPoD",
    "check the driver and the cabling of {node} if it belongs to a SuperPoD",
)

SUPERPOD_ID_WRONG = _invalid_superpod(
    "superpod-id-invalid",
    "node {node}: invalid SuperPoD ID {superpod}: must be 0 to {largest}",
    "correct SuperPodID in mindx-dl-deviceinfo-{node} or the annotation superPodID of the node",
)


_oversize = ReasonFamily(Stage.PLAN, _SUPERPOD_IDS)

SUPERPOD_OVERSIZE = _oversize(
    "superpod-oversize",
    "SuperPoD {superpod} has {nodes:{what}}, more than super-pod-size {super_pod_size}",
    "set super-pod-size to at least {nodes}",
    "correct the SuperPoD IDs of nodes that do not belong to SuperPoD {superpod}",
)

# --- racks (rule R1) -----------------------------------------------------------

_RACK_IDS = frozenset({Trigger.NODE_CHANGED, Trigger.TOPOLOGY_CHANGED})

_invalid_rack = ReasonFamily(Stage.PREDICATE, _RACK_IDS)

RACK_ID_MISSING = _invalid_rack(
    "rack-id-missing",
    "node {node} does not have a rack ID",
    "configure the device plugin to report RackID in mindx-dl-deviceinfo-{node}",
    "annotate the node with rackID, or label it huawei.com/topotree.rackid",
)
RACK_ID_WRONG = _invalid_rack(
    "rack-id-invalid",
    "node {node}: invalid rack ID {rack}: must be 0 to {largest}",
    "if it is -1 after a reset of mindx-dl-deviceinfo-{node}, restart the device plugin of the node",
    "correct RackID in mindx-dl-deviceinfo-{node} or the annotation rackID of the node",
)
