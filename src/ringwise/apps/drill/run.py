"""Runs a drill in virtual time: a lab of its own, the steps one after the other, and what came of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from ringwise.apps.drill.expectations import Before, PlacedRank, job_named, places_of, problems_of
from ringwise.apps.drill.file import (
    ALL,
    Clear,
    Delete,
    Drill,
    DrillStep,
    DrillTarget,
    Expect,
    Inject,
    Names,
    NewJob,
    PodOf,
    Report,
    RestartedPart,
    Span,
)
from ringwise.apps.journal.format import plain_command
from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.lab import FleetSettings, LabSettings, LiveLab
from ringwise.apps.lab.submission import submission_of
from ringwise.apps.sources.documents import find_name
from ringwise.apps.targets import Target, find_target
from ringwise.controller.machine import Controller
from ringwise.durations import SECOND, duration_text, time_text
from ringwise.embed.loop import NotConvergingError
from ringwise.embed.objects import ConflictError
from ringwise.embed.records import ObjectRefusedError
from ringwise.framework.configuration import SETTINGS_ENTRY
from ringwise.grammar import agrees
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.text.errors import DocumentError
from ringwise.scheduler.explain.job_history import HistoryBook, HistoryEntry
from ringwise.scheduler.journal import Batch, Journal
from ringwise.state.model import Pod
from ringwise.views.documents.maintenance import DrillFields, DrillStepFields
from ringwise.views.history import seconds, timeline_fields
from ringwise.wellknown import BATCH_API, EXPECTED_DURATION, SIMULATE, VOLCANO_SCHEDULER

#: 2026-01-01T00:00:00Z: every run of a drill is the same.
START = 1_767_225_600 * SECOND
#: Moments at which something happens that one step may pass.
MAX_MOMENTS = 100_000

#: Kinds of steps in documents, where they are not called as in the file.
_KINDS = {"clear": "fault", "cordon": "nodeaction", "uncordon": "nodeaction", "drain": "nodeaction"}
STEP, HOLDS, FAILS, MALFORMED = "step", "holds", "FAILS", "malformed"
#: Problems of one report that are shown.
MAX_PROBLEMS = 5
#: The key of the job, empty for steps; and what happened.
TimelineEntry = tuple[str, HistoryEntry]


class DrillStepError(Exception):
    """A step that cannot be carried out: where and why."""


#: Gets the lab, `explain` or `show`, and the heading or the command.
Play = Callable[[LiveLab, str, str], None]


def run_drill(drill: Drill, play: Play = lambda live, action, words: None) -> DrillFields:
    """Raises DrillStepError for a step that is impossible: a node or a job that is not there."""
    with TemporaryDirectory(prefix="ringwise-drill-") as path:
        try:
            live = LiveLab(LabFolder(Path(path)), _lab_settings(drill))
        except (DocumentError, ValueError) as error:
            raise DrillStepError(f"{drill.path}: {error}") from None
        try:
            return _Run(drill, live, play).run()
        finally:
            live.close()


def _lab_settings(drill: Drill) -> LabSettings:
    wanted = drill.cluster
    fleet = FleetSettings(
        wanted.nodes, wanted.board, wanted.leaf_size, wanted.superpod_size, wanted.soft, wanted.dynamic
    )
    return LabSettings(
        fleet=fleet,
        configuration=(_configuration(drill), "settings") if drill.settings else None,
        speed=None,
        journal_bytes=0,
        start=START,
        mount_method=wanted.device_plugin,
    )


def _configuration(drill: Drill) -> str:
    """The settings of the drill, all else by default; JSON is YAML, too."""
    return json.dumps({"configurations": [{"name": SETTINGS_ENTRY, "arguments": dict(drill.settings)}]})


class _Run:
    def __init__(self, drill: Drill, live: LiveLab, play: Play) -> None:
        self._drill = drill
        self._play = play
        self._live = live
        self._book = HistoryBook()
        #: Entries of histories that are in the timeline, by id.
        self._shown: dict[int, HistoryEntry] = {}
        self._steps: list[DrillStepFields] = []
        self._timeline: list[TimelineEntry] = []
        self._before = Before()
        self._follow()

    def _follow(self) -> None:
        """Every turn of the present scheduler becomes a part of the histories."""
        live = self._live

        def turn(batch: Batch) -> None:
            commands = [plain_command(command) for command in batch.commands]
            self._book.turn(batch.now, batch.events, commands)

        live.scheduler.journal = Journal(live.configuration, keep=1, sink=turn)

    def run(self) -> DrillFields:
        self._live.turn()
        for number, step in enumerate(self._drill.steps):
            what = step.what
            kind = _KINDS.get(step.action, step.action)
            now, text = self._live.now, step_text(step)
            result = DrillStepFields(
                number=number, kind=kind, message=text, time=time_text(now), passed=None, problems=[]
            )
            self._steps.append(result)
            if not isinstance(what, Expect) and not (isinstance(what, Report) and what.refused is not None):
                self._timeline.append(_entry(now, STEP, text))
            try:
                self._carry_out(step, result)
            except (ObjectRefusedError, ConflictError, LookupError, DocumentError, ValueError) as error:
                where = f"{self._drill.path}: steps[{number}]"
                lines = [f"{where}: {line}" for line in str(error).splitlines()]
                raise DrillStepError("\n".join(lines)) from None
            except NotConvergingError as error:
                raise DrillStepError(f"{self._drill.path}: steps[{number}]: {error}") from None
            self._show_histories()
            if result.passed is not None:
                words = text if result.passed else f"{text}: {'; '.join(result.problems)}"
                kind = HOLDS if result.passed else FAILS
                self._timeline.append(_entry(self._live.now, kind, words))
        return DrillFields(
            file=str(self._drill.path),
            title=self._drill.title,
            passed=all(step.passed is not False for step in self._steps),
            virtual_seconds=seconds(self._live.now - START),
            steps=self._steps,
            timeline=timeline_fields(START, self._timeline),
        )

    def _show_histories(self) -> None:
        """What happened to the jobs since the last step, in the order of time."""
        new: list[tuple[int, int, TimelineEntry]] = []
        for key, history in self._book.jobs.items():
            for entry in history.entries:
                if id(entry) not in self._shown:
                    self._shown[id(entry)] = entry
                    new.append((entry.at, len(new), (key, entry)))
        self._timeline += [entry for _, _, entry in sorted(new, key=lambda one: one[:2])]

    # -- steps -------------------------------------------------------------------------------------

    def _carry_out(self, step: DrillStep, result: DrillStepFields) -> None:
        live = self._live
        match step.what:
            case Span() as nanoseconds:
                self._pass(nanoseconds)
            case Names() as commands:
                for command in commands:
                    self._play(live, step.action, command)
            case str() as heading if step.action == "explain":
                self._play(live, step.action, heading)
            case Report() as report:
                self._report(report, result)
            case Delete() as deleted:
                self._remember()
                kind, name = deleted.named
                live.delete([(kind, find_name(live.objects, kind, name))])
            case Expect() as expected:
                result.problems = self._expect(expected)
                result.passed = not result.problems
            case RestartedPart("scheduler"):
                live.restart_scheduler()
                self._book.scheduler_started(live.now)
                self._follow()
                live.turn()
            case RestartedPart():
                live.lab.replace_controller(Controller())
                live.turn()
            case (str() | NewJob()) as job if step.action == "submit":
                self._submit(job)
            case "all" if step.action == "clear":
                self._remember()
                live.clear_faults(None, ())
            case Clear() as fault:
                self._remember()
                self._fault(fault)
            case (str() | int() | PodOf()) as target:
                self._remember()
                nodes = self._nodes(target).nodes
                live.cordon(nodes, on=step.action != "uncordon")
                if step.action == "drain":
                    live.evict([pod.key for pod in live.cluster.all(Pod) if pod.node in nodes and pod.live])

    def _submit(self, job: str | NewJob) -> None:
        if isinstance(job, NewJob):
            bundle = read_bundle(["-"], stdin=json.dumps(vcjob_manifest(job)).encode())
        else:
            # Relative to the drill.
            bundle = read_bundle([str(self._drill.path.parent / job)])
        submission, problems = submission_of(bundle)
        problems = [*map(str, bundle.errors), *problems]
        if problems:
            raise ObjectRefusedError("\n".join(problems))
        self._live.submit(submission)

    def _pass(self, nanoseconds: int) -> None:
        """Let time pass, moment by moment."""
        end = self._live.now + nanoseconds
        for _ in self._moments(end):
            pass

    def _moments(self, end: int) -> Iterator[None]:
        """Every moment up to the end at which something happens, and the end."""
        live = self._live
        for _ in range(MAX_MOMENTS):
            due = live.lab.next_deadline()
            if due is None or due >= end:
                live.advance(end - live.now)
                yield
                return
            live.advance(due - live.now)
            yield
        raise ObjectRefusedError(f"more than {MAX_MOMENTS} events within one step")

    def _fault(self, step: Clear) -> None:
        live = self._live
        text = step.target
        if step.kind == "superpod" and not isinstance(text, PodOf) and not str(text).startswith("superpod/"):
            text = f"superpod/{text}"
        nodes = self._nodes(text).nodes
        chips: tuple[int, ...] = step.chips or ()
        if isinstance(step, Inject):
            if step.chips in (None, ALL) and step.kind == "chip" and isinstance(step.target, PodOf):
                chips = self._place(step.target).chips[:1]
            live.inject_fault(
                str(step.kind), nodes, chips=chips, level=step.level, code=step.code, status=step.status
            )
        else:
            live.clear_faults(str(step.kind), nodes, chips=chips, code=step.code)

    def _report(self, step: Report, result: DrillStepFields) -> None:
        """No hardware fails: the next expectations compare with the state before the last fault."""
        node = self._place(step.target).node if isinstance(step.target, PodOf) else str(step.target)
        problems = self._live.put_report(node, str(step.kind), step.text)
        for line in problems[:MAX_PROBLEMS]:
            self._timeline.append(_entry(self._live.now, MALFORMED, line))
        if step.refused is not None:
            result.passed = any(step.refused in line for line in problems)
            if not result.passed:
                result.problems = problems[:MAX_PROBLEMS] or ["it can be read"]

    def _nodes(self, target: DrillTarget) -> Target:
        name = self._place(target).node if isinstance(target, PodOf) else str(target)
        return find_target(self._live.view, name)

    def _place(self, target: PodOf) -> PlacedRank:
        """Where the pod is; the place before the last fault, if it has none now."""
        key = job_named(self._live, target.job).key
        now = places_of(self._live, target.job).get(target.rank)
        result = now if now is not None and now.node else self._before.places.get(key, {}).get(target.rank)
        if result is None or not result.node:
            raise LookupError(f"rank {target.rank} of {target.job} has no node")
        return result

    def _remember(self) -> None:
        """What the next expectations compare with: where every pod is now, and how far the histories are."""
        self._before.remember(self._live, self._book)

    # -- expectations --------------------------------------------------------------------------------

    def _expect(self, step: Expect) -> list[str]:
        live = self._live
        job_named(live, step.job)

        def problems() -> list[str]:
            return list(problems_of(live, step, self._before, self._book))

        result = problems()
        if step.throughout is not None:
            end = live.now + step.throughout
            for _ in self._moments(end):
                if result:
                    break
                result = problems()
        elif step.within is not None and result:
            limit = live.now + step.within
            for _ in self._moments(limit):
                result = problems()
                if not result:
                    break
        return result


def _entry(at: int, kind: str, text: str) -> TimelineEntry:
    return "", HistoryEntry(at, kind, text)


def vcjob_manifest(job: NewJob) -> dict[str, object]:
    """The job of a drill as a user would write it."""
    own: dict[str, str | None] = {}
    if job.duration is not None:
        own[EXPECTED_DURATION] = job.duration.text
    if job.simulate is not None:
        own[SIMULATE] = job.simulate
    limits = {"limits": {job.resource: job.chips}} if job.chips else {}
    labels, annotations = dict(job.labels), {**job.annotations, **own}
    return {
        "apiVersion": BATCH_API,
        "kind": "Job",
        "metadata": {"name": job.name, "namespace": "default", "labels": labels, "annotations": annotations},
        "spec": {
            "schedulerName": VOLCANO_SCHEDULER,
            **({} if job.queue is None else {"queue": job.queue}),
            "minAvailable": job.pods if job.min_available is None else job.min_available,
            "tasks": [
                {
                    "name": "worker",
                    "replicas": job.pods,
                    "template": {
                        "metadata": {"labels": {**labels, **job.pod_labels}, "annotations": annotations},
                        "spec": {"containers": [{"name": "train", "image": "train", "resources": limits}]},
                    },
                }
            ],
        },
    }


def step_text(step: DrillStep) -> str:
    """A step in a few words."""
    match step.what:
        case NewJob() as job:
            pods = f"{job.pods} {agrees(job.pods, 'pod', 'pods')}"
            return f"submit {job.name}: {pods} of {job.chips} {agrees(job.chips, 'chip', 'chips')}"
        case Span() as nanoseconds:
            return f"advance {duration_text(nanoseconds)}"
        case Clear() as fault:
            chips = "" if not fault.chips else f" {', '.join(map(str, fault.chips))}"
            more = [
                word for word in (getattr(fault, name, "") for name in ("level", "code", "status")) if word
            ]
            action = "inject" if isinstance(fault, Inject) else "clear"
            what = f"{action} {fault.kind}{chips} of {fault.target}"
            return what + (f" ({', '.join(more)})" if more else "")
        case Report() as report:
            refused = "" if report.refused is None else f', refused: "{report.refused}"'
            what = f"{report.kind} report of {report.target}{refused}"
            return f"write {len(report.text)} characters as the {what}"
        case Delete() as deleted:
            return f"delete {' '.join(deleted.named)}"
        case Expect() as expected:
            return f"expect {_expectation_text(expected)}"
        case Names() as commands:
            return f"show {', '.join(commands)}"
    if step.action == "clear":
        return "clear all faults"
    return f"restart the {step.what}" if step.action == "restart" else f"{step.action} {step.what}"


def _expectation_text(step: Expect) -> str:
    words = [f"{step.phase}" if step.phase is not None else ""]
    words += [f"{step.placed} placed" if step.placed is not None else ""]
    words += [f"{step.running} running" if step.running is not None else ""]
    for name in ("untouched", "returned", "moved"):
        ranks = getattr(step, name)
        if ranks is not None:
            words.append(f"{name} {', '.join(map(str, ranks)) if ranks else 'all'}")
    words += [f"rank {rank} on {node}" for rank, node in step.nodes.items()]
    words += [f"not on {', '.join(step.avoids)}" if step.avoids else ""]
    words += [f"waits for {step.reason}" if step.reason is not None else ""]
    words += [f'history has "{text}"' for text in step.history]
    if step.within is not None:
        words.append(f"within {duration_text(step.within)}")
    if step.throughout is not None:
        words.append(f"for {duration_text(step.throughout)}")
    return f"{step.job}: {', '.join(word for word in words if word)}"
