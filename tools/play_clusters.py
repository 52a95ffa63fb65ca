"""Run steps on embedded clusters with the sources of one revision, and print what the scheduler decided.

Each line of standard input is a cluster: its configuration and its steps. Each line of standard output has an
entry per step: the commands of every turn, the list of jobs, and `why` of every pending job.
`tools/compare_decisions.py` starts it once per revision; a revision that has this file runs its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from ringwise.apps.journal.format import plain_command
from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.lab import FleetSettings, LabSettings, LiveLab
from ringwise.apps.lab.queries import QUERIES, LabAnswers
from ringwise.apps.lab.submission import submission_of
from ringwise.apps.reservations import ReservationRequest, reservation_of
from ringwise.apps.sources.documents import find_name
from ringwise.apps.suspension import JobChangeRequest, NotPossibleError
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.records import ObjectRefusedError
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.objects.custom_resources import CustomResourceWire
from ringwise.manifests.objects.move_plans import move_plan_from_wire
from ringwise.manifests.text.errors import DocumentError, Findings
from ringwise.scheduler.journal import Batch, Journal
from ringwise.state.model import Isolation, Pod

#: 2026-01-10T08:00:00Z.
START = 1_768_032_000 * SECOND
_REFUSED = (ObjectRefusedError, NotPossibleError, DocumentError, LookupError, ValueError)


class Player:
    """One embedded cluster, and what its scheduler has decided since the last step."""

    def __init__(self, folder: Path, configuration: str) -> None:
        self.live = LiveLab(
            LabFolder(folder),
            LabSettings(
                fleet=FleetSettings(nodes=0),
                configuration=(configuration, "configuration"),
                simulation=SimulationSettings(default_duration=420 * SECOND),
                speed=None,
                journal_bytes=0,
                start=START,
            ),
        )
        self.turns: list[Any] = []
        self.answer: Any = None
        self.steps = 0
        self._follow()

    def _follow(self) -> None:
        def turn(batch: Batch) -> None:
            if batch.commands:
                self.turns.append([batch.now, [plain_command(command) for command in batch.commands]])

        self.live.scheduler.journal = Journal(self.live.configuration, keep=1, sink=turn)

    def play(self, step: dict[str, Any]) -> dict[str, Any]:
        self.turns, self.answer, refused = [], None, None
        values = dict(step)
        try:
            getattr(self, values.pop("do"))(**values)
        except _REFUSED as error:
            refused = str(error)
        answers = LabAnswers(self.live, estimates_anew=False)
        jobs = answers.get("jobs")["jobs"]
        pending = [f"{job['namespace']}/{job['name']}" for job in jobs if job["state"] == "pending"]
        # An explanation tries many placements: a third of them after each step.
        self.steps += 1
        return {
            "refused": refused,
            "turns": self.turns,
            "answer": self.answer,
            "jobs": jobs,
            "why": {name: answers.why(name) for name in pending[self.steps % 3 :: 3]},
            "wrong": self.live.view.inconsistencies(),
        }

    # -- steps -------------------------------------------------------------------------------------

    def submit(self, objects: list[Any]) -> None:
        """All at once, or each by itself if one of them is refused."""
        try:
            self._submit({"apiVersion": "v1", "kind": "List", "items": objects})
        except _REFUSED:
            refused = []
            for one in objects:
                try:
                    self._submit(one)
                except _REFUSED as error:
                    refused.append(str(error))
            raise ValueError("\n".join(refused)) from None

    def _submit(self, document: Any) -> None:
        bundle = read_bundle(["-"], stdin=json.dumps(document).encode())
        submission, problems = submission_of(bundle)
        if problems := [*map(str, bundle.errors), *problems]:
            raise ValueError("\n".join(problems))
        self.live.submit(submission)

    def advance(self, seconds: int) -> None:
        end = self.live.now + seconds * SECOND
        while (due := self.live.lab.next_deadline()) is not None and due < end:
            self.live.advance(due - self.live.now)
        self.live.advance(end - self.live.now)

    def fault(self, kind: str, node: str, **described: Any) -> None:
        self.live.inject_fault(kind, [node], **described)

    def clear(self, kind: str, node: str, chips: list[int]) -> None:
        self.live.clear_faults(kind, [node], chips=chips)

    def drain(self, node: str) -> None:
        self.live.cordon([node])
        self.live.evict([pod.key for pod in self.live.cluster.all(Pod) if pod.node == node and pod.live])

    def uncordon(self, node: str) -> None:
        self.live.cordon([node], on=False)

    def isolate(self, node: str, on: bool) -> None:
        self.live.isolate(Isolation(node), on=on)

    def reserve(self, node: str, queue: str, seconds: int, name: str) -> None:
        wish = ReservationRequest((node,), f"queue={queue}", "now", f"{seconds}s", name)
        self.live.reserve(reservation_of(self.live.objects, wish, self.live.now))

    def unreserve(self, name: str) -> None:
        self.live.unreserve(name)

    def change(self, job: str, action: str, queue: str | None = None) -> None:
        self.live.change_job(
            find_name(self.live.objects, "job", job), JobChangeRequest(action, queue), "compared"
        )

    def delete(self, kind: str, name: str) -> None:
        self.live.delete([(kind, find_name(self.live.objects, kind, name))])

    def move(self) -> None:
        for body in LabAnswers(self.live).move_plans().objects[:1]:
            self.live.move(
                move_plan_from_wire(msgspec.convert(body, CustomResourceWire), Findings("MovePlan"))
            )

    def restart(self) -> None:
        self.live.restart_scheduler()
        self._follow()
        self.live.turn()

    def restart_controller(self) -> None:
        self.live.lab.replace_controller(Controller())
        self.live.turn()

    def ask(self, query: str, **parameters: Any) -> None:
        self.answer = QUERIES[query](LabAnswers(self.live), parameters)


def _plain(value: object) -> object:
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else str(value)


def play(cluster: dict[str, Any]) -> list[Any]:
    with TemporaryDirectory(prefix="ringwise-compare-") as folder:
        player = Player(Path(folder), cluster["configuration"])
        try:
            played = [player.play(step) for step in cluster["steps"]]
            plain: list[Any] = json.loads(json.dumps(played, default=_plain))
            return plain
        finally:
            player.live.close()


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(play(json.loads(line))) + "\n")
        sys.stdout.flush()
