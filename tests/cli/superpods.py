"""SuperPoDs as the document of `topology show` has them, for tests of their drawing."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.topology.superpods import SuperPodId
from ringwise.views.documents.topology import SuperPodFields
from ringwise.views.topology import NodesByUse


def superpod(
    number: SuperPodId,
    free: int = 0,
    reserve: int = 0,
    blocks: Sequence[tuple[str, int, int]] = (),
    busy: int = 0,
    unusable: int = 0,
    faulty: Sequence[str] = (),
) -> SuperPodFields:
    """Blocks are (job, number, nodes); their nodes are called `JOB-NUMBER-0` and so on."""
    nodes = NodesByUse(
        [f"free-{one}" for one in range(free)],
        [f"busy-{one}" for one in range(busy)],
        [f"unusable-{one}" for one in range(unusable)],
        {(job, block): [f"{job}-{block}-{one}" for one in range(count)] for job, block, count in blocks},
        set(faulty),
    )
    return SuperPodFields(superpod=number, reserved_nodes=min(reserve, free), **nodes.fields())
