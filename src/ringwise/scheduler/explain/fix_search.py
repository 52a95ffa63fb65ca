"""The search for fixes of one pending job: suppose a change, and find out whether the job would start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field
from functools import partial
from itertools import chain, islice

from ringwise.framework.job import Job
from ringwise.framework.trials import nearest
from ringwise.grammar import agrees, counted
from ringwise.reasons import Reason
from ringwise.records import dataclass
from ringwise.scheduler.defragment.movable import BudgetReader, no_budgets
from ringwise.scheduler.explain.closest_nodes import Refusals
from ringwise.scheduler.explain.what_if import JobChange
from ringwise.scheduler.view import SchedulerView

#: Pods that may be placed or released while looking for fixes: keeps the search short on any cluster.
BUDGET = 8_000
#: The same for all jobs of a command that shows many: one to two seconds.
SHARED_BUDGET = 16 * BUDGET
#: What one of them gets at least: enough for the fixes that change the job itself.
_LEAST = BUDGET // 8
#: Pending jobs that are served first when a fix is tried under competition.
MAX_AHEAD = 32
STARTS = float("inf")


@dataclass(frozen=True, slots=True)
class Fix:
    #: board, size, min-available, label, annotation, selector, queue, released, chips, cooldown, bundles,
    #: moves, job-ended, node, claim, wait
    kind: str
    text: str
    #: How many jobs are ahead in the queue, where those would take the capacity first.
    contested: int = 0

    @property
    def sentence(self) -> str:
        """Its text, with the jobs that may prevent it."""
        return fix_sentence(self.text, self.contested)


def fix_sentence(text: str, contested: int) -> str:
    """A fix, with the jobs ahead in the queue that may prevent it."""
    if not contested:
        return text
    ahead = f"{counted(contested, 'job')} ahead of it {agrees(contested, 'takes', 'take')}"
    return f"{text} (unless the {ahead} the chips)"


@dataclass(slots=True)
class SearchBudget:
    """How much may still be tried, for one job or for all jobs of a command."""

    remaining: int = BUDGET
    #: What the search for one job may use.
    share: int = BUDGET
    #: For moves; read only where some are looked for.
    disruption_budgets: BudgetReader = no_budgets
    #: Moves of running jobs are looked for only where one job is asked about.
    may_move: bool = True
    #: What was not looked at, as sentences.
    omitted: list[str] = field(default_factory=list)

    @classmethod
    def of_jobs(cls, jobs: int) -> SearchBudget:
        """Many jobs get less each, and the last ones of very many nothing."""
        share = max(_LEAST, min(BUDGET, SHARED_BUDGET // max(jobs, 1)))
        return cls(SHARED_BUDGET, share, may_move=False)


#: Opens a supposition: a context in which something is different.
Suppose = Callable[[], AbstractContextManager[None]]


class FixSearch:
    """One search for one job: everything that is tried counts against one budget."""

    def __init__(
        self,
        view: SchedulerView,
        job: Job,
        now: int,
        reason: Reason,
        refusals: Refusals | None,
        ahead: Sequence[Job],
        budget: SearchBudget,
    ) -> None:
        self.view = view
        self.job = job
        self.now = now
        #: Why it waits.
        self.reason = reason
        #: Near misses, nearest first, and how many nodes refuse for which reason code.
        self.misses = refusals.misses if refusals is not None else ()
        self.tainted = refusals.tainted if refusals is not None else ()
        self.codes = refusals.counts if refusals is not None else {}
        self._ahead = list(ahead[:MAX_AHEAD])
        self._all_ahead = len(ahead)
        self.budget = budget
        #: No job uses up what is meant for several.
        self._reserve = max(0, budget.remaining - budget.share)
        # A session is opened for every attempt: plugins read all jobs, then the pods.
        self._cost = 20 + len(view.jobs) // 20 + len(job.in_order)
        if job.policy is not None and (job.policy.block_nodes or job.policy.switch_class):
            # Planning reads every node.
            self._cost += view.cluster.node_count // 4
        self._cost_ahead = sum(10 + len(other.pods) for other in self._ahead)
        #: Whether something was not tried because the budget was used up.
        self.cut_short = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more may be tried."""
        return self.budget.remaining <= self._reserve

    def ended(self, uids: Iterable[str]) -> Suppose:
        """Suppose that these pods have ended."""
        what_if, pods = self.view.what_if, list(uids)
        return lambda: what_if.ended(what_if.open_session(self.now), pods)

    def progress(self, suppose: Suppose, extra: int = 0) -> float:
        """How many pods of its gang can be placed under the supposition; infinite when the job starts."""
        if not self.spend(self._cost + extra):
            return -1
        with suppose():
            reason = self.view.what_if.verdict(self.job, self.now)
        if reason is None:
            return STARTS
        fit = reason.details.get("fit", 0)
        return fit if isinstance(fit, int) else 0

    def spend(self, steps: int) -> bool:
        """Use up some of the budget; False where nothing more may be tried."""
        if self.is_over:
            self.cut_short = True
            return False
        self.budget.remaining -= steps
        return True

    def holds(self, suppose: Suppose, extra: int = 0) -> bool:
        return self.progress(suppose, extra) == STARTS

    def fix(self, kind: str, text: str, suppose: Suppose) -> Fix:
        """The fix works; find out whether it still does when the jobs ahead are served first."""
        if not self._ahead:
            return Fix(kind, text)
        self.budget.remaining -= self._cost + self._cost_ahead
        with suppose():
            reason = self.view.what_if.verdict(self.job, self.now, self._ahead)
        return Fix(kind, text, self._all_ahead if reason is not None else 0)

    def attempt(self, kind: str, text: str, suppose: Suppose, extra: int = 0) -> Iterator[Fix]:
        if self.holds(suppose, extra):
            yield self.fix(kind, text, suppose)

    def change(self, kind: str, text: str, change: JobChange) -> Iterator[Fix]:
        return self.attempt(kind, text, self.changed(change))

    def largest_below(
        self, limit: int, kind: str, text: Callable[[int], str], change: Callable[[int], JobChange]
    ) -> Iterator[Fix]:
        """The largest number below a limit with which the job starts, found by bisection."""
        most = self.most_below(limit, change)
        if most:
            yield self.fix(kind, text(most), self.changed(change(most)))

    def most_below(self, limit: int, change: Callable[[int], JobChange]) -> int:
        """The number of such a fix; 0 if there is none."""
        return nearest(0, limit, lambda number: self.holds(self.changed(change(number))) or None, True)[0]

    def changed(self, change: JobChange) -> Suppose:
        """Suppose that the job is different."""
        return partial(self.view.what_if.changed, self.job, change)

    def fewest(self, parts: Sequence[Suppose], extra: int = 0) -> list[int]:
        """Positions of a small set of suppositions that together let the job start; empty if none does."""
        taken: list[int] = []
        for position in range(len(parts)):
            taken.append(position)
            if self.holds(together(parts, taken), extra):
                break
        else:
            return []
        for position in list(taken[:-1]):
            fewer = [other for other in taken if other != position]
            if self.holds(together(parts, fewer), extra):
                taken = fewer
        return taken


def first_fixes(attempts: Iterable[Iterator[Fix]], most: int = 1) -> Iterator[Fix]:
    """The fixes of the first attempts that help, at most so many. No other is tried."""
    return islice(chain.from_iterable(attempts), most)


def together(parts: Sequence[Suppose], taken: Iterable[int]) -> Suppose:
    """Several suppositions at once: those at these positions."""
    chosen = [parts[position] for position in taken]

    @contextmanager
    def opened() -> Iterator[None]:
        with ExitStack() as supposed:
            for part in chosen:
                supposed.enter_context(part())
            yield

    return opened


def joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
