"""Fixes of jobs whose volume claims keep them from every node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ringwise.grammar import agrees, counted
from ringwise.plugins.predicates.reasons import CLAIM_IN_USE, OF_CLAIMS, OF_VOLUMES
from ringwise.reasons import Reason
from ringwise.scheduler.explain.cluster_fixes import ended_job_fixes
from ringwise.scheduler.explain.fix_search import Fix, FixSearch, joined
from ringwise.state.volume_table import keys_of

_NAMED_CLAIMS = 3


def waits_for_claim(reason: Reason) -> bool:
    """Whether a claim of the job refuses it, whatever nodes are free."""
    return reason.code in OF_CLAIMS


def claim_fixes(search: FixSearch, reason: Reason) -> Iterator[Fix]:
    """What the reason says of the claim; tried with volumes that every node can use."""
    if reason.code == CLAIM_IN_USE.code:
        yield from ended_job_fixes(search)
        return
    pods = search.job.in_order
    supposed = partial(search.view.what_if.claims_bound, pods)
    if search.holds(supposed, sum(len(pod.claims) for pod in pods)):
        for text in reason.fixes:
            yield search.fix("claim", text, supposed)


def volume_fixes(search: FixSearch) -> Iterator[Fix]:
    """Other volumes, where it is volumes that keep the job from nodes."""
    if not OF_VOLUMES & search.codes.keys():
        return
    pods = search.job.in_order
    claims = list(dict.fromkeys(key for pod in pods for key in keys_of(pod)))
    names = claims[:_NAMED_CLAIMS]
    if len(claims) > _NAMED_CLAIMS:
        names.append(counted(len(claims) - _NAMED_CLAIMS, "more claim"))
    text = f"use {agrees(len(claims), 'a volume', 'volumes')} for {joined(names)} that every node can use"
    supposed = partial(search.view.what_if.claims_bound, pods, others=True)
    yield from search.attempt("claim", text, supposed, sum(len(pod.claims) for pod in pods))
