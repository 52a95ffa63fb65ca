"""The queues that exist in every cluster: `default`, and `root`, which is above all others.

They are created where they are missing, and existing ones are used as they are. Clients look them up:
Huawei's operator refuses jobs for a queue without an object.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ringwise.kubeclient.client import Client
from ringwise.kubeclient.resources import QUEUES
from ringwise.kubeclient.retry import GivenUpError, Retrier
from ringwise.log import Logger
from ringwise.state.model import DEFAULT_QUEUE, ROOT_QUEUE

_LOG = Logger()


def default_queues() -> list[dict[str, Any]]:
    """The root first: it is the parent of the other."""
    root = {"weight": 1, "reclaimable": False}
    default = {"weight": 1, "reclaimable": True, "parent": ROOT_QUEUE}
    return [
        {"apiVersion": QUEUES.version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
        for name, spec in ((ROOT_QUEUE, root), (DEFAULT_QUEUE, default))
    ]


async def create_default_queues(client: Client, retrier: Retrier) -> None:
    for queue in default_queues():
        try:
            await retrier.run(partial(client.create_if_missing, QUEUES, None, queue))
        except GivenUpError as error:
            # Jobs of the queue `default` run without an object, too.
            _LOG.warning("queue not created", queue=queue["metadata"]["name"], why=str(error))
