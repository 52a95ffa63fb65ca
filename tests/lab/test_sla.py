"""The plugin sla acts on vcjobs: their annotation reaches the PodGroup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ringwise.state.model import PodGroup
from tests.lab.rig import SMALL, Terminal, job, running

CONFIGURATION = """actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: sla
- plugins:
  - name: overcommit
  - name: topology910
"""


@pytest.mark.parametrize("key", ["sla-waiting-time", "volcano.sh/sla-waiting-time"])
def test_a_job_that_waited_as_long_as_it_may_is_admitted(tmp_path: Path, key: str) -> None:
    """It asks for more than the cluster has: no other plugin lets it in."""
    terminal = Terminal(tmp_path)
    text = job("large", 9, 8).replace("namespace: lab}", f"namespace: lab, annotations: {{{key}: 30s}}}}")
    with running(tmp_path, replace(SMALL, configuration=(CONFIGURATION, "sla.conf"))) as server:
        terminal.submit(text)
        terminal.ok("advance 20s")
        (group,) = server.live.cluster.all(PodGroup)
        assert (group.annotations, group.phase) == ({key: "30s"}, "Pending")
        terminal.ok("advance 20s")
        (group,) = server.live.cluster.all(PodGroup)
        assert group.phase == "Inqueue"
        assert len(terminal.json("get pods")["pods"]) == 9
