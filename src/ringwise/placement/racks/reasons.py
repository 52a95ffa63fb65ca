"""Why a job cut into logical racks is refused, or waits."""

from __future__ import annotations

from ringwise.reasons import CAPACITY, SPECIFICATION, ReasonFamily, Stage, Trigger

# The job itself.

_invalid = ReasonFamily(Stage.VALIDATE, SPECIFICATION)

PODS_DO_NOT_FILL_BLOCKS = _invalid(
    "rack-pods-do-not-fill-blocks",
    "{pods:pod} with chips cannot be divided into blocks of {block_nodes:node} (sp-block {sp_block:chip})",
    "set sp-block to {chips_per_node:chip} times a divisor of {pods}",
    "change the number of pods to a multiple of {block_nodes}",
)
SUPER_POD_SIZE_RANGE = _invalid(
    "rack-super-pod-size-range",
    "super-pod-size is {super_pod_size}; it must be 1 to {largest} for SuperPoDs with racks",
    "set super-pod-size to 1 to {largest}",
)
RA_BLOCK_RANGE = _invalid(
    "ra-block-range",
    'ra-block is "{ra_block}"; it must be a power of two from 1 to {largest}',
    "set ra-block to one of {allowed}",
    "remove ra-block: every node is then its own logical rack",
)
RA_BLOCK_ABOVE_SP_BLOCK = _invalid(
    "ra-block-above-sp-block",
    "ra-block is {ra_block:chip} = {group_nodes:node}, more than the {block_nodes:node} of a block "
    "(sp-block)",
    'set ra-block to at most "{largest}"',
    "set sp-block to a multiple of {ra_block}",
)
PODS_DO_NOT_FILL_RACKS = _invalid(
    "ra-block-pods-do-not-divide",
    "{pods:pod} with chips cannot be divided into logical racks of {group_nodes:node} (ra-block "
    "{ra_block:chip})",
    "set ra-block to a smaller power of two",
    "change the number of pods to a multiple of {group_nodes}",
)
SP_BLOCK_NOT_WHOLE_RACKS = _invalid(
    "sp-block-not-whole-racks",
    "a block of {block_nodes:node} (sp-block) cannot be divided into logical racks of ra-block "
    "{ra_block:chip}",
    "set sp-block to a multiple of {ra_block}",
    "set ra-block to a smaller power of two",
)
UB_MEMORY_TOO_LARGE = _invalid(
    "ub-memory-too-large",
    "the job requests {total:chip} with UB memory; a UB-memory domain has {largest:chip}",
    "request at most {largest:chip}",
    "remove the annotation huawei.com/schedule_ubmemory",
)

# Room in the cluster.

_no_room = ReasonFamily(Stage.PLAN, CAPACITY | SPECIFICATION)

NOT_ENOUGH_NODES = _no_room(
    "rack-not-enough-nodes",
    "needs {pods:free node}, one for each pod; the racks have {free}: {listing}",
    "free {missing:more node}",
)
NOT_ENOUGH_BLOCKS = _no_room(
    "rack-not-enough-blocks",
    "needs {blocks:block} of {block_nodes:node}; the SuperPoDs have room for {held}: {listing}",
    "free nodes until the SuperPoDs have room for {blocks:block} of {block_nodes:node}",
)
NO_RACK_HOLDS_GROUP = _no_room(
    "rack-no-rack-holds-group",
    "needs {group_nodes:free node} in one rack for a logical rack; no rack has them: {listing}",
    "free nodes in one rack until it has {group_nodes}",
)
BLOCKS_NOT_PLACED = _no_room(
    "rack-blocks-not-placed",
    "needs {blocks:block} of {block_nodes:node} in logical racks of {group_nodes}; the SuperPoDs "
    "have room for {held}: {listing}",
    "free nodes in racks that almost have room for one more logical rack of {group_nodes}",
)
NO_DOMAIN_HOLDS_JOB = _no_room(
    "rack-no-domain-holds-job",
    "needs {pods:node} in logical racks of {group_nodes} in one UB-memory domain; the largest has "
    "room for {held}: {listing}",
    "free nodes in one UB-memory domain ({domain_racks:rack})",
)
NO_RACK_FOR_SERVICE = _no_room(
    "rack-no-rack-for-service",
    "needs {blocks:block} of {block_nodes:node}, each in one rack (inference service); the racks "
    "have room for {held}: {listing}",
    "free nodes in one rack until it has {block_nodes}",
    "set sp-block to at most {largest:chip}, the size of a rack",
)

# After a fault.

_waits = ReasonFamily(Stage.PLAN, CAPACITY | {Trigger.TIME_PASSED, Trigger.JOB_CHANGED})

WAIT_FOR_RACK = _waits(
    "rack-wait-for-same-rack",
    "block {block} lost {missing:node} in rack {rack} of SuperPoD {superpod}, which has {free:free "
    "node}; {outlook}",
    "free {short_by:node} in rack {rack} of SuperPoD {superpod}",
)
WAIT_FOR_SUPERPOD = _waits(
    "rack-wait-for-same-superpod",
    "block {block} lost {missing:node}; no rack of SuperPoD {superpod} has {group_nodes} free for a "
    "logical rack; {outlook}",
    "free nodes in one rack of SuperPoD {superpod} until it has {group_nodes}",
)
RUNNING_PODS_HOLD_GROUP = _waits(
    "rack-running-pods-hold-group",
    "block {block} lost {missing:node}; SuperPoD {superpod} has no replacement, and its running pods "
    "({running}) stay there",
    "free nodes in rack {rack} of SuperPoD {superpod}",
    "delete the running pods of block {block}: the whole block is then moved",
)
