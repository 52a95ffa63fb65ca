"""Why placement refuses a job, or why it waits: chips of a board, leaf switches, SuperPoDs."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonKind, Stage, Trigger

_CHIPS_CHANGE = frozenset(
    {Trigger.CHIPS_FREED, Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED, Trigger.JOB_ENDED}
)
_NODE_CORRECTED = frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED})

# --- boards: the job as a whole -------------------------------------------------

REQUEST_NOT_ALLOWED = ReasonKind(
    "request-not-allowed",
    Stage.VALIDATE,
    "a pod asks for {request} chips; {board} allows {allowed} per pod in a job of {pods}",
    cures=("ask for one of {allowed} chips in each pod",),
    cured_by=SPECIFICATION,
)
MULTI_POD_REQUEST_NOT_ALLOWED = ReasonKind(
    "multi-pod-request-not-allowed",
    Stage.VALIDATE,
    "{pods} pods ask for {requests} chips; on {board} each pod of a multi-pod job must ask for {allowed}",
    cures=(
        "ask for {allowed} chips in each pod",
        "put the chips into one pod, which may ask for {one_pod}",
        "set multi-pod-requests: vendor to allow {field} chips in each pod",
    ),
    cured_by=SPECIFICATION,
)
ONE_POD_ONLY = ReasonKind(
    "one-pod-only",
    Stage.VALIDATE,
    "{pods} pods ask for chips; on {board} at most one pod of a job may",
    cures=("put all chips into one pod, which may ask for {one_pod}", "split the job into one-pod jobs"),
    cured_by=SPECIFICATION,
)
NO_CHIPS_ASKED = ReasonKind(
    "no-chips-asked",
    Stage.VALIDATE,
    "no pod of the job asks for a chip, but it selects {board}, where a pod asks for {allowed}",
    cures=("ask for {allowed} chips", "remove the chip resource from the job"),
    cured_by=SPECIFICATION,
)
POD_WITHOUT_CHIPS = ReasonKind(
    "pod-without-chips",
    Stage.VALIDATE,
    "{without} of {pods} pods ask for no chip, which on {board} only exempt pods may",
    cures=(
        "annotate those pods with volcano.sh/task-spec: scheduler or huawei.com/skip-ascend-plugin: enabled",
        "ask for {allowed} chips in each pod",
    ),
    cured_by=SPECIFICATION,
)
TOTAL_NOT_ALLOWED = ReasonKind(
    "total-not-allowed",
    Stage.VALIDATE,
    "the job asks for {total} chips in all; on {board} that must be 1 or a multiple of {multiple}",
    cures=("ask for {lower} or {higher} chips in all",),
    cured_by=SPECIFICATION,
)
AVERAGE_TOO_LARGE = ReasonKind(
    "average-too-large",
    Stage.VALIDATE,
    "the job asks for {total} chips for {pods} pods, on average {average} each; {board} has {chips} per node",
    cures=("ask for at most {most} chips in all, or spread them over more pods",),
    cured_by=SPECIFICATION,
)

# --- boards: one node -----------------------------------------------------------

NOT_ENOUGH_FREE_CHIPS = ReasonKind(
    "not-enough-free-chips",
    Stage.PREDICATE,
    "{request} chips are asked for and {free} are free",
    cures=("{missing} more chips must become free on the node",),
    cured_by=_CHIPS_CHANGE,
)
NO_RING_HOLDS_REQUEST = ReasonKind(
    "no-ring-holds-request",
    Stage.PREDICATE,
    "{request} chips must come from one {ring}; free per {ring}: {rings}; the best lacks {missing}",
    cures=("{missing} more chips must become free in one {ring}",),
    cured_by=_CHIPS_CHANGE,
)
RING_TOO_SMALL = ReasonKind(
    "request-larger-than-ring",
    Stage.PREDICATE,
    "{request} chips must come from one {ring}, and a {ring} of {board} has {size}",
    cures=("ask for at most {size} chips in each pod", "use a board that lets a pod cross {ring}s"),
    cured_by=SPECIFICATION,
)
REQUEST_HAS_NO_PLACE = ReasonKind(
    "request-has-no-place",
    Stage.PREDICATE,
    "no node of {board} can give {request} chips to one pod; a pod may ask for {allowed}",
    cures=("ask for one of {allowed} chips",),
    cured_by=SPECIFICATION,
)
NODE_NOT_WHOLLY_FREE = ReasonKind(
    "node-not-wholly-free",
    Stage.PREDICATE,
    "all {request} chips of the node are asked for and {free} are free",
    cures=("{missing} more chips must become free on the node",),
    cured_by=_CHIPS_CHANGE,
)
NOT_ENOUGH_WHOLE_RINGS = ReasonKind(
    "not-enough-whole-rings",
    Stage.PREDICATE,
    "{request} chips need {needed} completely free {ring}s and {whole} are; {free} chips are free in all",
    cures=("{missing} more {ring}s must become completely free",),
    cured_by=_CHIPS_CHANGE,
)
NOT_ENOUGH_PAIRS = ReasonKind(
    "not-enough-pairs-across-rings",
    Stage.PREDICATE,
    "{request} chips need {needed} pairs, one chip of each ring ({positions}); "
    "there are {pairs}; free per ring: {rings}",
    cures=("{missing} more pairs must become free",),
    cured_by=_CHIPS_CHANGE,
)
MORE_CHIPS_THAN_BOARD = ReasonKind(
    "more-chips-than-board",
    Stage.PREDICATE,
    "the node lists {free} free chips, more than the {chips} a node of {board} has",
    cures=(
        "choose the board that this node has (huawei.com/schedule_policy or accelerator-type)",
        "check the node's chip list",
    ),
    cured_by=_NODE_CORRECTED | SPECIFICATION,
)
NETWORK_KEY_MISSING = ReasonKind(
    "network-health-unknown",
    Stage.PREDICATE,
    "the node does not publish the network health of its chips, which a job of several pods needs",
    cures=("publish the NetworkUnhealthy key in the node's device-info ConfigMap; an empty list is enough",),
    cured_by=_NODE_CORRECTED,
)
NODE_LABEL_MISSING = ReasonKind(
    "node-label-missing",
    Stage.PREDICATE,
    "{board} needs the node label {label}={value}; the node has {found}",
    cures=("label the node {label}={value} if it has these cards",),
    cured_by=frozenset({Trigger.NODE_CHANGED}),
)

# --- leaf switches ---------------------------------------------------------------

_SWITCH_CAPACITY = CAPACITY | {Trigger.TOPOLOGY_CHANGED}

LABEL_UNKNOWN = ReasonKind(
    "switch-label-unknown",
    Stage.VALIDATE,
    'the label tor-affinity is "{value}"; allowed are large-model-schema, normal-schema and null',
    ("set tor-affinity to large-model-schema or normal-schema, or remove the label",),
    SPECIFICATION,
)
ONE_SWITCH_TOO_SMALL = ReasonKind(
    "one-switch-too-small",
    Stage.PLAN,
    "a {job_class} job stays under one leaf switch: it needs {pods} free nodes under one switch; "
    "the best, {best}, has {best_free}",
    ("a job of at most {best_free} pods would fit now",),
    _SWITCH_CAPACITY,
)
SHARED_LIMIT = ReasonKind(
    "switches-too-full",
    Stage.PLAN,
    "needs {pods} nodes: idle switches give {idle}, the remaining {left} may go under at most {limit} "
    "shared switch(es), and the best allowed ({best}) hold {best_free}; {missing} short",
    ("a job of at most {largest} pods would be placed now",),
    _SWITCH_CAPACITY,
)
COMMON_FULL = ReasonKind(
    "switches-full-for-common-job",
    Stage.PLAN,
    "needs {pods} nodes: the rules for foundation models give {foundation}, the common job's fallback "
    "{fallback} (idle switches {idle}, unhealthy shared ones {unhealthy}, healthy shared ones without a "
    "foundation-model job {healthy}); {missing} short",
    ("a job of at most {largest} pods would be placed now",),
    _SWITCH_CAPACITY,
)
ROWS_TOO_FEW = ReasonKind(
    "logical-switches-too-few",
    Stage.PLAN,
    "needs {pods} nodes: the largest idle switch, {best}, has {best_free} free; {complete} complete "
    "switches of {width} nodes hold {complete_nodes}; logical switches hold {logical_nodes}",
    ("a job of at most {largest} pods would be placed now",),
    _SWITCH_CAPACITY,
)
LEFTOVER_TOO_SMALL = ReasonKind(
    "leftover-too-small",
    Stage.PLAN,
    "needs {pods} nodes: idle switches have {idle} free, others without a cross-switch foundation-model "
    "job {others}; {missing} short",
    ("a job of at most {largest} pods would be placed now",),
    _SWITCH_CAPACITY,
)
PEERS_SWITCH_FULL = ReasonKind(
    "peers-switch-full",
    Stage.PLAN,
    "{failed} failed pod(s) of a job that stays under one leaf switch must return to {switch}, "
    "which has {free} free nodes",
    ("free {missing} node(s) under {switch}, or repair the failed ones",),
    _SWITCH_CAPACITY,
)
PEERS_OUTSIDE = ReasonKind(
    "peers-outside-topology",
    Stage.PLAN,
    "{failed} failed pod(s) must return to the leaf switch of their peers, but the {survivors} running "
    "pod(s) are under {switches} switches",
    (
        "add the nodes of the running pods to basic-tor-node-cm",
        "delete the job's pods, so that the whole job is placed anew",
    ),
    _SWITCH_CAPACITY | {Trigger.JOB_CHANGED},
)
REPLACEMENT_LIMIT = ReasonKind(
    "replacement-over-limit",
    Stage.PLAN,
    "{failed} failed pod(s): the job's own switches have {own} free nodes, and of {limit} shared switches "
    "allowed it uses {used}; the remaining {left} find no switch (best allowed: {best} with {best_free})",
    (
        "free {left} node(s) under the job's own switches ({switches}), or repair the failed ones",
        "raise shared-tor-num where it is 1",
    ),
    _SWITCH_CAPACITY | {Trigger.CONFIGURATION_CHANGED},
)
REPLACEMENT_POSITION = ReasonKind(
    "replacement-position-taken",
    Stage.PLAN,
    "no replacement for rank {rank}: it needs a free node at position {positions} under the job's own "
    "switches or under an idle one",
    ("free a node at such a position, or repair the failed one",),
    _SWITCH_CAPACITY,
)

# --- SuperPoDs: the job itself --------------------------------------------------

SP_BLOCK_NOT_A_NUMBER = ReasonKind(
    "sp-block-not-a-number",
    Stage.VALIDATE,
    'sp-block is "{sp_block}"; allowed is a whole number of chips above 0',
    ('write sp-block as a multiple of the {chips_per_node} chips of a node, for example "{example}"',),
    SPECIFICATION,
)
SP_BLOCK_NOT_POSITIVE = ReasonKind(
    "sp-block-not-positive",
    Stage.VALIDATE,
    "sp-block is {sp_block}; allowed is a whole number of chips above 0",
    (
        'write sp-block as a multiple of the {chips_per_node} chips of a node, for example "{example}"',
        "remove sp-block: then the whole job of {total} chips is one block",
    ),
    SPECIFICATION,
)
SP_BLOCK_BELOW_NODE = ReasonKind(
    "sp-block-below-node",
    Stage.VALIDATE,
    "sp-block is {sp_block} chips, less than the {chips_per_node} of a node, and the job asks for {total}; "
    "a block smaller than a node must be the whole job",
    ('set sp-block to "{total}" for a one-pod job, or to a multiple of {chips_per_node}',),
    SPECIFICATION,
)
SP_BLOCK_NOT_WHOLE_NODES = ReasonKind(
    "sp-block-not-whole-nodes",
    Stage.VALIDATE,
    "sp-block is {sp_block} chips, which is no multiple of the {chips_per_node} of a node",
    ('set sp-block to "{below}" or "{above}"',),
    SPECIFICATION,
)
SP_BLOCK_ABOVE_SUPERPOD = ReasonKind(
    "sp-block-above-superpod",
    Stage.VALIDATE,
    "sp-block is {sp_block} chips = {block_nodes} nodes, "
    "more than the {super_pod_size} of a SuperPoD (super-pod-size)",
    (
        'set sp-block to at most "{largest}"',
        "correct super-pod-size if the SuperPoDs are larger",
    ),
    SPECIFICATION,
)
ONE_POD_REQUEST = ReasonKind(
    "superpod-one-pod-request",
    Stage.VALIDATE,
    "the job's one pod asks for {request} chips; allowed are {allowed}",
    ("ask for {allowed} chips",),
    SPECIFICATION,
)
ONE_POD_BLOCK = ReasonKind(
    "superpod-one-pod-block",
    Stage.VALIDATE,
    "the job's one pod asks for {request} chips and sp-block is {sp_block}; "
    "in a one-pod job they must be equal",
    ('set sp-block to "{request}", or remove it',),
    SPECIFICATION,
)
BLOCKS_DO_NOT_DIVIDE = ReasonKind(
    "superpod-blocks-do-not-divide",
    Stage.VALIDATE,
    "the job has {total} chips in {pods} pods, which blocks of {sp_block} chips do not divide: "
    "{left} chips are left over",
    (
        "set sp-block to a divisor of {total} that is a multiple of {chips_per_node}",
        "change the number of pods",
    ),
    SPECIFICATION,
)
POD_NOT_WHOLE_NODE = ReasonKind(
    "superpod-pod-not-whole-node",
    Stage.VALIDATE,
    "every pod of a job cut into blocks must ask for a whole node of {chips_per_node} chips; "
    "{wrong_pods} of {pods} pods ask for {wrong_requests}",
    ("ask for {chips_per_node} chips in every pod", "{zero_cure}"),
    SPECIFICATION,
)
SWITCH_AND_SUPERPOD = ReasonKind(
    "switch-and-superpod",
    Stage.VALIDATE,
    "the job has both tor-affinity: {tor_affinity} and sp-block: {sp_block}; "
    "the two would choose different nodes",
    (
        "remove the annotation sp-block to place the job by leaf switches",
        'remove the label tor-affinity, or set it to "null", to place the job by SuperPoDs',
    ),
    SPECIFICATION,
)

# --- SuperPoDs: room in the cluster ----------------------------------------------

NOT_ENOUGH_NODES = ReasonKind(
    "superpod-not-enough-nodes",
    Stage.PLAN,
    "needs {pods} free nodes, one for each pod, the SuperPoDs have {free}: {listing}",
    ("free {missing} more nodes", "ask for at most {free} pods"),
    CAPACITY | SPECIFICATION,
)
NOT_ENOUGH_BLOCKS = ReasonKind(
    "superpod-not-enough-blocks",
    Stage.PLAN,
    "needs {blocks} blocks of {block_nodes} nodes, the SuperPoDs hold {held}: {listing}",
    ("free nodes in SuperPoD {nearest}: it lacks {short_by} for one more block",),
    CAPACITY | SPECIFICATION,
)

# --- SuperPoDs: after a fault ----------------------------------------------------

WAIT_FOR_OLD_NODES = ReasonKind(
    "superpod-wait-for-old-nodes",
    Stage.PLAN,
    "waits up to {limit} s for its healthy nodes to be released, {seconds} s have passed: {nodes}",
    ("nothing to do: the job goes on without them after {limit} s",),
    CAPACITY | {Trigger.TIME_PASSED},
)
BLOCK_CANNOT_REFILL = ReasonKind(
    "superpod-block-cannot-refill",
    Stage.PLAN,
    "block {block} lacks {missing} of {block_nodes} nodes, SuperPoD {superpod} has {free} free, "
    "and the block's running pods ({running}) keep it there",
    (
        "free nodes in SuperPoD {superpod}: it lacks {short_by}",
        "stop the running pods of block {block}: then the whole block moves",
    ),
    CAPACITY | {Trigger.JOB_CHANGED, Trigger.TIME_PASSED},
)
BLOCKS_DISAGREE = ReasonKind(
    "superpod-blocks-disagree",
    Stage.PLAN,
    "the pods of block {block} disagree about where it is: {says}",
    ("delete the pods of block {block}: the block is then placed anew",),
    frozenset({Trigger.JOB_CHANGED}),
)
