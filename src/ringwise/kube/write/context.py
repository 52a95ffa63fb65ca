"""What all that writes to the API server in one term of leadership shares."""

from __future__ import annotations

import random
from dataclasses import field

from ringwise.kube.write.fence import Fence
from ringwise.kube.write.terminating_namespaces import TerminatingNamespaces
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.retry import Retrier
from ringwise.metrics.prometheus import Metrics
from ringwise.records import dataclass


@dataclass(slots=True, eq=False)
class WriteContext:
    #: Every write passes the fence just before it is sent.
    client: Client
    fence: Fence
    clock: Clock
    observer: Metrics = field(default_factory=Metrics)
    rng: random.Random = field(default_factory=random.Random)
    namespaces: TerminatingNamespaces = field(default_factory=TerminatingNamespaces)

    def __post_init__(self) -> None:
        self.client = self.client.gated(self.fence)

    def retrier(self, in_flight: int = 64) -> Retrier:
        """A new one: those that share it wait for each other."""
        return Retrier(self.clock, may_write=lambda: self.fence.is_open, rng=self.rng, in_flight=in_flight)
