"""Which jobs may use the priority class that they name.

The API server checks the class of a pod and nothing else: a PodGroup may name any. So the same two limits
are held here. The system's classes are for the system's namespaces. A ResourceQuota whose scope is a priority
class says how much all pods of the class in its namespace may use; the jobs of the namespace that name the
class share that, the oldest first, and a job that does not fit into what is left does not get the class. Only
the objects count, so that the answer is the same on any machine and after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ringwise.framework.amounts import Amount, Amounts, add, amounts_of
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
    amounts: Mapping[str, Amount]


class _Refusal(NamedTuple):
    """Why a quota leaves a class not to a job; put into words only where it is new."""

    quota: ResourceQuota
    resource: str
    requested: Amount

    @property
    def why(self) -> str:
        """What the others use is not named: the sentence changes with the job and the quota only."""
        limit, needs = self.quota.hard[self.resource], f"and the job needs {self._text(self.requested)}"
        if self.requested <= limit:
            needs = f"of which older jobs of the namespace leave too little, {needs}"
        return f"ResourceQuota {self.quota.key} allows {self._text(limit)} of {self.resource} for it, {needs}"

    def _text(self, amount: Amount) -> str:
        return amount_text(self.resource, amount)


class _Namespace:
    """The quotas for priority classes of one namespace, and how its jobs share them."""

    def __init__(self, quotas: list[ResourceQuota]) -> None:
        self.quotas = quotas
        self.claims: dict[str, _Claim] = {}
        #: By job: the classes that it does not get.
        self.refused: dict[str, dict[str, _Refusal]] = {}
        self._used: dict[str, Amounts] = {quota.name: {} for quota in quotas}
        #: Age and key of the youngest job that was shared out.
        self._last: tuple[int, str] = (-1, "")
        #: Jobs that are younger than all others, oldest first; or everything is shared out again.
        self._younger: dict[str, None] = {}
        self._anew = True

    def put(self, job: str, claim: _Claim | None) -> bool:
        """Returns whether anything is to be shared out."""
        before = self.claims.get(job)
        if claim == before:
            return False
        refused = self.refused.get(job, {})
        if before is not None and job not in self._younger and len(refused) < len(before.classes):
            # What it used is free again.
            self._anew = True
        self._younger.pop(job, None)
        if claim is None:
            del self.claims[job]
            self.refused.pop(job, None)
        else:
            self.claims[job] = claim
            if (claim.created, job) > self._last:
                self._younger[job] = None
            else:
                self._anew = True
        return True

    def share(self) -> list[str]:
        """Returns the jobs whose refusals may be others now."""
        if self._anew:
            self._used = {quota.name: {} for quota in self.quotas}
            claims = sorted(self.claims.values(), key=_age)
        else:
            # Many jobs may wait in vain for a quota: one more is not a reason to look at all of them again.
            claims = sorted(map(self.claims.__getitem__, self._younger), key=_age)
        self._anew = False
        self._younger.clear()
        limiting: dict[str, list[ResourceQuota]] = {}
        changed = []
        for claim in claims:
            refused = self._judge(claim, limiting)
            if refused != self.refused.get(claim.job, {}):
                self.refused[claim.job] = refused
                changed.append(claim.job)
        if claims:
            self._last = max(self._last, _age(claims[-1]))
        return changed

    def _judge(self, claim: _Claim, limiting: dict[str, list[ResourceQuota]]) -> dict[str, _Refusal]:
        """Of the classes that it names it uses the first that it gets."""
        refused: dict[str, _Refusal] = {}
        for name in claim.classes:
            quotas = limiting.get(name)
            if quotas is None:
                quotas = limiting[name] = [quota for quota in self.quotas if quota.limits_class(name)]
            excess = next(filter(None, (_excess(one, self._used[one.name], claim) for one in quotas)), None)
            if excess is None:
                for quota in quotas:
                    add(self._used[quota.name], {one: claim.amounts.get(one, 0) for one in quota.hard})
                break
            refused[name] = excess
        return refused


def _age(claim: _Claim) -> tuple[int, str]:
    return claim.created, claim.job


class PriorityRights:
    """Follows the jobs of namespaces that have quotas for priority classes; all others cost nothing."""

    def __init__(self) -> None:
        #: Only namespaces that have such quotas.
        self._namespaces: dict[str, _Namespace] = {}
        self._changed: set[str] = set()

    def has_quotas(self, namespace: str) -> bool:
        """Whether some of its quotas are for priority classes."""
        return namespace in self._namespaces

    def put_quotas(self, namespace: str, quotas: Mapping[str, ResourceQuota]) -> bool:
        """All quotas of a namespace. Returns whether those for priority classes changed.

        Then all its jobs are to be put again.
        """
        previous = self._namespaces.get(namespace)
        scoped = [quotas[name] for name in sorted(quotas) if quotas[name].class_scopes]
        if [*map(_limits, previous.quotas if previous is not None else ())] == [*map(_limits, scoped)]:
            return False
        if scoped:
            self._namespaces[namespace] = _Namespace(scoped)
        else:
            del self._namespaces[namespace]
        return True

    def put(self, job: Job, *, over: bool) -> None:
        """The job as it is now; `over`: nothing of it runs again."""
        namespace = self._namespaces.get(job.namespace)
        if namespace is not None:
            classes = _usable(job)
            claim = None if over or not classes else _claim(job, classes)
            if namespace.put(job.key, claim):
                self._changed.add(job.namespace)
        job.refused_classes = self._of(job)

    def forget(self, job: Job) -> None:
        namespace = self._namespaces.get(job.namespace)
        if namespace is not None and namespace.put(job.key, None):
            self._changed.add(job.namespace)

    def review(self, jobs: Mapping[str, Job]) -> list[Job]:
        """Share out the quotas whose jobs changed. Returns the jobs for which that matters."""
        affected: list[Job] = []
        for name in sorted(self._changed):
            namespace = self._namespaces.get(name)
            for key in namespace.share() if namespace is not None else ():
                job = jobs.get(key)
                if job is not None and (refused := self._of(job)) != job.refused_classes:
                    job.refused_classes = refused
                    affected.append(job)
        self._changed.clear()
        return affected

    def _of(self, job: Job) -> Mapping[str, str]:
        namespace = self._namespaces.get(job.namespace)
        by_quotas = namespace.refused.get(job.key) if namespace is not None else None
        system = []
        if job.namespace not in SYSTEM_NAMESPACES:
            system = [name for name in _named(job) if name in SYSTEM_CLASSES]
        if not by_quotas and not system:
            return EMPTY
        whys = dict.fromkeys(system, _SYSTEM_ONLY)
        whys |= {name: refusal.why for name, refusal in (by_quotas or {}).items()}
        return {name: f"priority class {name} is not used: {why}; {_INSTEAD}" for name, why in whys.items()}


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
    amounts = {**total, **{f"requests.{name}": amount for name, amount in total.items()}}
    amounts |= {"pods": len(staying), "count/pods": len(staying)}
    names = quota_names(job)
    for name, amount in amounts.items():
        names[name] = max(names.get(name, 0), amount)
    return _Claim(job.created, job.key, classes, names)


def _excess(quota: ResourceQuota, used: Mapping[str, Amount], claim: _Claim) -> _Refusal | None:
    for name, limit in quota.hard.items():
        request = claim.amounts.get(name, 0)
        if request and used.get(name, 0) + request > limit:
            return _Refusal(quota, name, request)
    return None
