"""Bundles: pods that gang-aware actions evict together, and what a configuration says about them."""

from __future__ import annotations

from ringwise.framework.arguments import boolean, integer
from ringwise.framework.session import Session
from ringwise.records import dataclass

MAX_DOMAINS = integer(
    "maxDomains",
    8,
    "number of HyperNodes in which victims for one job with a network topology are searched",
    minimum=1,
    maximum=1000,
)
ALLOW_WHOLE = boolean(
    "allowWholeBundle",
    True,
    "whether whole jobs are evicted if the pods that jobs can spare are not enough",
)
ARGUMENTS = (MAX_DOMAINS, ALLOW_WHOLE)


@dataclass(frozen=True, slots=True)
class Bundles:
    """How gang-aware actions search: first what all jobs can spare, then whole jobs; in a few domains."""

    max_domains: int
    allow_whole: bool


def bundles_of(session: Session, action: str) -> Bundles:
    """As the action is configured."""
    configuration = session.configuration
    return Bundles(
        configuration.action_value(action, MAX_DOMAINS), configuration.action_value(action, ALLOW_WHOLE)
    )
