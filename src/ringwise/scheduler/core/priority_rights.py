"""Which jobs may use the priority class that they name.

The API server checks the class of a pod and nothing else: a PodGroup may name any. So the same two limits
are held here. The system's classes are for the system's namespaces. A ResourceQuota whose scope is a priority
class says how much all pods of the class in its namespace may use; the jobs of the namespace that name the
class share that, the oldest first, and a job that does not fit into what is left does not get the class. Only
the objects count, so that the answer is the same on any machine and after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ringwise.framework.amounts import Amounts, add, amounts_of
from ringwise.framework.job import Job, quota_names
from ringwise.grammar import amount_text
from ringwise.state.model import EMPTY, ResourceQuota
from ringwise.wellknown import SYSTEM_CLASSES, SYSTEM_NAMESPACES

_INSTEAD = "the job has the priority of its pods without it"
_SYSTEM_ONLY = f"only the namespaces {', '.join(sorted(SYSTEM_NAMESPACES))} may use it"


class _Claim(NamedTuple):
    """What a job would use of the quotas of the classes that it names. Sorts by age."""

    created: int
    job: str
    #: That of its PodGroup, then that of its pods.
    classes: tuple[str, ...]
    #: In the names of quotas.
    amounts: Mapping[str, int]


class PriorityRights:
    """Follows the jobs of namespaces that have quotas for priority classes; all others cost nothing."""

    def __init__(self) -> None:
        #: By namespace; only namespaces that have some.
        self._quotas: dict[str, list[ResourceQuota]] = {}
        self._claims: dict[str, dict[str, _Claim]] = {}
        #: By job: classes that quotas do not leave to it.
        self._refused: dict[str, Mapping[str, str]] = {}
        self._changed: set[str] = set()

    def has_quotas(self, namespace: str) -> bool:
        """Whether some of its quotas are for priority classes."""
        return namespace in self._quotas

    def put_quotas(self, namespace: str, quotas: Mapping[str, ResourceQuota]) -> bool:
        """All quotas of a namespace. Returns whether those for priority classes changed."""
        before = self._quotas.get(namespace, [])
        found = [quotas[name] for name in sorted(quotas) if quotas[name].class_scopes]
        if [*map(_limits, before)] == [*map(_limits, found)]:
            return False
        if found:
            self._quotas[namespace] = found
        else:
            self._quotas.pop(namespace, None)
            for key in self._claims.pop(namespace, ()):
                self._refused.pop(key, None)
        self._changed.add(namespace)
        return True

    def put(self, job: Job, *, over: bool) -> None:
        """The job as it is now; `over`: nothing of it runs again."""
        claims = self._claims.get(job.namespace)
        if job.namespace in self._quotas:
            classes = _usable(job)
            claim = None if over or not classes else _claim(job, classes)
            if claim != (None if claims is None else claims.get(job.key)):
                self._changed.add(job.namespace)
                if claim is None:
                    self.forget(job)
                else:
                    self._claims.setdefault(job.namespace, {})[job.key] = claim
        job.refused_classes = self._of(job)

    def forget(self, job: Job) -> None:
        claims = self._claims.get(job.namespace)
        if claims is not None and claims.pop(job.key, None) is not None:
            self._changed.add(job.namespace)
            self._refused.pop(job.key, None)

    def review(self, jobs: Mapping[str, Job]) -> list[Job]:
        """Share the quotas that changed, or whose jobs did, anew. Returns the jobs for which that matters."""
        affected: list[Job] = []
        for namespace in sorted(self._changed):
            claims = self._claims.get(namespace, {})
            for key, refused in _shared_out(self._quotas.get(namespace, ()), claims.values()):
                if refused:
                    self._refused[key] = refused
                else:
                    self._refused.pop(key, None)
                job = jobs.get(key)
                if job is not None and (found := self._of(job)) != job.refused_classes:
                    job.refused_classes = found
                    affected.append(job)
        self._changed.clear()
        return affected

    def _of(self, job: Job) -> Mapping[str, str]:
        refused = self._refused.get(job.key, EMPTY)
        if job.namespace in SYSTEM_NAMESPACES:
            return refused
        system = [name for name in _named(job) if name in SYSTEM_CLASSES]
        return {**{name: _sentence(name, _SYSTEM_ONLY) for name in system}, **refused} if system else refused


def _limits(quota: ResourceQuota) -> tuple[object, ...]:
    return quota.name, quota.hard, quota.class_scopes, quota.other_scopes


def _named(job: Job) -> list[str]:
    """The classes that decide on its priority: that of its PodGroup, then that of its first pod."""
    of_group = job.group.priority_class if job.group is not None else ""
    of_pods = [pod.priority_class for pod in job.in_order[:1]]
    return [name for name in dict.fromkeys((of_group, *of_pods)) if name]


def _usable(job: Job) -> tuple[str, ...]:
    system = () if job.namespace in SYSTEM_NAMESPACES else SYSTEM_CLASSES
    return tuple(name for name in _named(job) if name not in system)


def _claim(job: Job, classes: tuple[str, ...]) -> _Claim | None:
    """None: all its pods have ended, and a quota no longer counts them."""
    pods = [pod for pod in job.in_order if pod.live]
    if (job.pods and not pods) or (job.group is not None and job.group.phase == "Completed"):
        return None
    total: Amounts = {}
    staying = [pod for pod in pods if not pod.deleting]
    for pod in staying:
        add(total, amounts_of(pod.cls))
    asked = {**total, **{f"requests.{name}": amount for name, amount in total.items()}}
    asked |= {"pods": len(staying), "count/pods": len(staying)}
    names = quota_names(job)
    for name, amount in asked.items():
        names[name] = max(names.get(name, 0), amount)
    return _Claim(job.created, job.key, classes, names)


def _shared_out(
    quotas: Sequence[ResourceQuota], claims: Iterable[_Claim]
) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Each job and the classes that it does not get; of those that it names it uses the first it gets."""
    used: dict[str, Amounts] = {quota.name: {} for quota in quotas}
    limiting: dict[str, list[ResourceQuota]] = {}
    for claim in sorted(claims, key=lambda claim: (claim.created, claim.job)):
        refused: dict[str, str] = {}
        for name in claim.classes:
            if name not in limiting:
                limiting[name] = [quota for quota in quotas if quota.limits_class(name)]
            why = next(filter(None, (_excess(one, used[one.name], claim) for one in limiting[name])), None)
            if why is None:
                for quota in limiting[name]:
                    add(used[quota.name], {one: claim.amounts.get(one, 0) for one in quota.hard})
                break
            refused[name] = _sentence(name, why)
        yield claim.job, refused


def _excess(quota: ResourceQuota, used: Mapping[str, int], claim: _Claim) -> str | None:
    """Why the job does not fit. What the others use is not named: the sentence changes with the job only."""
    for name, limit in quota.hard.items():
        asked = claim.amounts.get(name, 0)
        if asked and used.get(name, 0) + asked > limit:
            needs = f"and the job needs {amount_text(name, asked)}"
            if asked <= limit:
                needs = f"of which older jobs of the namespace leave too little, {needs}"
            return f"ResourceQuota {quota.key} allows {amount_text(name, limit)} of {name} for it, {needs}"
    return None


def _sentence(name: str, why: str) -> str:
    return f"priority class {name} is not used: {why}; {_INSTEAD}"
