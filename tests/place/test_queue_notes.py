"""What `place` says about queues and pods that a cluster would refuse."""

from __future__ import annotations

from click.testing import CliRunner

from ringwise.cli.commands import cli
from tests.lab.rig import pod, queue


def test_new_queues_that_a_cluster_refuses_are_told() -> None:
    wrong = queue("team").replace("weight: 1", "weight: 1, parent: dept")
    ran = CliRunner().invoke(cli, ["place", "-f", "-"], input=wrong)
    assert ran.exit_code == 0
    assert "queue team: failed to get parent queue: its parent dept does not exist" in ran.stderr
    # Queues of a cluster are used as they are.
    known = wrong.replace("name: team", "name: team, uid: u-1, creationTimestamp: '2026-01-01T00:00:00Z'")
    assert "its parent" not in CliRunner().invoke(cli, ["place", "-f", "-"], input=known).stderr


def test_a_wrong_disruption_budget_of_a_new_pod_is_an_error() -> None:
    wrong = pod("alone", 1).replace(
        "metadata: {", "metadata: {annotations: {volcano.sh/jdb-min-available: 0%}, ", 1
    )
    ran = CliRunner().invoke(cli, ["place", "-f", "-"], input=wrong)
    assert ran.exit_code == 2
    assert "must be a positive integer or a valid percentage which between 1% ~ 99%" in ran.stderr
