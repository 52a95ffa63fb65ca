"""A small soak: memory follows what is live, and the tables stay true."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from ringwise.state.model import PodClass
from ringwise.state.node_shapes import NodeShape
from ringwise_bench.soak import Soak


def counted() -> Counter[type]:
    gc.collect()
    return Counter(type(one) for one in gc.get_objects() if isinstance(one, (PodClass, NodeShape)))


@pytest.mark.full
def test_objects_of_the_past_are_forgotten() -> None:
    before = counted()
    soak = Soak(nodes=20, jobs=15, queues=3)
    soak.run(3_000)
    assert soak.bound > 200
    assert soak.defects() == []
    after = counted()
    assert after[PodClass] - before[PodClass] < 60
    assert after[NodeShape] - before[NodeShape] < 600
