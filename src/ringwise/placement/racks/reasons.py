"""Why a job cut into logical racks is refused, or waits."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonKind, Stage, Trigger

# The job itself.

PODS_DO_NOT_FILL_BLOCKS = ReasonKind(
    "rack-pods-do-not-fill-blocks",
    Stage.VALIDATE,
    "{pods:pod} with chips cannot be divided into blocks of {block_nodes:node} (sp-block {sp_block:chip})",
    (
        "set sp-block to {chips_per_node:chip} times a divisor of {pods}",
        "change the number of pods to a multiple of {block_nodes}",
    ),
    SPECIFICATION,
)
SUPER_POD_SIZE_RANGE = ReasonKind(
    "rack-super-pod-size-range",
    Stage.VALIDATE,
    "super-pod-size is {super_pod_size}; it must be 1 to {largest} for SuperPoDs with racks",
    ("set super-pod-size to 1 to {largest}",),
    SPECIFICATION,
)
RA_BLOCK_RANGE = ReasonKind(
    "ra-block-range",
    Stage.VALIDATE,
    'ra-block is "{ra_block}"; it must be a power of two from 1 to {largest}',
    (
        "set ra-block to one of {allowed}",
        "remove ra-block: every node is then its own logical rack",
    ),
    SPECIFICATION,
)
RA_BLOCK_ABOVE_SP_BLOCK = ReasonKind(
    "ra-block-above-sp-block",
    Stage.VALIDATE,
    "ra-block is {ra_block:chip} = {group_nodes:node}, more than the {block_nodes:node} of a block "
    "(sp-block)",
    ('set ra-block to at most "{largest}"', "set sp-block to a multiple of {ra_block}"),
    SPECIFICATION,
)
PODS_DO_NOT_FILL_RACKS = ReasonKind(
    "ra-block-pods-do-not-divide",
    Stage.VALIDATE,
    "{pods:pod} with chips cannot be divided into logical racks of {group_nodes:node} (ra-block "
    "{ra_block:chip})",
    ("set ra-block to a smaller power of two", "change the number of pods to a multiple of {group_nodes}"),
    SPECIFICATION,
)
SP_BLOCK_NOT_WHOLE_RACKS = ReasonKind(
    "sp-block-not-whole-racks",
    Stage.VALIDATE,
    "a block of {block_nodes:node} (sp-block) cannot be divided into logical racks of ra-block "
    "{ra_block:chip}",
    ("set sp-block to a multiple of {ra_block}", "set ra-block to a smaller power of two"),
    SPECIFICATION,
)
UB_MEMORY_TOO_LARGE = ReasonKind(
    "ub-memory-too-large",
    Stage.VALIDATE,
    "the job requests {total:chip} with UB memory; a UB-memory domain has {largest:chip}",
    (
        "request at most {largest:chip}",
        "remove the annotation huawei.com/schedule_ubmemory",
    ),
    SPECIFICATION,
)

# Room in the cluster.

NOT_ENOUGH_NODES = ReasonKind(
    "rack-not-enough-nodes",
    Stage.PLAN,
    "needs {pods:free node}, one for each pod; the racks have {free}: {listing}",
    ("free {missing:more node}",),
    CAPACITY | SPECIFICATION,
)
NOT_ENOUGH_BLOCKS = ReasonKind(
    "rack-not-enough-blocks",
    Stage.PLAN,
    "needs {blocks:block} of {block_nodes:node}; the SuperPoDs have room for {held}: {listing}",
    ("free nodes until the SuperPoDs have room for {blocks:block} of {block_nodes:node}",),
    CAPACITY | SPECIFICATION,
)
NO_RACK_HOLDS_GROUP = ReasonKind(
    "rack-no-rack-holds-group",
    Stage.PLAN,
    "needs {group_nodes:free node} in one rack for a logical rack; no rack has them: {listing}",
    ("free nodes in one rack until it has {group_nodes}",),
    CAPACITY | SPECIFICATION,
)
BLOCKS_NOT_PLACED = ReasonKind(
    "rack-blocks-not-placed",
    Stage.PLAN,
    "needs {blocks:block} of {block_nodes:node} in logical racks of {group_nodes}; the SuperPoDs "
    "have room for {held}: {listing}",
    ("free nodes in racks that almost have room for one more logical rack of {group_nodes}",),
    CAPACITY | SPECIFICATION,
)
NO_DOMAIN_HOLDS_JOB = ReasonKind(
    "rack-no-domain-holds-job",
    Stage.PLAN,
    "needs {pods:node} in logical racks of {group_nodes} in one UB-memory domain; the largest has "
    "room for {held}: {listing}",
    ("free nodes in one UB-memory domain ({domain_racks:rack})",),
    CAPACITY | SPECIFICATION,
)
NO_RACK_FOR_SERVICE = ReasonKind(
    "rack-no-rack-for-service",
    Stage.PLAN,
    "needs {blocks:block} of {block_nodes:node}, each in one rack (inference service); the racks "
    "have room for {held}: {listing}",
    (
        "free nodes in one rack until it has {block_nodes}",
        "set sp-block to at most {largest:chip}, the size of a rack",
    ),
    CAPACITY | SPECIFICATION,
)

# After a fault.

WAIT_FOR_RACK = ReasonKind(
    "rack-wait-for-same-rack",
    Stage.PLAN,
    "block {block} lost {missing:node} in rack {rack} of SuperPoD {superpod}, which has {free:free "
    "node}; {outlook}",
    ("free {short_by:node} in rack {rack} of SuperPoD {superpod}",),
    CAPACITY | {Trigger.TIME_PASSED, Trigger.JOB_CHANGED},
)
WAIT_FOR_SUPERPOD = ReasonKind(
    "rack-wait-for-same-superpod",
    Stage.PLAN,
    "block {block} lost {missing:node}; no rack of SuperPoD {superpod} has {group_nodes} free for a "
    "logical rack; {outlook}",
    ("free nodes in one rack of SuperPoD {superpod} until it has {group_nodes}",),
    CAPACITY | {Trigger.TIME_PASSED, Trigger.JOB_CHANGED},
)
RUNNING_PODS_HOLD_GROUP = ReasonKind(
    "rack-running-pods-hold-group",
    Stage.PLAN,
    "block {block} lost {missing:node}; SuperPoD {superpod} has no replacement, and its running pods "
    "({running}) stay there",
    (
        "free nodes in rack {rack} of SuperPoD {superpod}",
        "delete the running pods of block {block}: the whole block is then moved",
    ),
    CAPACITY | {Trigger.TIME_PASSED, Trigger.JOB_CHANGED},
)
