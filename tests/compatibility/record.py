"""Writes samples of what this version writes: files, records for the next leader, JSON documents.

    .venv/bin/python -m tests.compatibility.record

A sample that exists is never written anew: it is what some version wrote. Documents come from the tests that
make them: with RINGWISE_WRITE_GOLDEN, `check_document` keeps the first one of each schema that has no sample.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from ringwise.apps.journal.format import header_line, snapshot_line
from ringwise.device.ledger_file import LedgerFile
from ringwise.messages.events import LeaderRecordRead
from ringwise.scheduler.cache import entries as entries_of_record
from ringwise.state.model import Isolation, NodeReservation
from ringwise.wellknown import SEGMENT_FAILED
from tests.actions.test_victims import fill, rig_of
from tests.builders.values import isolated
from tests.device.test_ledger_file import book
from tests.lab.rig import Terminal, job, nodes, running
from tests.place.part_cases import events_of, node_object, report_object
from tests.scheduler.core import test_limits
from tests.scheduler.core.test_reservation import lent
from tests.scheduler.core.test_run_time_limits import MINUTE, limit
from tests.scheduler.core.test_turns import Burning, slow_flood
from tests.scheduler.defragment.test_moves import apply, fragmented
from tests.scheduler.faults import fault_rig
from tests.scheduler.faults.test_failed_vnpus import NODE
from tests.scheduler.faults.test_failed_vnpus import rejected as rejected_vnpu
from tests.scheduler.faults.test_fault_edges import masked_fault
from tests.scheduler.faults.test_rejected_pods import ASCEND_JOB, reject, rig_with, turn
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


def ended() -> Rig:
    """A plan of moves that is done."""
    rig = moved()
    rig.run()
    rig.finish()
    rig.run()
    rig.run()
    return rig


def deleting() -> Rig:
    """A pod on a faulty chip terminates."""
    rdma = (("example.com/rdma", 1),)
    rig = Rig()
    for number in range(4):
        rig.node(f"n{number}", extended=rdma)
    labels = {**fault_rig.POD_LEVEL, "fault-scheduling": "grace"}
    rig.submit("train", pods=3, chips=8, labels=labels, extended=rdma)
    rig.run()
    rig.sick(str(rig.pods["train-1"].node), 1)
    rig.step()
    return rig


def retried() -> Rig:
    rig = fault_rig.running({"fault-scheduling": "grace", "pod-rescheduling": "on", "fault-retry-times": "1"})
    rig.change("train-2", phase="Failed", exit_code=1)
    rig.step()
    return rig


def tolerated() -> Rig:
    return masked_fault()[0]


def rejected() -> Rig:
    """Kubelet rejected a pod at admission."""
    rig = rig_with(ASCEND_JOB)
    reject(rig)
    turn(rig)
    return rig


def borrowed() -> Rig:
    """Job b uses chips beyond the limit of its queue, and job a has left it; users are known."""
    rig = Rig(6, actions=test_limits.WITH_RECLAIM, user_annotation="guarded")
    for queue in ("one", "two"):
        test_limits.limit_queue(rig, queue, max_chips=8, burst_chips=8)
    for name in ("a", "b"):
        rig.submit(name, chips=8, queue="one", preemptable=True, annotations=test_limits.user("ana"))
        rig.run()
    test_limits.move(rig, "a", "two")
    return rig


def failed_vnpu() -> Rig:
    """A vNPU could not be created on a chip."""
    rig = Rig()
    rig.tell(*events_of([node_object(NODE, None), report_object(NODE, None)]))
    rig.step()
    rejected_vnpu(rig.machine, rig.now, SEGMENT_FAILED)
    return rig


def reserved() -> Rig:
    rig = Rig(2)
    times = rig.now, rig.now + HOUR
    one = NodeReservation("course", ("n1",), *times, queue="research", by="ana", generation=2)
    rig.tell(replace(one, reason="course", selector=(("rack", "7"),)))
    rig.tell(isolated(Isolation("n2", ("Ascend910-3",), start=rig.now + HOUR, reason="optics", by="ana")))
    rig.step()
    return rig


SCENES: tuple[Callable[[], Rig], ...] = (
    *(rescheduled, limited, preempted, moved, lent),
    *(ended, deleting, retried, tolerated, rejected, borrowed, reserved, failed_vnpu),
)


def records() -> Iterator[bytes]:
    for scene in SCENES:
        rig = scene()
        view = rig.machine.view
        yield header_line(view.configuration, ["volcano"], scene.__name__, 1)
        yield snapshot_line(1, rig.now, view.current_events())


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


HOUR = 3_600_000_000_000
START = 500_000 * HOUR


def throttled() -> bytes:
    """The record while a namespace is throttled."""
    burning = Burning(slow_flood)
    burning.submit("flood", *(f"never{number}" for number in range(45)), fits=False)
    burning.turn()
    burning.submit("quiet", "job")
    burning.turn(1)
    return data_of(burning.rig)


def compressed_record() -> bytes:
    """A record with a compressed entry, as that of a job of many pods."""
    with patch.object(entries_of_record, "LARGE_ENTRY", 300):
        return data_of(deleting())


def data_of(rig: Rig) -> bytes:
    """The record as the data of a ConfigMap."""
    (record,) = (one for one in rig.machine.view.current_events() if isinstance(one, LeaderRecordRead))
    return json.dumps(dict(record.tables), indent=1).encode() + b"\n"


def support_bundle() -> bytes:
    with tempfile.TemporaryDirectory() as path:
        folder, file = Path(path, "lab"), Path(path, "bundle.tar.gz")
        terminal = Terminal(folder)
        with running(folder, nodes(3)):
            terminal.submit(job("train", 2, 8), job("waits", 2, 8))
            terminal.ok("advance 1m")
            terminal.ok(f"support-bundle {file}")
        return file.read_bytes()


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
    "records-v2.jsonl": lambda: b"".join(records()),
    "mounts-v1.jsonl": mounts,
    "compressed-record-v2.json": compressed_record,
    "throttled-v2.json": throttled,
    "support-bundle-v1.tar.gz": support_bundle,
}


def main() -> None:
    for name, content in FILES.items():
        if not (SAMPLES / name).exists():
            (SAMPLES / name).write_bytes(content())


if __name__ == "__main__":
    main()
