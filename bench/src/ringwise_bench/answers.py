"""`ringwise bench answers`: what questions cost, and what they cost the thread that decides.

A lab of 5,000 nodes with 2,000 jobs that run and 800 that wait for admission, then with 644 more whose pods
exist and wait; all on processor time. A placement is one turn of the scheduler on that cluster in which one
waiting job is tried. Ten readers ask without pause while a thread decides; copies of the process answer them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import StringIO
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from tempfile import TemporaryDirectory

import msgspec

from ringwise.apps.forked_queries import Copy, ForkedQueries, TooManyQuestionsError
from ringwise.apps.lab.folder import LabFolder
from ringwise.apps.lab.lab import FleetSettings, LabSettings, LiveLab, copy_of
from ringwise.apps.lab.maintenance import plan_drain, without_many_waiting
from ringwise.apps.lab.queries import QUERIES, LabAnswers, status_document
from ringwise.apps.lab.submission import submission_of
from ringwise.apps.live import LiveCluster, add_object, finish, kinds_to_read
from ringwise.apps.queries import count_capacity, examine, explain_job
from ringwise.apps.support.bundle_file import Contents, write_bundle
from ringwise.apps.targets import find_target
from ringwise.cli.output import WIDE
from ringwise.cli.printers.kinds import DRAWINGS
from ringwise.cli.printers.lines import PlainConsole
from ringwise.framework.job import Job
from ringwise.kubeclient.list_watch import raw_page
from ringwise.kubeclient.resources import VCJOBS
from ringwise.manifests.bundle import read_text
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.messages.expected_start import ExpectedStart
from ringwise.records import dataclass
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.explain.forecast import estimates, forecast
from ringwise.state.model import EMPTY, Pod, PodClass, PodGroup
from ringwise.views.cluster import job_views, node_documents, top_document, with_reasons
from ringwise.views.kinds import BY_PLURAL
from ringwise.wellknown import ASCEND910, EXPECTED_DURATION, VOLCANO_SCHEDULER
from ringwise_bench.list import NODE_COUNT, node_object, pages, pod_object
from ringwise_bench.report import Figure, at_most, frozen, shown, timed

NODES, RUNNING, WAITING, LEAF = 5_000, 2_000, 800, 40
#: Jobs that wait with pods, beside those that wait for admission to their queue.
TRIED = 644
READERS, GANG = 10, 100
MAX_LIST, MAX_WHY, MAX_ESTIMATE, MAX_DRAIN, MAX_CAPACITY, MAX_SHARE = 20.0, 300, 300, 50, 2_000, 1.3
MAX_ESTIMATES = 5.0
MAX_ROWS, MAX_CYCLES, MAX_DOCTOR, MAX_BUNDLE = 5.0, 20, 10, 10
#: Equal runs that differ by more judge nothing.
_EQUAL = 1.1
#: Seconds of one measurement of the thread that decides, and pairs of them.
_WINDOW, _PAIRS = 2.0, 3
_SECOND = 1_000_000_000
_START = 1_760_000_000 * _SECOND
#: Pods and chips of the jobs in turn.
_RUNNING = ((1, 8), (2, 8), (4, 8), (1, 4), (1, 2), (8, 8), (1, 1), (2, 8))
_WAITING = ((2, 8), (4, 8), (1, 8), (8, 8))
_TRIED = 20


@contextmanager
def cluster(nodes: int, running: int) -> Iterator[LiveLab]:
    """A lab with so many jobs that run, and some nodes that are free."""
    with TemporaryDirectory(prefix="ringwise-bench-") as path:
        settings = LabSettings(
            FleetSettings(nodes, "910-x8", LEAF), speed=None, journal_bytes=0, start=_START
        )
        live = LiveLab(LabFolder(Path(path)), settings)
        try:
            live.turn()
            submit(live, "run", running, _RUNNING, hours=50)
            live.advance(10 * _SECOND)
            yield live
        finally:
            live.close()


def submit(live: LiveLab, name: str, jobs: int, shapes: Sequence[tuple[int, int]], hours: int = 0) -> None:
    documents = []
    for number in range(jobs):
        notes = {EXPECTED_DURATION: f"{1 + number % hours}h"} if hours else {}
        documents.append(job_text(f"{name}-{number}", *shapes[number % len(shapes)], notes))
    submission, _ = submission_of(read_text("\n---\n".join(documents).encode(), "bench"))
    live.submit(submission)


def job_text(name: str, pods: int, chips: int, notes: Mapping[str, str] = EMPTY) -> str:
    amounts = {ASCEND910: chips}
    container = {"name": "main", "image": "a", "resources": {"requests": amounts, "limits": amounts}}
    template = {"metadata": {"annotations": dict(notes)}, "spec": {"containers": [container]}}
    document = {
        "apiVersion": VCJOBS.version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {
            "schedulerName": VOLCANO_SCHEDULER,
            "minAvailable": pods,
            "tasks": [{"name": "worker", "replicas": pods, "template": template}],
        },
    }
    return json.dumps(document)


def free_nodes(live: LiveLab) -> int:
    masks = live.view.cluster.fleets[ASCEND910].free_mask
    return sum(mask.bit_count() == 8 for mask in masks)


def job_named(live: LiveLab, name: str) -> Job:
    return next(job for job in live.view.jobs.values() if job.group is not None and _owner(job) == name)


def _owner(job: Job) -> str:
    owner = job.group.owner if job.group is not None else None
    return "" if owner is None else owner.name


# -- what questions cost ----------------------------------------------------------------------------


def cost(run: Callable[[], object], times: int) -> float:
    """Seconds of processor time, the median."""
    return median(timed(run, time.process_time) for _ in range(times))


def placement(live: LiveLab, name: str) -> float:
    """Seconds of one turn in which this waiting job is tried."""
    job, numbers = job_named(live, name), count()
    group = job.group
    assert group is not None

    def turn() -> None:
        changed = replace(group, labels={**group.labels, "turn": str(next(numbers))})
        live.scheduler.handle([ev.PodGroupSeen(changed)], live.now)

    return cost(turn, _TRIED)


def gang_turn(live: LiveLab, pods: int) -> float:
    """Seconds of the turn that places a gang; then it is gone again."""
    scheduler, found = live.scheduler, []
    for number in range(5):
        name = f"gang-{number}"
        group = PodGroup("team", name, uid=name, min_member=pods, phase="Inqueue")
        cls = PodClass(ASCEND910, 8)
        members = [
            Pod(f"{name}-{n}", "team", f"{name}-{n}", cls, group=name, scheduler=VOLCANO_SCHEDULER)
            for n in range(pods)
        ]
        events: list[ev.Event] = [ev.PodGroupSeen(group), *(ev.PodSeen(pod) for pod in members)]
        started = time.thread_time()
        commands = scheduler.handle(events, live.now)
        found.append(time.thread_time() - started)
        if sum(isinstance(command, Bind) for command in commands) != pods:
            raise RuntimeError(f"the gang of {pods} was not placed")
        gone: list[ev.Event] = [ev.PodGone(pod.uid) for pod in members]
        scheduler.handle([*gone, ev.PodGroupGone(group.key)], live.now)
    return median(found)


def lists(live: LiveLab, times: int) -> Iterator[Figure]:
    """Each list over `json.dumps` of its rows."""

    def jobs() -> object:
        objects = live.objects
        return [view.document() for view in with_reasons(objects, job_views(objects))]

    def top() -> object:
        objects = live.objects
        views = with_reasons(objects, job_views(objects))
        return top_document(objects, status_document(live), views)

    for name, rows in (
        ("get jobs", jobs),
        ("get nodes", lambda: node_documents(live.objects)),
        ("top --once", top),
    ):
        made = rows()
        ratio = cost(rows, times) / cost(partial(json.dumps, made), times)
        yield at_most(f"{name} over json.dumps of its rows", ratio, "x", MAX_LIST)


def submit_pods(live: LiveLab, jobs: int) -> None:
    """PodGroups of many shapes whose pods exist and wait: their jobs are tried in every cycle."""
    groups, pods = [], []
    for number in range(jobs):
        size, chips = _WAITING[number % len(_WAITING)]
        name, cls = f"hold-{number}", PodClass(ASCEND910, chips, 1000 * (2 + number % 37))
        groups.append(PodGroup("team", name, min_member=size))
        pods += [
            Pod("", "team", f"{name}-{one}", cls, group=name, scheduler=VOLCANO_SCHEDULER)
            for one in range(size)
        ]
    live.cluster.submit_all(groups)
    live.cluster.submit_all(pods)
    live.advance(10 * _SECOND)


def _waits(live: LiveLab, job: Job) -> bool:
    """The pods of jobs that wait for admission do not exist yet."""
    return not job.pods or live.view.has_pending_pods(job)


def whole_cycle(live: LiveLab, times: int) -> float:
    """Seconds of one cycle that tries all jobs that wait."""
    numbers = count()

    def cycle() -> None:
        turn = str(next(numbers))
        events = [
            ev.PodGroupSeen(replace(job.group, labels={**job.group.labels, "turn": turn}))
            for job in live.view.jobs.values()
            if job.group is not None and _waits(live, job)
        ]
        live.scheduler.handle(events, live.now)

    return cost(cycle, times)


def listed_and_drawn(live: LiveLab, times: int) -> Iterator[Figure]:
    """Lists in the server and tables in the client over `json.dumps` of their rows."""
    answers = LabAnswers(live, estimates_anew=False)
    for kind in ("pods", "nodes", "jobs"):
        sent = msgspec.json.encode(answers.get(kind))
        document = msgspec.json.decode(sent)
        written = cost(partial(json.dumps, document[kind]), times)

        def serve(kind: str = kind) -> None:
            msgspec.json.encode(answers.get(kind))

        def draw(kind: str = kind, sent: bytes = sent) -> None:
            document = msgspec.json.decode(sent)
            console = PlainConsole(file=StringIO(), width=WIDE, highlight=False, soft_wrap=False)
            DRAWINGS[BY_PLURAL[kind].name].table.draw(console, document[kind], document.get("now", 0))

        rows = f"{len(document[kind]):,} {kind}"
        yield at_most(f"{rows} in the server over json.dumps", cost(serve, times) / written, "x", MAX_ROWS)
        yield at_most(
            f"a table of {rows} in the client over json.dumps", cost(draw, times) / written, "x", MAX_ROWS
        )


def in_cycles(live: LiveLab, times: int) -> Iterator[Figure]:
    """Answers that try placements over one cycle that tries all jobs that wait."""
    answers, cycle = LabAnswers(live), whole_cycle(live, times)
    jobs = sum(_waits(live, job) for job in live.view.jobs.values())
    yield shown(f"one cycle over {jobs} jobs that wait", cycle * 1e3, "ms")
    manifest = job_text("new", 2, 8).encode()
    questions: tuple[tuple[str, Callable[[], object]], ...] = (
        ("why of a job that waits", lambda: answers.why("team/hold-1")),
        ("a dry run", lambda: answers.place(read_text(manifest, "bench"))),
        ("drain --plan of a node", lambda: answers.drain_plan("node-5")),
        ("drain --plan of a leaf switch", lambda: answers.drain_plan(f"switch/{_third_switch(live)}")),
        ("defrag --plan", answers.defrag_plan),
        ("the expected starts of get jobs", lambda: estimates(live.view, live.now)),
    )
    for name, ask in questions:
        yield at_most(f"{name}, in such cycles", cost(ask, max(1, times // 2)) / cycle, "", MAX_CYCLES)


def support_bundle(live: LiveLab, times: int) -> Iterator[Figure]:
    """A bundle of the lab without its journal, over reading its lines and writing them again as JSON."""
    lines = QUERIES["objects"](LabAnswers(live), {})["lines"].encode()
    contents, catalog = Contents("lab", lines, ()), shipped_catalog()
    again = cost(lambda: [json.dumps(json.loads(line)) for line in lines.splitlines()], times)
    with TemporaryDirectory(prefix="ringwise-bench-") as path:
        whole = cost(lambda: write_bundle(Path(path, "bundle.tar.gz"), contents, catalog), times)
    name = f"support-bundle of {len(lines) / 2**20:.0f} MiB over reading and writing its objects as JSON"
    yield at_most(name, whole / again, "x", MAX_BUNDLE)


def doctor(nodes: int, times: int) -> Iterator[Figure]:
    """What `doctor` does with the objects of a cluster, over reading them as an API server sends them."""
    sent = {
        "nodes": list(pages(node_object, nodes)),
        "pods": list(
            pages(lambda number: pod_object(number // nodes * NODE_COUNT + number % nodes), 2 * nodes)
        ),
    }

    def read() -> LiveCluster:
        live = LiveCluster()
        for target, reader in kinds_to_read(live.written):
            for page in sent.get(target.resource.plural, ()):
                for raw in raw_page(page).items or ():
                    add_object(target, reader, raw, live)
        finish(live)
        return live

    live = read()
    whole = cost(lambda: examine(live.bundle, live.configuration, shipped_catalog()), times)
    name = f"doctor in the client over reading {3 * nodes:,} objects"
    yield at_most(name, whole / cost(read, times), "x", MAX_DOCTOR)


def why(live: LiveLab, waiting: int, times: int) -> Iterator[Figure]:
    """The dearest of some jobs, in placements of the same job."""
    asked, estimated = [], []
    for name in ("wait-0", "wait-1", "wait-2", "wait-3", f"wait-{waiting - 1}"):
        unit = placement(live, name)
        job = job_named(live, name)

        def estimate(job: Job = job) -> None:
            with live.view.what_if.question():
                forecast(live.view, live.now, until=job)

        whole = cost(partial(explain_job, live.view, live.now, f"team/{name}"), times)
        part = cost(estimate, times)
        asked.append(max(0.0, whole - part) / unit)
        estimated.append(part / unit)
    yield at_most("why without its estimate, in placements of that job", max(asked), "", MAX_WHY)
    yield at_most("the estimate of why, in placements of that job", max(estimated), "", MAX_ESTIMATE)
    starts: dict[str, ExpectedStart] = {}

    def all_estimates() -> None:
        starts.update(estimates(live.view, live.now))

    each = cost(all_estimates, times) / usual_placement(live)
    yield at_most(
        "estimates for all waiting jobs, in placements for each", each / len(starts), "", MAX_ESTIMATES
    )


def usual_placement(live: LiveLab) -> float:
    return median(placement(live, f"wait-{number}") for number in range(4))


def drain(live: LiveLab, times: int) -> Iterator[Figure]:
    target = find_target(live.view, f"switch/{_third_switch(live)}")
    copies, each, moving = [], [], 0
    for _ in range(times):
        started = time.process_time()
        table, without = without_many_waiting(live.cluster.table)
        with copy_of(table, live.now, live.settings) as copy:
            copied = time.process_time()
            moving = len(plan_drain(copy, target, without=without).jobs)
            planned = time.process_time() - copied
        copies.append(copied - started)
        # Beside each plan: a processor that others use, too, is faster or slower for both.
        each.append(planned / max(moving, 1) / usual_placement(live))
    yield shown("one copy of the state for drain --plan", median(copies), "s")
    yield shown("jobs that move in it", moving, "")
    yield at_most(
        "drain --plan beyond that copy, in placements for each of them", median(each), "", MAX_DRAIN
    )


def _third_switch(live: LiveLab) -> str:
    topology = live.view.topology.switch_topology
    assert topology is not None
    return topology.switches[min(3, len(topology.switches) - 1)].ip


# -- the thread that decides ------------------------------------------------------------------------


@dataclass(slots=True)
class Window:
    """What the thread did in one measurement."""

    #: Processor time for each event, all pieces of work counted.
    each: float
    #: The longest piece of work for a question.
    longest: float


class DecidingThread:
    """Handles one event after the other, and what is asked between two turns, as a core thread does."""

    def __init__(self, scheduler: Scheduler, events: Sequence[ev.Event], now: int) -> None:
        self._scheduler = scheduler
        self._events = events
        self._now = now
        self._asked: SimpleQueue[tuple[Callable[[], list[Copy]], Future[list[Copy]]]] = SimpleQueue()

    async def between_turns(self, fork: Callable[[], list[Copy]]) -> list[Copy]:
        future: Future[list[Copy]] = Future()
        self._asked.put((fork, future))
        return await asyncio.wrap_future(future)

    def run(self, seconds: float) -> Window:
        """For this long. What is asked when it ends is still done."""
        longest, handled = 0.0, 0
        began, started = time.perf_counter(), time.thread_time()
        while time.perf_counter() - began < seconds:
            event = self._events[handled % len(self._events)]
            self._scheduler.handle([event], self._now)
            handled += 1
            longest = max(longest, self.answer())
        each = (time.thread_time() - started) / handled
        return Window(each, longest)

    def answer(self) -> float:
        try:
            fork, future = self._asked.get_nowait()
        except Empty:
            return 0.0
        started = time.thread_time()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(fork())
            except TooManyQuestionsError as error:
                future.set_exception(error)
        return max(time.thread_time() - started, 1e-9)


async def decide_alone_and_beside(
    thread: DecidingThread, questions: Sequence[Callable[[], bytes]], seconds: float, pairs: int
) -> tuple[list[Window], list[Window], int]:
    """Measurements without readers, and while they ask without pause; and how many answers they got.

    Alternating: a machine that gets slower or faster meanwhile does so for both.
    """
    forked_queries, answers = ForkedQueries(), 0

    async def ask(work: Callable[[], bytes]) -> None:
        nonlocal answers
        while True:
            try:
                await forked_queries.answer(thread.between_turns, work)
                answers += 1
            except TooManyQuestionsError:
                await asyncio.sleep(0.05)

    alone, beside = [], []
    for _ in range(pairs):
        alone.append(await asyncio.to_thread(thread.run, seconds))
        readers = [asyncio.create_task(ask(work)) for work in questions]
        beside.append(await asyncio.to_thread(thread.run, seconds))
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        while forked_queries.busy:
            # The last query: its client is gone.
            thread.answer()
            await asyncio.sleep(0.01)
    return alone, beside, answers


def reading(live: LiveLab, gang: float, pairs: int) -> Iterator[Figure]:
    groups = [job.group for job in live.view.jobs.values() if _owner(job).startswith("wait-")]
    events = [
        ev.PodGroupSeen(replace(group, labels={**group.labels, "turn": str(turn)}))
        for turn in range(2)
        for group in groups
        if group is not None
    ]
    thread = DecidingThread(live.scheduler, events, live.now)

    def asks_why(number: int) -> Callable[[], bytes]:
        return lambda: str(explain_job(live.view, live.now, f"team/wait-{number}").sentence).encode()

    questions = [asks_why(number) for number in range(READERS - 2)]
    questions += [lambda: str(len(count_capacity(live.view, live.now))).encode()] * 2
    alone, asked, answered = asyncio.run(decide_alone_and_beside(thread, questions, _WINDOW, pairs))
    ratio = median(two.each / one.each for one, two in zip(alone, asked, strict=True))
    equal = max(one.each for one in alone) / min(one.each for one in alone)
    longest = max(one.longest for one in asked) / gang
    yield shown("questions that were answered meanwhile", answered, "")
    yield shown("an event without readers", median(one.each for one in alone) * 1e6, "us")
    yield shown("equal runs differ", equal, "x")
    share = f"an event with {READERS} readers over one without"
    piece = f"the longest piece of work for a question over placing a gang of {GANG}"
    if equal > _EQUAL:
        # The machine does something else, too: neither figure says anything about questions.
        yield shown(f"{share} (not judged: equal runs differ by more than a tenth)", ratio, "x")
        yield shown(f"{piece} (not judged: equal runs differ by more than a tenth)", longest, "x")
    else:
        yield at_most(share, ratio, "x", MAX_SHARE)
        yield at_most(piece, longest, "x", 1)


def run(
    full: bool = False,
    nodes: int = NODES,
    running: int = RUNNING,
    waiting: int = WAITING,
    tried: int = TRIED,
    times: int = 0,
) -> list[Figure]:
    times = times or (21 if full else 5)
    results: list[Figure] = []
    with cluster(nodes, running - 1) as live:
        gang = gang_turn(live, GANG)
        submit(live, "rest", 1, [(max(1, free_nodes(live)), 8)])
        live.advance(10 * _SECOND)
        submit(live, "wait", waiting, _WAITING)
        with frozen():
            small = placement(live, "wait-2")
            results.append(shown("a placement", usual_placement(live) * 1e6, "us"))
            results.append(shown(f"placing a gang of {GANG}", gang * 1e3, "ms"))
            # First: memory that other measurements have left would be copied with the rest.
            about_readers = list(reading(live, gang, _PAIRS * 3 if full else _PAIRS))
            results += lists(live, times)
            results += why(live, waiting, times)
            results += drain(live, times)
            counted = cost(lambda: count_capacity(live.view, live.now), times) / small
            results.append(at_most("capacity, in placements of a small job", counted, "", MAX_CAPACITY))
        submit_pods(live, tried)
        with frozen():
            results += listed_and_drawn(live, times)
            results += in_cycles(live, times)
            results += support_bundle(live, max(1, times // 2))
    with frozen():
        results += doctor(nodes, max(1, times // 2))
    return [*results, *about_readers]
