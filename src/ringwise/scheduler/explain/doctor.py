"""What is wrong with a cluster: its nodes, chips, reports, switches, SuperPoDs, queues and jobs.

None of it stops the scheduler. Each finding names the place, the problem and its fix; those
of severity *error* keep chips from being used or jobs from starting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial, reduce
from operator import or_

from ringwise.framework.evictions.lost_work import queue_claim_problems
from ringwise.framework.job import Job
from ringwise.framework.network_topology import topology_notes
from ringwise.framework.reasons import UNKNOWN_QUEUE
from ringwise.framework.users import user_of
from ringwise.grammar import counted
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.explain.chip_checks import REPORT_STALE, chip_findings
from ringwise.scheduler.explain.findings import (
    ERROR,
    NOTE,
    WARNING,
    Finding,
    Subject,
    folded,
    named,
    throttled_text,
)
from ringwise.scheduler.explain.limit_waits import limits_without_effect
from ringwise.scheduler.faults.policy import read_fault_policy
from ringwise.scheduler.faults.states import State
from ringwise.scheduler.job_states import is_refused, pods_not_created
from ringwise.scheduler.node_faults import NODE, NOT_READY, SWITCH, node_faults
from ringwise.scheduler.node_states import offered
from ringwise.scheduler.view import SchedulerView
from ringwise.state.hyper_nodes import ProblemKind
from ringwise.state.model import SOFT, STATIC, Node
from ringwise.state.part_requests import mounted_part
from ringwise.topology.board import Board
from ringwise.topology.nearest import nearest
from ringwise.topology.policy import PolicyFacts, is_chip_resource, is_part_of_a_chip, select_board
from ringwise.topology.reasons import SUPERPOD_ID_MISSING, SUPERPOD_NONE
from ringwise.wellknown import (
    ACCELERATOR_TYPE,
    FAULT_SCHEDULING,
    HOST_ARCH,
    HOST_ARCH_ARM,
    HOST_ARCH_X86,
    SCHEDULER_CONFIG_KEY,
    UNREAD_RECORD_CONFIG_MAP,
    USER,
    VOLCANO_SYSTEM,
)


def _subject(job: Job) -> Subject:
    """By the name that `why` takes: the PodGroup of a vcjob has a longer one."""
    return Subject(f"job {job.full_name}")


def fault_findings(view: SchedulerView) -> Iterator[Finding]:
    for job in view.jobs.values():
        if FAULT_SCHEDULING in job.labels:
            for note in read_fault_policy(job.labels, job.annotations).notes:
                yield _subject(job).note("fault-policy", note, "correct the value, see docs/guides/faults.md")
    for key, handled in view.fault_jobs.items():
        affected = view.jobs.get(key)
        subject = Subject(f"job {key}") if affected is None else _subject(affected)
        if handled.state is State.BLOCKED:
            yield subject.warning(
                "rescheduling-blocked",
                f"affected by a fault, and no pod is restarted: {handled.blocked}",
                "delete its faulty pods or the job, or remove what prevents it",
            )
        going = handled.deletions.values() if handled.state is State.DELETING and not handled.external else ()
        for name in (*handled.given_up.values(), *(one.name for one in going if one.forced)):
            yield subject.warning(
                "pod-does-not-end",
                f"pod {name} was deleted by force because of a fault and is still there; "
                "it keeps its chips until it is gone",
                "find what blocks the deletion, such as a finalizer or an admission webhook",
            )


__all__ = ["ERROR", "NOTE", "WARNING", "Diagnosis", "Finding", "diagnose"]

_ARCHITECTURES = (HOST_ARCH_ARM, HOST_ARCH_X86)
#: How many incidents are reported, the newest ones.
_INCIDENTS = 8


@dataclass(frozen=True, slots=True)
class Diagnosis:
    nodes: int
    jobs: int
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return self.count(ERROR)

    @property
    def warnings(self) -> int:
        return self.count(WARNING)

    @property
    def notes(self) -> int:
        return self.count(NOTE)

    def count(self, severity: str) -> int:
        return sum(1 for finding in self.findings if finding.severity == severity)


def diagnose(
    view: SchedulerView, reported: Iterable[Finding] = (), *, renews_reports: bool = True
) -> Diagnosis:
    """All findings of the cluster, equal ones folded. `reported` are findings of the readers of its objects.

    `renews_reports`: device plugins write their reports again and again; those of a lab write when something
    changes, and time may jump.
    """
    findings = list(reported)
    checks: tuple[Callable[[SchedulerView], Iterable[Finding]], ...] = (
        chip_findings,
        _nodes,
        _reported_nodes,
        _missing_labels,
        _addresses,
        _switches,
        _superpods,
        _racks,
        _hyper_nodes,
        _static_vnpus,
        _queues,
        _limits,
        _move_plans,
        _jobs,
        _missing_pods,
        _priority_classes,
        _topologies,
        fault_findings,
        _configuration,
        _incidents,
        _contained_objects,
        _unread_record,
        _throttled,
    )
    # Where another scheduler places the pods, the chart may not be installed yet.
    findings += _not_served(view, NOTE if any(one.code == "scheduler-shadow" for one in findings) else ERROR)
    for check in checks:
        findings.extend(check(view))
    if not renews_reports:
        findings = [finding for finding in findings if finding.code != REPORT_STALE]
    # The sort is stable: findings of one check stay together and in natural order of nodes.
    findings = sorted(folded(findings), key=lambda one: (ERROR, WARNING, NOTE).index(one.severity))
    return Diagnosis(view.cluster.node_count, len(view.jobs), tuple(findings))


def _priority_classes(view: SchedulerView) -> Iterator[Finding]:
    for job in view.jobs.values():
        for why in job.refused_classes.values():
            yield _subject(job).note(
                "priority-class-ignored",
                why,
                "name a class that the namespace may use, see docs/concepts/scheduling.md",
            )


def _topologies(view: SchedulerView) -> Iterator[Finding]:
    """M2."""
    for job in view.jobs.values():
        for note in topology_notes(job, view.configuration, view.hyper_forest()):
            report = _subject(job).warning if note.warning else _subject(job).note
            yield report(note.code, note.text, note.fix)


def _configuration(view: SchedulerView) -> Iterator[Finding]:
    for warning in view.configuration.warnings:
        yield Subject(SCHEDULER_CONFIG_KEY).warning(
            "configuration", warning, "`ringwise config check FILE` shows what each line does"
        )
    yield from _users(view)
    missing = view.what_if.sessions.missing_chip_plugins
    if not missing:
        return
    offered = any(node.chips_allocatable for node in view.cluster.nodes if node)
    requesting = [job for job in view.jobs.values() if job.chip_pods]
    if offered or requesting:
        line = " or ".join(f"`- name: {name}`" for name in missing)
        yield Subject("configuration").error(
            "no-chip-plugin",
            f"no plugin allocates chips: jobs that request them stay pending ({len(requesting)} now)",
            f"add the line {line} to the plugins of a tier in volcano-scheduler.conf",
        )


def _users(view: SchedulerView) -> Iterator[Finding]:
    """A few jobs may be older than admission; that none has a user says that nothing writes it."""
    if view.settings.user_annotation != "guarded":
        return
    ours = [job for job in view.jobs.values() if any(map(view.is_ours, job.pods.values()))]
    if ours and not any(user_of(job, view.settings).verified for job in ours):
        yield Subject("configuration").note(
            "no-users",
            f"user-annotation is guarded, and none of {counted(len(ours), 'job')} has the "
            f"annotation {USER}: accounting by user and limits per user have no effect",
            "install admission, see docs/guides/admission.md, or set user-annotation: open; jobs that are "
            "before that do not get it",
        )


def _contained_objects(view: SchedulerView) -> Iterator[Finding]:
    for kind, key, problem in view.contained_objects:
        yield Subject(f"{kind} {key}").error(
            "object-unhandled",
            f"an internal error occurred while it was handled ({problem}); its last valid version is used",
            "report this with the journal",
        )


def _unread_record(view: SchedulerView) -> Iterator[Finding]:
    for key, problem in view.unread_record.items():
        yield unread_finding(key, problem)


def unread_finding(key: str, problem: str) -> Finding:
    return Subject(f"leader record {key}").warning(
        "record-unread",
        f"{problem}; the scheduler started without it and decides from the objects of the cluster",
        f"ConfigMap {VOLCANO_SYSTEM}/{UNREAD_RECORD_CONFIG_MAP} has a copy: delete it, or go back to the "
        "version that wrote it",
    )


def _throttled(view: SchedulerView) -> Iterator[Finding]:
    for namespace, used in view.history.throttled.items():
        yield Subject(f"namespace {namespace}").warning(
            "namespace-throttled",
            throttled_text(used),
            "find out why so many of its jobs are pending: ringwise get jobs -n " + namespace,
        )


# -- nodes ------------------------------------------------------------------------------------


def _nodes(view: SchedulerView) -> Iterator[Finding]:
    state, catalog = view.cluster, view.catalog
    if not state.node_count:
        yield Subject("cluster").error(
            "no-nodes",
            "has no nodes: no job can start",
            "add nodes; with -f, include the Nodes (kubectl get nodes -o yaml)",
        )
    for number in state.existing_nodes():
        node = state.nodes[number]
        if node is None:
            continue
        subject = Subject(f"node {node.name}")
        if not node.ready:
            yield subject.warning("node-not-ready", "is not Ready", "see its kubelet and conditions")
        resources = [name for name in node.chips_allocatable if catalog.serving(name)]
        for name in node.chips_allocatable:
            if not catalog.serving(name) and not is_part_of_a_chip(name):
                yield subject.warning(
                    "resource-unknown",
                    f"offers {name}, which no board defines",
                    f"supported resources: {', '.join(catalog.resources)}; a board file can add others",
                )
        if not resources:
            continue
        arch = node.labels.get(HOST_ARCH)
        if arch is not None and arch not in _ARCHITECTURES:
            yield subject.warning(
                "label-odd",
                f"has the label {HOST_ARCH}={arch}; jobs select {' or '.join(_ARCHITECTURES)}",
                f"label it {HOST_ARCH}={nearest(arch, _ARCHITECTURES) or _ARCHITECTURES[0]}",
            )
        yield from _board_label(view, subject, node.labels.get(ACCELERATOR_TYPE), resources)


def _reported_nodes(view: SchedulerView) -> Iterator[Finding]:
    for number in view.cluster.existing_nodes():
        for fault in node_faults(view.cluster, number) if number in view.cluster.node_status else ():
            if fault.kind in (NODE, SWITCH) and fault.level != NOT_READY:
                yield Subject(f"node {fault.node}").warning(
                    "node-unhealthy",
                    f"{'switches are' if fault.kind == SWITCH else 'is'} reported as {fault.level}",
                    "see the affected jobs: `ringwise fault list`",
                )


def _missing_labels(view: SchedulerView) -> Iterator[Finding]:
    for number in filter(partial(_offers_chips, view), view.cluster.existing_nodes()):
        node = view.cluster.nodes[number]
        if node is not None and HOST_ARCH not in node.labels:
            yield Subject(f"node {node.name}").note(
                "label-missing",
                f"no label {HOST_ARCH}, so jobs that select it are never placed there",
                f"set the label to {_ARCHITECTURES[0]} or {_ARCHITECTURES[1]}",
            )


def _board_label(
    view: SchedulerView, subject: Subject, label: str | None, resources: list[str]
) -> Iterator[Finding]:
    if label is None:
        return
    for resource in resources:
        board = select_board(view.catalog, PolicyFacts(resource, accelerator_type=label))
        if isinstance(board, Reason) and board.code == "unknown-accelerator-type":
            yield subject.warning(
                "label-odd",
                f"has the label {ACCELERATOR_TYPE}={label}, which does not select a board of {resource}",
                board.fixes[0],
            )


# -- switches and SuperPoDs ---------------------------------------------------------------------


def _addresses(view: SchedulerView) -> Iterator[Finding]:
    for address, names in sorted(view.cluster.addresses.duplicates.items()):
        yield Subject(named(list(names), "node")).warning(
            "duplicate-internal-ip",
            f"have the same InternalIP {address}; {names[0]} is the oldest and keeps the position under its "
            "leaf switch, the others have none",
            "find the node that reports another node's address, and correct or delete it",
        )


def _switches(view: SchedulerView) -> Iterator[Finding]:
    state, resolved = view.cluster, view.switches()
    fatal, subject = view.topology.topology_problem, Subject("ConfigMap basic-tor-node-cm")
    if fatal is not None:
        yield subject.refused(ERROR, fatal)
    problems = resolved.problems if resolved is not None else ()
    for number, problem in enumerate(problems):
        if problem != fatal and problem not in problems[:number]:
            yield subject.refused(WARNING, problem)
    if resolved is None or fatal is not None:
        return
    for number in filter(partial(_offers_chips, view), state.existing_nodes()):
        if state.names[number] not in resolved.switch_of:
            yield Subject(f"node {state.names[number]}").warning(
                "node-outside-topology",
                "under no leaf switch, so switch-aware jobs are never placed there",
                "add the InternalIP to basic-tor-node-cm",
            )


_HYPER_NODE_FIXES = {
    ProblemKind.CIRCLE: "remove the member",
    ProblemKind.TWO_PARENTS: "list this member in only one HyperNode",
    ProblemKind.MISSING_MEMBER: "create it, or remove the member",
    ProblemKind.MEMBER_SELECTOR: "select each HyperNode by exactMatch",
    ProblemKind.TIER_ORDER: "set lower tiers for the members than for their HyperNode",
    ProblemKind.OVERLAP: "make each node a member of only one HyperNode per tier",
    ProblemKind.EXPRESSION: "correct the expression (Go syntax, RE2)",
    ProblemKind.EMPTY_SELECTOR: "add labels to it, or remove the member",
    ProblemKind.TIER_NAME: "give each tier of a tree a unique name",
    ProblemKind.MISSING_NODE: "create the nodes, or remove the members",
    ProblemKind.NO_NODES: "it is used as soon as nodes match",
}


def _hyper_nodes(view: SchedulerView) -> Iterator[Finding]:
    for name, problems in view.hyper_forest().problems.items():
        for problem in problems:
            subject = Subject(f"HyperNode {name}")
            report = subject.note if problem.mild else subject.warning
            yield report(f"hypernode-{problem.kind}", problem.sentence, _HYPER_NODE_FIXES[problem.kind])


def _not_served(view: SchedulerView, severity: str) -> Iterator[Finding]:
    for kind in sorted(view.cluster.not_served):
        yield Finding(
            severity,
            "kind-not-served",
            f"kind {kind}",
            "the API server does not serve it; the last known objects are still used",
            "install the Helm chart, which has the CustomResourceDefinition",
        )


def _superpods(view: SchedulerView) -> Iterator[Finding]:
    """Only where SuperPoDs are in use: a node has an id, or a job requests blocks."""
    settings = view.settings
    superpods = view.superpods()
    requested = any(job.policy is not None and job.policy.board.superpod for job in view.jobs.values())
    if not superpods.nodes_of and not requested:
        return
    for superpod, problem in superpods.superpod_problems.items():
        yield Subject(f"SuperPoD {superpod}").refused(ERROR, problem)
    for number, problem in sorted(
        superpod_problems(view).items(), key=lambda one: one[1].code in _NO_SUPERPOD
    ):
        subject = Subject(f"node {view.cluster.names[number]}")
        if problem.code in _NO_SUPERPOD:
            yield subject.warning(problem.code, *_NO_SUPERPOD[problem.code])
        else:
            yield subject.refused(WARNING, problem)
    racks = view.racks()
    for superpod, nodes in superpods.nodes_of.items():
        # Jobs for racks keep no reserve.
        if len(nodes) <= settings.reserve_nodes and superpod not in racks.nodes_of:
            yield Subject(f"SuperPoD {superpod}").warning(
                "superpod-all-reserve",
                f"has {counted(nodes, 'node')}, and all are reserved as spares: reserve-nodes is "
                f"{settings.reserve_nodes}",
                f"lower reserve-nodes below {len(nodes)}",
            )


# A cluster may have SuperPoDs and servers without. A node that reports none (-2, as device plugins write it,
# or -1), and one of a board that has no SuperPoDs, is as it should be.

#: What a node says of its hardware: its accelerator-type, and how many chips of which resource it has.
_Kind = tuple[str, tuple[tuple[str, int], ...]]


def superpod_problems(view: SchedulerView) -> dict[int, Reason]:
    """By node, in natural order: why it is in no SuperPoD although it ought to be."""
    superpods, nodes = view.superpods(), view.cluster.nodes

    @cache
    def is_superpod_board(resource: str, label: str) -> bool:
        board = select_board(view.catalog, PolicyFacts(resource, accelerator_type=label))
        return isinstance(board, Board) and board.superpod

    #: Kinds of nodes of which some are in a SuperPoD.
    members = {_kind(node) for number in superpods.superpod_of if (node := nodes[int(number)]) is not None}
    result: dict[int, Reason] = {}
    for number, problem in superpods.node_problems.items():
        node = nodes[int(number)]
        if node is None:
            continue
        if problem.code in _NO_SUPERPOD:
            # By its own label it is a server of a SuperPoD, or others of its kind are.
            label, alike = node.labels.get(ACCELERATOR_TYPE), problem.code == SUPERPOD_ID_MISSING.code
            labeled = label and any(is_superpod_board(resource, label) for resource in node.chips_allocatable)
            if not labeled and not (alike and _kind(node) in members):
                continue
        result[int(number)] = problem
    return result


def _kind(node: Node) -> _Kind:
    chips = ((name, node.chips_capacity.get(name, count)) for name, count in node.chips_allocatable.items())
    return node.labels.get(ACCELERATOR_TYPE, ""), tuple(sorted(chips))


#: Problems that many nodes have: what is wrong, and what to do.
_NO_SUPERPOD = {
    SUPERPOD_ID_MISSING.code: (
        "no SuperPoD ID, so jobs with blocks are never scheduled there",
        "configure the device plugin to report SuperPodID, or annotate the node with superPodID",
    ),
    SUPERPOD_NONE.code: (
        f"labeled {ACCELERATOR_TYPE} as a server of a SuperPoD, but reported to be in none, "
        "so jobs with blocks are never scheduled there",
        "check driver and cabling of the node, or correct its label",
    ),
}


def _racks(view: SchedulerView) -> Iterator[Finding]:
    """Only where racks are in use: a node of a SuperPoD has a rack id, or a job asks for racks."""
    racks = view.racks()
    requested = any(job.policy is not None and job.policy.rack is not None for job in view.jobs.values())
    if not racks.nodes_of and not requested:
        return
    for node, problem in sorted(racks.node_problems.items(), key=lambda one: one[1].code):
        subject = Subject(f"node {view.cluster.names[int(node)]}")
        if problem.code == "rack-id-invalid":
            yield subject.refused(WARNING, problem)
        elif problem.code == "rack-id-missing" and (
            not racks.nodes_of or view.superpods().superpod_of[node] in racks.nodes_of
        ):
            # In a mixed cluster the SuperPoDs of other boards have no racks.
            yield subject.warning(
                "rack-id-missing",
                "no rack ID, so jobs for racks are never scheduled there",
                "configure the device plugin to report RackID, or annotate the node with rackID",
            )


def _offers_chips(view: SchedulerView, number: int) -> bool:
    node = view.cluster.nodes[number]
    return node is not None and any(view.catalog.serving(name) for name in node.chips_allocatable)


# -- queues and jobs ------------------------------------------------------------------------------


def _limits(view: SchedulerView) -> Iterator[Finding]:
    for name, problem in view.limits.problems.items():
        yield Subject(f"UsageLimit {name}").warning(
            "limit-not-accepted",
            f"it is not in effect: {problem}",
            f"correct it or delete it: kubectl delete usagelimit {name}",
        )
    yield from limits_without_effect(view)


def _move_plans(view: SchedulerView) -> Iterator[Finding]:
    for name, state in view.history.moves.states.items():
        if state.problem is not None:
            yield Subject(f"MovePlan {name}").warning(
                "move-plan-not-accepted",
                f"it is not carried out: {state.problem[1]}",
                f"delete it: kubectl delete moveplan {name}",
            )


def _static_vnpus(view: SchedulerView) -> Iterator[Finding]:
    """V17: pods with static vNPUs on faulty chips, which are not rescheduled."""
    state = view.cluster
    for number, mode in sorted(state.modes.items()):
        if mode.mode != STATIC:
            continue
        faulty = reduce(or_, (fleet.broken(number) for _, fleet in offered(state, number)), 0)
        for uid in state.pods_on[number] if faulty else ():
            pod = state.pods[uid].pod
            part = pod.cls.part
            chips = mounted_part(pod).chips if part is not None and part.mode == STATIC and pod.live else ()
            if any(faulty >> chip & 1 for chip in chips):
                yield Subject(f"node {state.names[number]}").warning(
                    "static-vnpu-on-faulty-chip",
                    f"pod {pod.key} has a static vNPU of a faulty chip ({', '.join(map(str, chips))})",
                    f"delete {pod.key}: pods with static vNPUs are not rescheduled",
                )


def _queues(view: SchedulerView) -> Iterator[Finding]:
    queues, total = view.queues, view.what_if.sessions.capacity()
    promised = Counter[str]()
    for queue in queues.values():
        subject = Subject(f"queue {queue.name}")
        if queue.weight < 1:
            yield subject.error("queue-weight", f"has weight {queue.weight}", "set a weight of at least 1")
        for problem in queue_claim_problems(queue):
            yield subject.warning("queue-annotation", problem, "correct the annotation of the queue")
        if queue.parent and queue.parent not in queues and queue.parent != "root":
            yield subject.warning(
                "queue-parent-unknown",
                f"names the parent {queue.parent}, which does not exist",
                f"create queue {queue.parent}, or correct spec.parent",
            )
        for name, least in queue.guarantee.items():
            promised[name] += least
            most = queue.capability.get(name)
            if most is not None and least > most:
                yield subject.error(
                    "queue-guarantee-above-capability",
                    f"guarantees {least} of {name} and may use {most}",
                    f"raise the capability of {name} to {least}, or lower the guarantee",
                )
        for name, most in queue.capability.items():
            if name in total and most > total[name]:
                shared = is_chip_resource(name) and any(
                    one.mode == SOFT for one in view.cluster.modes.values()
                )
                report, fix = subject.note, "no action required unless nodes are missing"
                if shared:
                    report = subject.warning
                    fix = "queues count soft shares in chips: divide a capability in percent by 100"
                what = f"may use {most} of {name} and the cluster has {total[name]}"
                yield report("queue-capability-above-cluster", what, fix)
    for name, amount in sorted(promised.items()):
        if amount > total.get(name, 0):
            yield Subject("queues").error(
                "queue-guarantees-above-cluster",
                f"are guaranteed {amount} of {name} together and the cluster has {total.get(name, 0)}",
                "lower the guarantees",
            )


def _jobs(view: SchedulerView) -> Iterator[Finding]:
    for job in sorted(view.jobs.values(), key=lambda job: job.key):
        for defect in job.defects:
            yield _subject(job).refused(ERROR, defect)
        if job.queue not in view.queues:
            queues = sorted(view.queues)
            close = nearest(job.queue, queues) or queues[0]
            unknown = UNKNOWN_QUEUE(queue=job.queue, known=queues, nearest=close)
            yield _subject(job).refused(ERROR, unknown)
        elif not job.defects and job.reason is not None and is_refused(job.reason):
            yield _subject(job).refused(WARNING, job.reason)


def _missing_pods(view: SchedulerView) -> Iterator[Finding]:
    pods = {id(vcjob): job.pods.values() for job in view.jobs.values() if (vcjob := view.vcjob_of(job))}
    for vcjob in view.vcjobs.values():
        reason = pods_not_created(vcjob, pods.get(id(vcjob), ()))
        if reason is not None:
            yield Subject(f"job {vcjob.key}").refused(ERROR, reason)


def _incidents(view: SchedulerView) -> Iterator[Finding]:
    for incident in view.history.incidents[-_INCIDENTS:]:
        where = incident.where + (f", job {incident.job}" if incident.job else "")
        yield Subject(where).error("incident", incident.error, "report it; RINGWISE_DEBUG=1 shows more")
