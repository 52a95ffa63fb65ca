"""Why a job waits for leaf switches, or is refused by their rules."""

from __future__ import annotations

from ringwise.reasons import MENDED, ROOM, ReasonKind, Stage, Trigger

_ROOM = ROOM | {Trigger.TOPOLOGY_CHANGED}

LABEL_UNKNOWN = ReasonKind(
    "switch-label-unknown",
    Stage.VALIDATE,
    'the label tor-affinity is "{value}"; allowed are large-model-schema, normal-schema and null',
    ("set tor-affinity to large-model-schema or normal-schema, or remove the label",),
    MENDED,
)
ONE_SWITCH_TOO_SMALL = ReasonKind(
    "one-switch-too-small",
    Stage.PLAN,
    "a {job_class} job stays under one leaf switch: it needs {pods} free nodes under one switch; "
    "the best, {best}, has {best_free}",
    ("a job of at most {best_free} pods would fit now",),
    _ROOM,
)
SHARED_LIMIT = ReasonKind(
    "switches-too-full",
    Stage.PLAN,
    "needs {pods} nodes: idle switches give {idle}, the remaining {left} may go under at most {limit} "
    "shared switch(es), and the best allowed ({best}) hold {best_free}; {missing} short",
    ("a job of at most {largest} pods would be placed now",),
    _ROOM,
)
COMMON_FULL = ReasonKind(
    "switches-full-for-common-job",
    Stage.PLAN,
    "needs {pods} nodes: the foundation-model way holds {foundation}, the common job's fallback {fallback} "
    "(idle switches {idle}, unhealthy shared ones {unhealthy}, healthy shared ones without a "
    "foundation-model job {healthy}); {missing} short",
    ("a job of at most {largest} pods would be placed now",),
    _ROOM,
)
ROWS_TOO_FEW = ReasonKind(
    "logical-switches-too-few",
    Stage.PLAN,
    "needs {pods} nodes: the largest idle switch, {best}, has {best_free} free; {complete} complete "
    "switches of {width} nodes hold {complete_nodes}; logical switches hold {logical_nodes}",
    ("a job of at most {largest} pods would be placed now",),
    _ROOM,
)
LEFTOVER_TOO_SMALL = ReasonKind(
    "leftover-too-small",
    Stage.PLAN,
    "needs {pods} nodes: idle switches have {idle} free, others without a cross-switch foundation-model "
    "job {others}; {missing} short",
    ("a job of at most {largest} pods would be placed now",),
    _ROOM,
)
PEERS_SWITCH_FULL = ReasonKind(
    "peers-switch-full",
    Stage.PLAN,
    "{failed} failed pod(s) of a job that stays under one leaf switch must return to {switch}, "
    "which has {free} free nodes",
    ("free {missing} node(s) under {switch}, or repair the failed ones",),
    _ROOM,
)
PEERS_OUTSIDE = ReasonKind(
    "peers-outside-topology",
    Stage.PLAN,
    "{failed} failed pod(s) must return to the leaf switch of their peers, but the {survivors} running "
    "pod(s) sit under {switches} switches",
    (
        "add the nodes of the running pods to basic-tor-node-cm",
        "delete the job's pods, so that the whole job is placed anew",
    ),
    _ROOM | {Trigger.JOB_CHANGED},
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
    _ROOM | {Trigger.CONFIGURATION_CHANGED},
)
REPLACEMENT_POSITION = ReasonKind(
    "replacement-position-taken",
    Stage.PLAN,
    "no replacement for rank {rank}: it needs a free node at position {positions} under the job's own "
    "switches or under an idle one",
    ("free a node at such a position, or repair the failed one",),
    _ROOM,
)
