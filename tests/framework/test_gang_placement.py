"""Which pods of a gang are placed now."""

from __future__ import annotations

import pytest

from ringwise.framework.gangs.gang_placement import has_pending_pods, pending_pods
from ringwise.wellknown import BACKUP_SOURCE_POD
from tests.builders.session_lab import Lab, cluster
from tests.builders.values import pod


def train(pods: int, running: int) -> Lab:
    """A gang of which some pods run, and a backup for the first of them."""
    lab = cluster().nodes(pods + 1, chips=8)
    lab.job("train", pods=pods, chips=8, on=[f"n{at + 1}" for at in range(running)])
    backup = pod("train-backup", 8, group="train", annotations={BACKUP_SOURCE_POD: "train-0"})
    return lab.put(backup, lab["train"])


@pytest.mark.parametrize(
    ("pods", "running", "pending"),
    [
        pytest.param(2, 2, ["train-backup"], id="all members run"),
        pytest.param(3, 2, ["train-2"], id="a member is pending: it comes first"),
    ],
)
def test_backups_are_placed_after_the_members_of_their_gang(
    pods: int, running: int, pending: list[str]
) -> None:
    lab = train(pods, running)
    session = lab.session("gang")
    assert [one.name for one in pending_pods(session, lab["train"])] == pending
    assert has_pending_pods(session, lab["train"])


def test_a_backup_does_not_stand_in_for_a_member_that_is_not_created_yet() -> None:
    lab = train(3, 2)
    missing = lab["train"].pods.pop("train-2")
    lab["train"].changed()
    lab.state.drop_pod(missing.uid)
    session = lab.session("gang")
    assert pending_pods(session, lab["train"]) == []
    assert not has_pending_pods(session, lab["train"])
