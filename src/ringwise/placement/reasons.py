"""Why placement refuses a job, or why it waits: chips of a board, leaf switches, SuperPoDs."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonFamily, Stage, Trigger

_NODE_CORRECTED = frozenset({Trigger.NODE_CHANGED, Trigger.HEALTH_CHANGED})

# --- boards: the job as a whole -------------------------------------------------

_invalid = ReasonFamily(Stage.VALIDATE, SPECIFICATION)

REQUEST_NOT_ALLOWED = _invalid(
    "request-not-allowed",
    "a pod requests {request:chip}; {board} allows {allowed} per pod in a job of {pods:pod}",
    "request {allowed:chip} in each pod",
)
MULTI_POD_REQUEST_NOT_ALLOWED = _invalid(
    "multi-pod-request-not-allowed",
    "{pods:pod requests|pods request} {requests:chip} each; on {board} each pod of a multi-pod job "
    "must request {allowed}",
    "request {allowed:chip} in each pod",
    "use one pod, which can request {one_pod:#}",
    "set multi-pod-requests: vendor to allow {field:chip} in each pod",
)
ONE_POD_ONLY = _invalid(
    "one-pod-only",
    "{pods:pod requests|pods request} chips; on {board} only one pod of a job can",
    "use one pod, which can request {one_pod:#}",
    "split the job into single-pod jobs",
)
NO_CHIPS_ASKED = _invalid(
    "no-chips-requested",
    "no pod requests chips, but the job selects {board}, on which a pod requests {allowed}",
    "request {allowed:chip}",
    "remove the chip resource from the job",
)
POD_WITHOUT_CHIPS = _invalid(
    "pod-without-chips",
    "{without} of {pods:pod} {without:=requests|request} no chips and {without:=is|are} not "
    "annotated as {without:=a scheduler pod|scheduler pods}, as {board} requires",
    "annotate the pods with volcano.sh/task-spec: scheduler or huawei.com/skip-ascend-plugin: enabled",
    "request {allowed:chip} in each pod",
)
TOTAL_NOT_ALLOWED = _invalid(
    "total-not-allowed",
    "the job requests {total:chip} in total; on {board} the total must be 1 or a multiple of {multiple}",
    "request {lower:chip} in total",
    "request {higher:chip} in total",
)
AVERAGE_TOO_LARGE = _invalid(
    "average-too-large",
    "the job requests {total:chip} for {pods:pod}, {average} per pod on average; a node of {board} "
    "has {chips}",
    "request at most {most:chip} in total, or use more pods",
)

# --- boards: one node -----------------------------------------------------------

_lacks_chips = ReasonFamily(Stage.PREDICATE, CAPACITY - {Trigger.NODE_ADDED})

NOT_ENOUGH_FREE_CHIPS = _lacks_chips(
    "not-enough-free-chips",
    "{request:chip} requested, {free} free",
    "free {missing:more chip} on the node",
)
NO_RING_HOLDS_REQUEST = _lacks_chips(
    "no-ring-holds-request",
    "{request:chip} must come from one {ring}; free per {ring}: {rings}; {missing} short",
    "free {missing:more chip} in one {ring}",
)

_board_too_small = ReasonFamily(Stage.PREDICATE, SPECIFICATION)

RING_TOO_SMALL = _board_too_small(
    "request-larger-than-ring",
    "{request:chip} must come from one {ring}; a {ring} of {board} has {size}",
    "request at most {size:chip} in each pod",
    "use a board on which a pod can use more than one {ring}",
)
REQUEST_HAS_NO_PLACE = _board_too_small(
    "request-has-no-place",
    "no node of {board} can provide {request:chip} to one pod; a pod can request {allowed}",
    "request {allowed:chip}",
)
NODE_NOT_WHOLLY_FREE = _lacks_chips(
    "node-not-wholly-free",
    "all {request:chip} of the node requested, {free} free",
    "free {missing:more chip} on the node",
)
NOT_ENOUGH_WHOLE_RINGS = _lacks_chips(
    "not-enough-whole-rings",
    "{request:chip needs|chips need} {needed:completely free {ring}}; {whole} {whole:=is|are} completely "
    "free, with {free:free chip} in total",
    "free {missing:more {ring}} completely",
)
NOT_ENOUGH_PAIRS = _lacks_chips(
    "not-enough-pairs-across-rings",
    "{request:chip needs|chips need} {needed:pair} with one chip of each ring ({positions}), {pairs} "
    "free; free per ring: {rings}",
    "free {missing:more pair}",
)

_wrong_board = ReasonFamily(Stage.PREDICATE, _NODE_CORRECTED | SPECIFICATION)

MORE_CHIPS_THAN_BOARD = _wrong_board(
    "more-chips-than-board",
    "the node lists {free:free chip}; a node of {board} has {chips}",
    "select the board of this node (huawei.com/schedule_policy or accelerator-type)",
    "check the chip list of the node",
)

_not_reported = ReasonFamily(Stage.PREDICATE, _NODE_CORRECTED)

NETWORK_KEY_MISSING = _not_reported(
    "network-health-unknown",
    "the node does not report the network health of its chips, which a multi-pod job requires",
    "publish the NetworkUnhealthy key in the device-info ConfigMap of the node; an empty list is sufficient",
)

_not_labeled = ReasonFamily(Stage.PREDICATE, {Trigger.NODE_CHANGED})

NODE_LABEL_MISSING = _not_labeled(
    "node-label-missing",
    "{board} requires the node label {label}={value}; the node has {found}",
    "label the node {label}={value} if it has these cards",
)

# --- leaf switches ---------------------------------------------------------------

_SWITCH_CAPACITY = CAPACITY | {Trigger.TOPOLOGY_CHANGED}

LABEL_UNKNOWN = _invalid(
    "switch-label-unknown",
    'invalid tor-affinity "{value}": must be one of large-model-schema, normal-schema, null',
    "set tor-affinity to large-model-schema or normal-schema, or remove the label",
)

_switches_full = ReasonFamily(Stage.PLAN, _SWITCH_CAPACITY)

ONE_SWITCH_TOO_SMALL = _switches_full(
    "one-switch-too-small",
    "a {job_class} job needs {pods:free node} under one leaf switch; {best_free:?the best, {best}, "
    "has {best_free}|no switch has a free node}",
    "use at most {best_free:pod}, which would fit now",
)
SHARED_LIMIT = _switches_full(
    "switches-too-full",
    "needs {pods:node}; idle switches have {idle}, {best_free:?shared switches {best} have "
    "{best_free}|shared switches have 0} (limit {limit}); {missing} short",
    "use at most {largest:pod}, which would fit now",
)
COMMON_FULL = _switches_full(
    "switches-full-for-common-job",
    "needs {pods:node}; foundation rules allow {foundation}, fallback rules {fallback} ({idle} idle, "
    "shared: {unhealthy} unhealthy, {healthy} healthy); {missing} short",
    "use at most {largest:pod}, which would fit now",
)
ROWS_TOO_FEW = _switches_full(
    "logical-switches-too-few",
    "needs {pods:node}; {best_free:?the largest idle switch, {best}, has {best_free}|no idle switch "
    "has a free node}, complete switches have {complete_nodes} ({complete} of {width:node}), logical "
    "switches {logical_nodes}",
    "use at most {largest:pod}, which would fit now",
)
LEFTOVER_TOO_SMALL = _switches_full(
    "too-few-free-nodes-under-switches",
    "needs {pods:node}; idle switches have {idle} free, switches without a cross-switch foundation "
    "model {others}; {missing} short",
    "use at most {largest:pod}, which would fit now",
)
PEERS_SWITCH_FULL = _switches_full(
    "peers-switch-full",
    "{failed:failed pod} of a one-switch job must return to {switch}, which has {free:free node}",
    "free {missing:node} under {switch}, or repair the failed ones",
)

_switch_lost = ReasonFamily(Stage.PLAN, _SWITCH_CAPACITY | {Trigger.JOB_CHANGED})

PEERS_OUTSIDE = _switch_lost(
    "peers-outside-topology",
    "{failed:failed pod} must return to the leaf switch of the job, but {survivors:running pod "
    "is|running pods are} under {switches:switch}",
    "add the nodes of the running pods to basic-tor-node-cm",
    "delete all pods of the job, so that the whole job is scheduled again",
)

_switch_limit = ReasonFamily(Stage.PLAN, _SWITCH_CAPACITY | {Trigger.CONFIGURATION_CHANGED})

REPLACEMENT_LIMIT = _switch_limit(
    "replacement-over-limit",
    "{failed:failed pod}: the job's switches have {own:free node}, {used} of {limit:shared switch} "
    "used; {left} not placed{best_free:? (best: {best} with {best_free})|}",
    "free {left:node} under the job's own switches ({switches}), or repair the failed nodes",
    "raise shared-tor-num if it is 1",
)
REPLACEMENT_POSITION = _switches_full(
    "replacement-position-taken",
    "rank {rank} needs a free node at position {positions} under the job's own switches or an idle one",
    "free a node at such a position, or repair the failed node",
)

# --- SuperPoDs: the job itself --------------------------------------------------

SP_BLOCK_NOT_A_NUMBER = _invalid(
    "sp-block-not-a-number",
    'invalid sp-block "{sp_block}": must be a positive number of chips',
    'set sp-block to a multiple of the {chips_per_node:chip} of a node, for example "{example}"',
)
SP_BLOCK_NOT_POSITIVE = _invalid(
    "sp-block-not-positive",
    "invalid sp-block {sp_block}: must be a positive number of chips",
    'set sp-block to a multiple of the {chips_per_node:chip} of a node, for example "{example}"',
    "remove sp-block: the whole job of {total:chip} is then one block",
)
SP_BLOCK_BELOW_NODE = _invalid(
    "sp-block-below-node",
    "sp-block {sp_block} is less than the {chips_per_node:chip} of a node; it must then equal the "
    "{total:chip} of the whole job",
    'set sp-block to "{total}" for a one-pod job, or to a multiple of {chips_per_node}',
)
SP_BLOCK_NOT_WHOLE_NODES = _invalid(
    "sp-block-not-whole-nodes",
    "sp-block is {sp_block:chip}, which is not a multiple of the {chips_per_node} of a node",
    'set sp-block to "{below}" or "{above}"',
)
SP_BLOCK_ABOVE_SUPERPOD = _invalid(
    "sp-block-above-superpod",
    "sp-block is {sp_block:chip} = {block_nodes:node}, more than the {super_pod_size} of a SuperPoD "
    "(super-pod-size)",
    'set sp-block to at most "{largest}"',
    "correct super-pod-size if the SuperPoDs are larger",
)
ONE_POD_REQUEST = _invalid(
    "superpod-one-pod-request",
    "the only pod of the job requests {request:chip}; it must be {allowed}",
    "request {allowed:chip}",
)
ONE_POD_BLOCK = _invalid(
    "superpod-one-pod-block",
    "the only pod of the job requests {request:chip} and sp-block is {sp_block}; they must be equal",
    'set sp-block to "{request}", or remove it',
)
BLOCKS_DO_NOT_DIVIDE = _invalid(
    "superpod-blocks-do-not-divide",
    "{total:chip} in {pods:pod} cannot be divided into blocks of {sp_block:chip}: {left:chip "
    "is|chips are} left over",
    "set sp-block to a divisor of {total} that is a multiple of {chips_per_node}",
    "change the number of pods",
)
POD_NOT_WHOLE_NODE = _invalid(
    "superpod-pod-not-whole-node",
    "each pod of a job with blocks must request a whole node ({chips_per_node:chip}); {wrong_pods} "
    "of {pods:pod} {wrong_pods:=requests|request} {wrong_requests}",
    "request {chips_per_node:chip} in every pod",
    "{zero_fix}",
)
SWITCH_AND_SUPERPOD = _invalid(
    "switch-and-superpod",
    "tor-affinity: {tor_affinity} cannot be combined with sp-block: {sp_block}: both select the nodes",
    "remove the annotation sp-block to schedule the job by leaf switches",
    'remove the label tor-affinity, or set it to "null", to schedule the job by SuperPoDs',
)

# --- SuperPoDs: room in the cluster ----------------------------------------------

_superpods_full = ReasonFamily(Stage.PLAN, CAPACITY | SPECIFICATION)

NOT_ENOUGH_NODES = _superpods_full(
    "superpod-not-enough-nodes",
    "needs {pods:free node}, one for each pod; the SuperPoDs have {free}: {listing}",
    "free {missing:more node}",
    "use at most {free:pod}",
)
NOT_ENOUGH_BLOCKS = _superpods_full(
    "superpod-not-enough-blocks",
    "needs {blocks:block} of {block_nodes:node}; the SuperPoDs have room for {held}: {listing}",
    "free {short_by:more node} in SuperPoD {nearest} for one more block",
)

# --- SuperPoDs: after a fault ----------------------------------------------------


_awaits_nodes = ReasonFamily(Stage.PLAN, CAPACITY | {Trigger.TIME_PASSED})

WAIT_FOR_OLD_NODES = _awaits_nodes(
    "superpod-wait-for-old-nodes",
    "waits up to {limit:~} ({seconds:~} elapsed) for its healthy nodes to be released: {nodes}",
    "no action required: after {limit:~} the job continues without them",
)

_block_lost = ReasonFamily(Stage.PLAN, CAPACITY | {Trigger.JOB_CHANGED, Trigger.TIME_PASSED})

BLOCK_CANNOT_REFILL = _block_lost(
    "superpod-block-cannot-refill",
    "block {block} lacks {missing} of {block_nodes:node}; SuperPoD {superpod} has {free} free, and "
    "its running pods ({running}) stay there",
    "free {short_by:more node} in SuperPoD {superpod}",
    "delete the running pods of block {block}: the whole block is then moved",
)

_contradicts = ReasonFamily(Stage.PLAN, {Trigger.JOB_CHANGED})

BLOCKS_DISAGREE = _contradicts(
    "superpod-blocks-disagree",
    "the pods of block {block} are in different SuperPoDs: {says}",
    "delete the pods of block {block}, so that it is scheduled again",
)

# --- Soft shares and vNPUs: room on a node ----------------------------------------

_node_refuses = ReasonFamily(Stage.PREDICATE)

NO_AVAILABLE_CHIP = _node_refuses(
    "no-available-chip",
    "{node} has no available chip: its device report lists no healthy chip that is not isolated",
    "check the device plugin of {node}",
)

_lacks_room = ReasonFamily(Stage.PREDICATE, CAPACITY | SPECIFICATION)

NO_CHIP_HAS_ROOM = _lacks_room(
    "no-chip-has-room",
    "no chip of {node} has room for {requested}",
    "wait for pods on {node} to finish",
    "request less",
)
NO_ROOM_FOR_JOB = _lacks_room(
    "no-room-for-whole-job",
    "{node} has no room for all pods of the job ({requested} each), which must share one node",
    "wait for pods on {node} to finish",
    "run fewer pods",
)
EQUAL_PERCENT_NOT_MOUNTED = _node_refuses(
    "equal-percent-not-mounted",
    "{node}: a pod with the same percentage is not mounted yet; the device plugin could mix them up",
    "no action required: {node} accepts the pod when the other one has started",
)

_no_template = ReasonFamily(Stage.PREDICATE, SPECIFICATION | {Trigger.NODE_CHANGED})

NO_SUCH_TEMPLATE = _no_template(
    "no-such-vnpu-template",
    "the chips of {node} have no vNPU template for {requested}",
    "request the cores of a template of these chips",
)
OTHER_TEMPLATE_NOT_SETTLED = _node_refuses(
    "another-template-not-settled",
    "{node}: a pod with another vNPU template is not mounted yet; the device plugin could mix them up",
    "no action required: {node} accepts the pod when the other one has started",
)

_not_offered = ReasonFamily(Stage.PREDICATE, {Trigger.NODE_ADDED, Trigger.NODE_CHANGED})

PART_NOT_OFFERED = _not_offered(
    "part-not-offered",
    "{node} does not offer {resource}",
    "create a vNPU of this kind on {node}",
)
IDLE_BELOW_REQUEST = _lacks_room(
    "idle-below-request",
    "Kubernetes counts {idle} of {resource} idle on {node}; the pod requests {requested}",
    "wait for pods on {node} to finish",
    "request less",
)
JOB_ON_ANOTHER_NODE = _lacks_room(
    "job-on-another-node",
    "the job runs on {others}; all its pods must share one node",
    "wait for pods on {others} to finish",
)
