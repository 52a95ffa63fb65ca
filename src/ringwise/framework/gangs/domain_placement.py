"""Places pods that are to be near each other in the network: in one domain after the other (M2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext

from ringwise.framework.extension_points import (
    DOMAIN_SCORE,
    DOMAINS,
    DomainAttempt,
    DomainCandidates,
    DomainRequest,
)
from ringwise.framework.job import Job
from ringwise.framework.network_topology import asks_for_topology
from ringwise.framework.session import Session
from ringwise.framework.statement import Statement
from ringwise.reasons import Reason
from ringwise.state.cluster import ClusterState
from ringwise.state.hyper_nodes import Domain
from ringwise.state.node_labels import node_set


def obeys_topology(session: Session, job: Job) -> bool:
    """Whether the job has a network topology, and a plugin that obeys it is configured (M2)."""
    return asks_for_topology(job) and bool(session.registered(DOMAINS))


def placed_nodes(state: ClusterState, job: Job) -> int:
    """Nodes where pods of the job have their place, as bits by node id."""
    placements = state.pods
    return node_set(
        node
        for uid, pod in job.pods.items()
        if pod.live and not pod.deleting and (node := placements[uid].node) >= 0
    )


def domains_for(session: Session, request: DomainRequest) -> DomainCandidates | None:
    """The domains to try, inside a tier the best first.

    None where no plugin knows of domains, or the topology restricts nothing.
    """
    for choose in session.registered(DOMAINS):
        domains = choose(request)
        if domains is not None:
            return domains._replace(tiers=_best_first(session, request, domains.tiers))
    return None


def _best_first(
    session: Session, request: DomainRequest, tiers: Iterable[Sequence[Domain]]
) -> Iterator[Sequence[Domain]]:
    scores = session.registered(DOMAIN_SCORE)

    def key(domain: Domain) -> float:
        return -sum(score(request, domain) for score in scores)

    for tier in tiers:
        yield sorted(tier, key=key) if len(tier) > 1 else tier


def place_in_domains(
    session: Session,
    statement: Statement,
    request: DomainRequest,
    place: Callable[[Domain | None], Reason | None],
) -> Reason | None:
    """Place the pods in the first domain that takes them: the best of the lowest tier that has one.

    `place` places them where the session is restricted to; it is given the domain, or None where nothing is
    restricted. What it did is undone where it gives a reason.
    """
    candidates = domains_for(session, request)
    if candidates is None:
        return place(request.within)
    tried: list[DomainAttempt] = []
    before = statement.savepoint()
    for tier in candidates.tiers:
        for domain in tier:
            # The one without a name has all nodes.
            with session.restricted(domain.nodes) if domain.name else nullcontext():
                reason = place(domain)
            if reason is None:
                return None
            placed = len(statement.allocations) - before.allocations
            statement.rollback_to(before)
            tried.append(DomainAttempt(domain, placed, reason))
    return candidates.refuse(tried)
