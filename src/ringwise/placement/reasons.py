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
    "a pod asks for {request:chip}; {board} allows {allowed} per pod in a job of {pods:pod}",
    fixes=("ask for {allowed:chip} in each pod",),
    resolved_by=SPECIFICATION,
)
MULTI_POD_REQUEST_NOT_ALLOWED = ReasonKind(
    "multi-pod-request-not-allowed",
    Stage.VALIDATE,
    "{pods:pod asks|pods ask} for {requests:chip} each; "
    "on {board} each pod of a multi-pod job must ask for {allowed}",
    fixes=(
        "ask for {allowed:chip} in each pod",
        "put the chips into one pod, which may ask for {one_pod:#}",
        "set multi-pod-requests: vendor to allow {field:chip} in each pod",
    ),
    resolved_by=SPECIFICATION,
)
ONE_POD_ONLY = ReasonKind(
    "one-pod-only",
    Stage.VALIDATE,
    "{pods:pod asks|pods ask} for chips; on {board} at most one pod of a job may",
    fixes=("put all chips into one pod, which may ask for {one_pod:#}", "split the job into one-pod jobs"),
    resolved_by=SPECIFICATION,
)
NO_CHIPS_ASKED = ReasonKind(
    "no-chips-requested",
    Stage.VALIDATE,
    "no pod of the job asks for a chip, but it selects {board}, where a pod asks for {allowed}",
    fixes=("ask for {allowed:chip}", "remove the chip resource from the job"),
    resolved_by=SPECIFICATION,
)
POD_WITHOUT_CHIPS = ReasonKind(
    "pod-without-chips",
    Stage.VALIDATE,
    "{without} of {pods:pod} {without:=asks|ask} for no chip, which on {board} only pods may "
    "that are annotated volcano.sh/task-spec: scheduler or huawei.com/skip-ascend-plugin: enabled",
    fixes=(
        "annotate those pods with volcano.sh/task-spec: scheduler or huawei.com/skip-ascend-plugin: enabled",
        "ask for {allowed:chip} in each pod",
    ),
    resolved_by=SPECIFICATION,
)
TOTAL_NOT_ALLOWED = ReasonKind(
    "total-not-allowed",
    Stage.VALIDATE,
    "the job asks for {total:chip} in all; on {board} that must be 1 or a multiple of {multiple}",
    fixes=("ask for {lower:chip} in all", "ask for {higher:chip} in all"),
    resolved_by=SPECIFICATION,
)
AVERAGE_TOO_LARGE = ReasonKind(
    "average-too-large",
    Stage.VALIDATE,
    "the job asks for {total:chip} for {pods:pod}, on average {average} each; {board} has {chips} per node",
    fixes=("ask for at most {most:chip} in all, or spread them over more pods",),
    resolved_by=SPECIFICATION,
)

# --- boards: one node -----------------------------------------------------------

NOT_ENOUGH_FREE_CHIPS = ReasonKind(
    "not-enough-free-chips",
    Stage.PREDICATE,
    "{request:chip is|chips are} asked for and {free} {free:=is|are} free",
    fixes=("{missing:more chip} must become free on the node",),
    resolved_by=_CHIPS_CHANGE,
)
NO_RING_HOLDS_REQUEST = ReasonKind(
    "no-ring-holds-request",
    Stage.PREDICATE,
    "{request:chip} must come from one {ring}; free per {ring}: {rings}; the best lacks {missing}",
    fixes=("{missing:more chip} must become free in one {ring}",),
    resolved_by=_CHIPS_CHANGE,
)
RING_TOO_SMALL = ReasonKind(
    "request-larger-than-ring",
    Stage.PREDICATE,
    "{request:chip} must come from one {ring}, and a {ring} of {board} has {size}",
    fixes=("ask for at most {size:chip} in each pod", "use a board that lets a pod use more than one {ring}"),
    resolved_by=SPECIFICATION,
)
REQUEST_HAS_NO_PLACE = ReasonKind(
    "request-has-no-place",
    Stage.PREDICATE,
    "no node of {board} can give {request:chip} to one pod; a pod may ask for {allowed}",
    fixes=("ask for {allowed:chip}",),
    resolved_by=SPECIFICATION,
)
NODE_NOT_WHOLLY_FREE = ReasonKind(
    "node-not-wholly-free",
    Stage.PREDICATE,
    "all {request:chip} of the node {request:=is|are} asked for and {free} {free:=is|are} free",
    fixes=("{missing:more chip} must become free on the node",),
    resolved_by=_CHIPS_CHANGE,
)
NOT_ENOUGH_WHOLE_RINGS = ReasonKind(
    "not-enough-whole-rings",
    Stage.PREDICATE,
    "{request:chip needs|chips need} {needed:completely free {ring}} and {whole} {whole:=is|are}; "
    "{free:chip is|chips are} free in all",
    fixes=("{missing:more {ring}} must become completely free",),
    resolved_by=_CHIPS_CHANGE,
)
NOT_ENOUGH_PAIRS = ReasonKind(
    "not-enough-pairs-across-rings",
    Stage.PREDICATE,
    "{request:chip needs|chips need} {needed:pair}, one chip of each ring ({positions}); "
    "there {pairs:=is|are} {pairs}; free per ring: {rings}",
    fixes=("{missing:more pair} must become free",),
    resolved_by=_CHIPS_CHANGE,
)
MORE_CHIPS_THAN_BOARD = ReasonKind(
    "more-chips-than-board",
    Stage.PREDICATE,
    "the node lists {free:free chip}, more than the {chips} a node of {board} has",
    fixes=(
        "choose the board that this node has (huawei.com/schedule_policy or accelerator-type)",
        "check the node's chip list",
    ),
    resolved_by=_NODE_CORRECTED | SPECIFICATION,
)
NETWORK_KEY_MISSING = ReasonKind(
    "network-health-unknown",
    Stage.PREDICATE,
    "the node does not publish the network health of its chips, which a job of several pods needs",
    fixes=("publish the NetworkUnhealthy key in the node's device-info ConfigMap; an empty list is enough",),
    resolved_by=_NODE_CORRECTED,
)
NODE_LABEL_MISSING = ReasonKind(
    "node-label-missing",
    Stage.PREDICATE,
    "{board} needs the node label {label}={value}; the node has {found}",
    fixes=("label the node {label}={value} if it has these cards",),
    resolved_by=frozenset({Trigger.NODE_CHANGED}),
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
    "a {job_class} job stays under one leaf switch: it needs {pods:free node} under one switch; "
    "{best_free:?the best, {best}, has {best_free}|no switch has one}",
    ("a job of at most {best_free:pod} would fit now",),
    _SWITCH_CAPACITY,
)
SHARED_LIMIT = ReasonKind(
    "switches-too-full",
    Stage.PLAN,
    "needs {pods:node}: idle switches give {idle}, the remaining {left} may go under at most "
    "{limit:shared switch}, and "
    "{best_free:?the best allowed ({best}) hold {best_free}|no switch that is allowed has a free node}; "
    "{missing} short",
    ("a job of at most {largest:pod} would be placed now",),
    _SWITCH_CAPACITY,
)
COMMON_FULL = ReasonKind(
    "switches-full-for-common-job",
    Stage.PLAN,
    "needs {pods:node}: the rules for foundation models give {foundation}, the common job's fallback "
    "{fallback} (idle switches {idle}, unhealthy shared ones {unhealthy}, healthy shared ones without a "
    "foundation-model job {healthy}); {missing} short",
    ("a job of at most {largest:pod} would be placed now",),
    _SWITCH_CAPACITY,
)
ROWS_TOO_FEW = ReasonKind(
    "logical-switches-too-few",
    Stage.PLAN,
    "needs {pods:node}: "
    "{best_free:?the largest idle switch, {best}, has {best_free} free|no idle switch has a free node}; "
    "{complete:complete switch} of {width:node} {complete:=holds|hold} {complete_nodes}; "
    "logical switches hold {logical_nodes}",
    ("a job of at most {largest:pod} would be placed now",),
    _SWITCH_CAPACITY,
)
LEFTOVER_TOO_SMALL = ReasonKind(
    "too-few-free-nodes-under-switches",
    Stage.PLAN,
    "needs {pods:node}: idle switches have {idle} free, others without a cross-switch foundation-model "
    "job {others}; {missing} short",
    ("a job of at most {largest:pod} would be placed now",),
    _SWITCH_CAPACITY,
)
PEERS_SWITCH_FULL = ReasonKind(
    "peers-switch-full",
    Stage.PLAN,
    "{failed:failed pod} of a job that stays under one leaf switch must return to {switch}, "
    "which has {free:free node}",
    ("free {missing:node} under {switch}, or repair the failed ones",),
    _SWITCH_CAPACITY,
)
PEERS_OUTSIDE = ReasonKind(
    "peers-outside-topology",
    Stage.PLAN,
    "{failed:failed pod} must return to the leaf switch of the peers, but the "
    "{survivors:running pod is|running pods are} under {switches:switch}",
    (
        "add the nodes of the running pods to basic-tor-node-cm",
        "delete the job's pods, so that the whole job is placed anew",
    ),
    _SWITCH_CAPACITY | {Trigger.JOB_CHANGED},
)
REPLACEMENT_LIMIT = ReasonKind(
    "replacement-over-limit",
    Stage.PLAN,
    "{failed:failed pod}: the job's own switches have {own:free node}, and of "
    "{limit:shared switch} allowed it uses {used}; the remaining {left} {left:=finds|find} no switch "
    "({best_free:?best allowed: {best} with {best_free}|no other that is allowed has a free node})",
    (
        "free {left:node} under the job's own switches ({switches}), or repair the failed ones",
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
    ('write sp-block as a multiple of the {chips_per_node:chip} of a node, for example "{example}"',),
    SPECIFICATION,
)
SP_BLOCK_NOT_POSITIVE = ReasonKind(
    "sp-block-not-positive",
    Stage.VALIDATE,
    "sp-block is {sp_block}; allowed is a whole number of chips above 0",
    (
        'write sp-block as a multiple of the {chips_per_node:chip} of a node, for example "{example}"',
        "remove sp-block: then the whole job of {total:chip} is one block",
    ),
    SPECIFICATION,
)
SP_BLOCK_BELOW_NODE = ReasonKind(
    "sp-block-below-node",
    Stage.VALIDATE,
    "sp-block is {sp_block:chip}, less than the {chips_per_node} of a node, and the job asks for {total}; "
    "a block smaller than a node must be the whole job",
    ('set sp-block to "{total}" for a one-pod job, or to a multiple of {chips_per_node}',),
    SPECIFICATION,
)
SP_BLOCK_NOT_WHOLE_NODES = ReasonKind(
    "sp-block-not-whole-nodes",
    Stage.VALIDATE,
    "sp-block is {sp_block:chip}, which is no multiple of the {chips_per_node} of a node",
    ('set sp-block to "{below}" or "{above}"',),
    SPECIFICATION,
)
SP_BLOCK_ABOVE_SUPERPOD = ReasonKind(
    "sp-block-above-superpod",
    Stage.VALIDATE,
    "sp-block is {sp_block:chip} = {block_nodes:node}, "
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
    "the job's one pod asks for {request:chip}; allowed are {allowed}",
    ("ask for {allowed:chip}",),
    SPECIFICATION,
)
ONE_POD_BLOCK = ReasonKind(
    "superpod-one-pod-block",
    Stage.VALIDATE,
    "the job's one pod asks for {request:chip} and sp-block is {sp_block}; "
    "in a one-pod job they must be equal",
    ('set sp-block to "{request}", or remove it',),
    SPECIFICATION,
)
BLOCKS_DO_NOT_DIVIDE = ReasonKind(
    "superpod-blocks-do-not-divide",
    Stage.VALIDATE,
    "the job has {total:chip} in {pods:pod}, which blocks of {sp_block:chip} do not divide: "
    "{left:chip is|chips are} left over",
    (
        "set sp-block to a divisor of {total} that is a multiple of {chips_per_node}",
        "change the number of pods",
    ),
    SPECIFICATION,
)
POD_NOT_WHOLE_NODE = ReasonKind(
    "superpod-pod-not-whole-node",
    Stage.VALIDATE,
    "every pod of a job cut into blocks must ask for a whole node of {chips_per_node:chip}; "
    "{wrong_pods} of {pods:pod} {wrong_pods:=asks|ask} for {wrong_requests}",
    ("ask for {chips_per_node:chip} in every pod", "{zero_fix}"),
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
    "needs {pods:free node}, one for each pod, the SuperPoDs have {free}: {listing}",
    ("free {missing:more node}", "ask for at most {free:pod}"),
    CAPACITY | SPECIFICATION,
)
NOT_ENOUGH_BLOCKS = ReasonKind(
    "superpod-not-enough-blocks",
    Stage.PLAN,
    "needs {blocks:block} of {block_nodes:node}, the SuperPoDs hold {held}: {listing}",
    ("free nodes in SuperPoD {nearest}: it lacks {short_by:#} for one more block",),
    CAPACITY | SPECIFICATION,
)

# --- SuperPoDs: after a fault ----------------------------------------------------

WAIT_FOR_OLD_NODES = ReasonKind(
    "superpod-wait-for-old-nodes",
    Stage.PLAN,
    "waits up to {limit:~} for its healthy nodes to be released, {seconds:~} passed: {nodes}",
    ("nothing to do: the job goes on without them after {limit:~}",),
    CAPACITY | {Trigger.TIME_PASSED},
)
BLOCK_CANNOT_REFILL = ReasonKind(
    "superpod-block-cannot-refill",
    Stage.PLAN,
    "block {block} lacks {missing} of {block_nodes:node}, SuperPoD {superpod} has {free} free, "
    "and the block's running pods ({running}) keep it there",
    (
        "free nodes in SuperPoD {superpod}: it lacks {short_by:#}",
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

# --- Soft shares and vNPUs: room on a node ----------------------------------------

NO_AVAILABLE_CHIP = ReasonKind(
    "no-available-chip",
    Stage.PREDICATE,
    "{node} has no available chip: its device report lists none that is healthy and not isolated",
    ("check the device plugin of {node}",),
    CAPACITY,
)
NO_CHIP_HAS_ROOM = ReasonKind(
    "no-chip-has-room",
    Stage.PREDICATE,
    "no chip of {node} has room for {requested}",
    ("wait until pods on {node} end", "request less"),
    CAPACITY | SPECIFICATION,
)
NO_ROOM_FOR_JOB = ReasonKind(
    "no-room-for-whole-job",
    Stage.PREDICATE,
    "the chips of {node} have no room for all pods of the job ({requested} each), which must share one node",
    ("wait until pods on {node} end", "run fewer pods"),
    CAPACITY | SPECIFICATION,
)
EQUAL_PERCENT_NOT_MOUNTED = ReasonKind(
    "equal-percent-not-mounted",
    Stage.PREDICATE,
    "another pod with the same percentage waits on {node} for its device plugin, which could confuse the two",
    ("nothing to do: {node} takes the pod when the other one has started",),
    CAPACITY,
)
NO_SUCH_TEMPLATE = ReasonKind(
    "no-such-vnpu-template",
    Stage.PREDICATE,
    "the chips of {node} have no vNPU template for {requested}",
    ("request the cores of a template of these chips",),
    SPECIFICATION | frozenset({Trigger.NODE_CHANGED}),
)
OTHER_TEMPLATE_NOT_SETTLED = ReasonKind(
    "another-template-not-settled",
    Stage.PREDICATE,
    "a pod with another vNPU template waits on {node} for its device plugin, which could confuse the two",
    ("nothing to do: {node} takes the pod when the other one has started",),
    CAPACITY,
)
PART_NOT_OFFERED = ReasonKind(
    "part-not-offered",
    Stage.PREDICATE,
    "{node} does not offer {resource}",
    ("create a vNPU of this kind on {node}",),
    frozenset({Trigger.NODE_ADDED, Trigger.NODE_CHANGED}),
)
IDLE_BELOW_REQUEST = ReasonKind(
    "idle-below-request",
    Stage.PREDICATE,
    "Kubernetes counts {idle} idle of {resource} on {node}, and the pod requests {requested}",
    ("wait until pods on {node} end", "request less"),
    CAPACITY | SPECIFICATION,
)
JOB_ON_ANOTHER_NODE = ReasonKind(
    "job-on-another-node",
    Stage.PREDICATE,
    "the job runs on {others}, and all its pods must share one node",
    ("wait until pods on {others} end",),
    CAPACITY | SPECIFICATION,
)
