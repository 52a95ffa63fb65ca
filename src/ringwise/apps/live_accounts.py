"""The accounting documents of a cluster, read with the rights of a kubeconfig."""

from __future__ import annotations

import asyncio

from ringwise.kubeclient.client import Client, run
from ringwise.kubeclient.config import Access
from ringwise.kubeclient.resources import CONFIG_MAPS
from ringwise.manifests.accounts.ledger import SLOTS
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.wellknown import ACCOUNTING_CONFIG_MAPS, ACCOUNTING_KEY

_TOGETHER = 8


def read_accounts(access: Access, namespace: str) -> list[tuple[str, str]]:
    """Names of ConfigMaps and their documents. Raises ApiError and UnreachableError."""
    return run(access, lambda client: accounts_of(client, namespace))


async def accounts_of(client: Client, namespace: str) -> list[tuple[str, str]]:
    result: list[tuple[str, str]] = []
    for start in range(0, len(SLOTS), _TOGETHER):
        names = [f"{ACCOUNTING_CONFIG_MAPS}{slot}" for slot in SLOTS[start : start + _TOGETHER]]
        texts = await asyncio.gather(*(_text(client, namespace, name) for name in names))
        result += [(name, text) for name, text in zip(names, texts, strict=True) if text is not None]
    return result


async def _text(client: Client, namespace: str, name: str) -> str | None:
    wire = await client.find(CONFIG_MAPS, namespace, name, ConfigMapWire)
    return None if wire is None else (wire.data or {}).get(ACCOUNTING_KEY) or ""
