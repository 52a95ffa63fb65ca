"""Why a job cut into blocks is refused, or waits."""

from __future__ import annotations

from ringwise.reasons import MENDED, ROOM, ReasonKind, Stage, Trigger

# The job itself.

SP_BLOCK_NOT_A_NUMBER = ReasonKind(
    "sp-block-not-a-number",
    Stage.VALIDATE,
    'sp-block is "{sp_block}"; allowed is a whole number of chips above 0',
    ('write sp-block as a multiple of the {chips_per_node} chips of a node, for example "{example}"',),
    MENDED,
)
SP_BLOCK_NOT_POSITIVE = ReasonKind(
    "sp-block-not-positive",
    Stage.VALIDATE,
    "sp-block is {sp_block}; allowed is a whole number of chips above 0",
    (
        'write sp-block as a multiple of the {chips_per_node} chips of a node, for example "{example}"',
        "leave sp-block away: then the whole job of {total} chips is one block",
    ),
    MENDED,
)
SP_BLOCK_BELOW_NODE = ReasonKind(
    "sp-block-below-node",
    Stage.VALIDATE,
    "sp-block is {sp_block} chips, less than the {chips_per_node} of a node, and the job asks for {total}; "
    "a block smaller than a node must be the whole job",
    ('set sp-block to "{total}" for a one-pod job, or to a multiple of {chips_per_node}',),
    MENDED,
)
SP_BLOCK_NOT_WHOLE_NODES = ReasonKind(
    "sp-block-not-whole-nodes",
    Stage.VALIDATE,
    "sp-block is {sp_block} chips, which is no multiple of the {chips_per_node} of a node",
    ('set sp-block to "{below}" or "{above}"',),
    MENDED,
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
    MENDED,
)
ONE_POD_REQUEST = ReasonKind(
    "superpod-one-pod-request",
    Stage.VALIDATE,
    "the job's one pod asks for {request} chips; allowed are {allowed}",
    ("ask for {allowed} chips",),
    MENDED,
)
ONE_POD_BLOCK = ReasonKind(
    "superpod-one-pod-block",
    Stage.VALIDATE,
    "the job's one pod asks for {request} chips and sp-block is {sp_block}; "
    "in a one-pod job they must be equal",
    ('set sp-block to "{request}", or leave it away',),
    MENDED,
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
    MENDED,
)
POD_NOT_WHOLE_NODE = ReasonKind(
    "superpod-pod-not-whole-node",
    Stage.VALIDATE,
    "every pod of a job cut into blocks must ask for a whole node of {chips_per_node} chips; "
    "{wrong_pods} of {pods} pods ask for {wrong_requests}",
    ("ask for {chips_per_node} chips in every pod", "{zero_cure}"),
    MENDED,
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
    MENDED,
)

# Room in the cluster.

NOT_ENOUGH_NODES = ReasonKind(
    "superpod-not-enough-nodes",
    Stage.PLAN,
    "needs {pods} free nodes, one for each pod, the SuperPoDs have {free}: {listing}",
    ("free {missing} more nodes", "ask for at most {free} pods"),
    ROOM | MENDED,
)
NOT_ENOUGH_BLOCKS = ReasonKind(
    "superpod-not-enough-blocks",
    Stage.PLAN,
    "needs {blocks} blocks of {block_nodes} nodes, the SuperPoDs hold {held}: {listing}",
    ("free nodes in SuperPoD {nearest}: it lacks {short_by} for one more block",),
    ROOM | MENDED,
)

# After a fault.

WAIT_FOR_OLD_NODES = ReasonKind(
    "superpod-wait-for-old-nodes",
    Stage.PLAN,
    "waits up to {limit} s for its healthy nodes to be released, {seconds} s have passed: {nodes}",
    ("nothing to do: the job goes on without them after {limit} s",),
    ROOM | {Trigger.TIME_PASSED},
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
    ROOM | {Trigger.JOB_CHANGED, Trigger.TIME_PASSED},
)
BLOCKS_DISAGREE = ReasonKind(
    "superpod-blocks-disagree",
    Stage.PLAN,
    "the pods of block {block} disagree about where it is: {says}",
    ("delete the pods of block {block}: the block is then placed anew",),
    frozenset({Trigger.JOB_CHANGED}),
)
