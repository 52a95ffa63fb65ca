"""V6: how many pods with shares of a gang still need room on its node."""

from __future__ import annotations

import pytest

from ringwise.framework.part_selection import pods_to_place
from ringwise.state.model import SOFT, PartRequest
from tests.builders.session_lab import cluster
from tests.builders.values import CHIP, pod_class

SHARE = pod_class(part=PartRequest(SOFT, CHIP, 30, mb=1000, policy="fixed-share"))


@pytest.mark.parametrize(("on", "expected"), [(None, (3, frozenset())), ("n1", (2, frozenset({0})))])
def test_V6_pods_that_a_vcjob_has_not_created_yet_need_room_too(
    on: str | None, expected: tuple[int, frozenset[int]]
) -> None:
    lab = cluster().node("n1", chips=1).job("serve", min_available=1, cls=SHARE, on=on)
    lab["serve"].ordered_chip_pods = 3
    assert pods_to_place(lab.state, lab["serve"]) == expected
