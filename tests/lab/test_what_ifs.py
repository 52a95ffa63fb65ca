"""A what-if is answered from what the lab's scheduler holds, keeps and reserves for other jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from ringwise.apps.lab.api import LabServer
from ringwise.apps.live import LiveCluster
from ringwise.apps.sources.cluster import ClusterSource
from ringwise.kubeclient.config import direct
from ringwise.manifests.bundle import Bundle, read_bundle
from ringwise.manifests.kinds import STORED
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.state.model import NodeReport
from ringwise.wellknown import RECORD_CONFIG_MAPS, VOLCANO_SYSTEM
from tests.lab.rig import Terminal, job, nodes, queue, running
from tests.lab.test_job_history import fault_job
from tests.place.asking import configuration_text


def asked(server: LabServer, manifest: str) -> tuple[str, ...]:
    """What becomes of a job by `place --lab`, `submit --dry-run` and `kubectl ringwise place`, in this order.

    None of them changes anything. The last one has the objects alone, and what the scheduler has written.
    """
    lab = server.live.folder.path
    terminal = Terminal(lab)
    (placed,) = json.loads(terminal.run(f"place --lab {lab} -f - -o json", manifest).stdout)["jobs"]
    (submitted,) = terminal.json("submit - --dry-run", manifest)["jobs"]
    cluster = server.live.cluster
    objects = Bundle({kind: cluster.all(kind) for kind in STORED if kind is not NodeReport})
    objects.written = cluster.published_data(VOLCANO_SYSTEM, RECORD_CONFIG_MAPS)
    live = LiveCluster(objects, server.live.configuration)
    source = ClusterSource(direct("http://stand-in"), shipped_catalog(()), now=server.live.now, live=live)
    (asked,) = source.place(read_bundle(["-"], stdin=manifest.encode())).jobs
    return placed["state"], submitted["state"], asked.state


def test_chips_that_are_reserved_for_a_job_that_waited_long_are_not_promised(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    text = configuration_text({"reservation-after": "60"})
    with running(tmp_path, replace(nodes(2), configuration=(text, "conf"))) as server:
        terminal.submit(job("runs", 1, 8))
        terminal.ok("advance 5s")
        terminal.submit(job("long", 2, 8))
        terminal.ok("advance 5s")
        other = job("other", 1, 8)
        assert asked(server, other) == ("scheduled",) * 3
        terminal.ok("advance 2m")
        assert asked(server, other) == ("pending",) * 3
        # The scheduler decides the same.
        terminal.submit(other)
        terminal.ok("advance 5s")
        assert "lab/other-worker-0" not in terminal.seats()


def test_S9_nodes_that_are_held_for_a_restarting_job_are_not_promised(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2)) as server:
        terminal.submit(fault_job("train", 2, **{"fault-scheduling": "grace"}))
        terminal.ok("advance 1m")
        terminal.ok("fault inject chip node-1 3")
        terminal.ok("advance 40s")
        assert not terminal.seats()
        other = job("other", 1, 8)
        assert asked(server, other) == ("pending",) * 3
        terminal.ok("advance 3m")
        assert asked(server, other) == ("scheduled",) * 3


def test_F6_quota_that_is_kept_for_lost_pods_is_not_promised(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(3)) as server:
        terminal.submit(queue("capped", chips=16), job("train", 2, 8, queue="capped"))
        terminal.submit(job("fills", 1, 4))
        terminal.ok("advance 1m")
        where = terminal.seats()["lab/train-worker-1"][0]
        terminal.ok(f"drain {where} --yes --force")
        terminal.ok("advance 22s")
        other = job("other", 1, 4, queue="capped")
        assert asked(server, other) == ("pending",) * 3
        terminal.ok("advance 3m")
        assert asked(server, other) == ("scheduled",) * 3
