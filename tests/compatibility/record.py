"""Writes samples of what this version writes: files, records for the next leader, JSON documents.

    python -m tests.compatibility.record

A sample that exists is never written anew: it is what some version wrote. Documents come from the tests that
make them: with RINGWISE_WRITE_GOLDEN, `check_document` keeps the first one of each schema that has no sample.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ringwise.apps.journal.format import header_line, snapshot_line
from ringwise.device.ledger_file import LedgerFile
from ringwise.manifests.config_maps.move_plan import move_plan_data
from ringwise.messages.move_plan import MovePlan
from ringwise.wellknown import MOVE_PLAN_KEY
from tests.actions.test_victims import fill, rig_of
from tests.device.test_ledger_file import book
from tests.lab.rig import Terminal, job, nodes, running
from tests.scheduler.core.test_reservation import lent
from tests.scheduler.core.test_run_time_limits import MINUTE, limit
from tests.scheduler.defragment.test_moves import apply, fragmented
from tests.scheduler.faults.test_reschedule_clock import waiting_for_a_node
from tests.scheduler.rig import Rig
from tests.tools.schemas import SAMPLES

# -- records: the objects of a scheduler and what it writes about them -----------------------------------


def rescheduled() -> Rig:
    """A pod of a job was lost with a chip, and its replacement waits; others avoid the chip."""
    rig, _ = waiting_for_a_node()
    rig.step(5)
    return rig


def limited() -> Rig:
    rig = Rig(1)
    limit(rig, "1h")
    rig.submit("train", chips=8)
    rig.run()
    rig.step(55 * MINUTE)
    return rig


def preempted() -> Rig:
    rig = rig_of(2)
    fill(rig, ("b", 100), ("a", 10))
    rig.submit("boss", chips=8, priority="high")
    rig.run()
    return rig


def moved() -> Rig:
    rig, plan = fragmented()
    apply(rig, plan)
    return rig


SCENES: tuple[Callable[[], Rig], ...] = (rescheduled, limited, preempted, moved, lent)


def records() -> Iterator[bytes]:
    for scene in SCENES:
        rig = scene()
        view = rig.machine.view
        yield header_line(view.configuration, ["volcano"], scene.__name__, 1)
        yield snapshot_line(1, rig.now, view.known_events())


# -- files -----------------------------------------------------------------------------------------------


def lab(folder: Path) -> None:
    terminal = Terminal(folder)
    with running(folder, nodes(3)):
        terminal.submit(job("train", 2, 8, minutes=10), job("small", 1, 2), job("waits", 2, 8))
        terminal.ok("advance 1m")
        terminal.ok("fault inject chip node-0 3")
        terminal.ok("advance 20m")
        terminal.ok("suspend small")
        terminal.ok("advance 1m")


def mounts() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = LedgerFile(Path(folder) / "mounts.jsonl")
        file.save(book("a", "b"))
        file.close()
        return file.path.read_bytes()


def move_plan() -> bytes:
    _, plan = fragmented()
    assert isinstance(plan, MovePlan)
    return move_plan_data(plan)[MOVE_PLAN_KEY].encode()


def lab_files() -> bytes:
    """The database, the journal and the accounting documents of a lab."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        lab(folder)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz") as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and file.suffix in (".db", ".json", ".jsonl"):
                    entry = tarfile.TarInfo(str(file.relative_to(folder)))
                    entry.size = file.stat().st_size
                    archive.addfile(entry, io.BytesIO(file.read_bytes()))
        return packed.getvalue()


#: Name of the sample, with the version that it has -> what this version writes.
FILES: dict[str, Callable[[], bytes]] = {
    "lab-v1.tar.xz": lab_files,
    "records-v1.jsonl": lambda: b"".join(records()),
    "mounts-v1.jsonl": mounts,
    "move-plan-v1.json": move_plan,
}


def main() -> None:
    for name, content in FILES.items():
        if not (SAMPLES / name).exists():
            (SAMPLES / name).write_bytes(content())


if __name__ == "__main__":
    main()
