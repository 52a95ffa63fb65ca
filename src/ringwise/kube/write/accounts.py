"""Accounting documents on Kubernetes: read when this replica begins to lead, written at most once a minute.

Where they are kept is a store's matter: the ConfigMaps of the scheduler, or a folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from ringwise.kube.write.own_config_maps import OwnConfigMaps
from ringwise.kubeclient.clock import Clock
from ringwise.kubeclient.retry import GivenUpError, Retrier
from ringwise.kubeclient.tasks import end, repeat
from ringwise.log import Logger
from ringwise.manifests.accounts.ledger import SLOTS, AccountLedger
from ringwise.messages.accounting import AccountCommand
from ringwise.messages.events import AccountsRead
from ringwise.wellknown import ACCOUNTING_CONFIG_MAPS, ACCOUNTING_KEY, VOLCANO_SYSTEM

_LOG = Logger()
#: Seconds between two writes.
INTERVAL = 60.0
#: Requests at the same time; seconds that the last write of a term may take.
_TOGETHER, _LAST = 8, 5.0
_ATTEMPTS = 3


class AccountStore(Protocol):
    #: Whether there may be 64 documents at most.
    limited: bool

    async def read(self) -> Sequence[tuple[str, str]]:
        """Names and texts; the text of what is there and is not a document is empty."""

    async def write(self, name: str, text: str) -> None:
        """Raises GivenUpError and OSError."""


class ConfigMapAccounts:
    limited = True

    def __init__(self, config_maps: OwnConfigMaps, retrier: Retrier) -> None:
        self._config_maps = config_maps
        self._retrier = retrier

    async def read(self) -> list[tuple[str, str]]:
        accounts: dict[str, str] = {}
        for start in range(0, len(SLOTS), _TOGETHER):
            slots = SLOTS[start : start + _TOGETHER]
            names = [f"{ACCOUNTING_CONFIG_MAPS}{slot}" for slot in slots]
            finds = [partial(self._config_maps.find, VOLCANO_SYSTEM, name) for name in names]
            all_data = await asyncio.gather(*map(self._retrier.run, finds))
            for slot, data in zip(slots, all_data, strict=True):
                if data is not None:
                    accounts[slot] = data.get(ACCOUNTING_KEY, "")
        return sorted(accounts.items())

    async def write(self, name: str, text: str) -> None:
        config_map = f"{ACCOUNTING_CONFIG_MAPS}{name}"
        write = partial(self._config_maps.write, VOLCANO_SYSTEM, config_map, {ACCOUNTING_KEY: text})
        await self._retrier.run(write, _ATTEMPTS)


class AccountKeeper:
    """One term: adds up what the scheduler tells, and writes it."""

    def __init__(
        self,
        store: AccountStore,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._clock = clock
        self._sleep = sleep
        self._ledger = AccountLedger(limited=store.limited)
        self._is_read = False
        self._writing: asyncio.Task[None] | None = None
        #: What was said last about a document that could not be written.
        self._said: dict[str, str] = {}

    async def read(self) -> AccountsRead:
        """What was written before. Raises GivenUpError and OSError where it cannot be read."""
        self._ledger.read(await self._store.read(), self._clock.now())
        self._is_read = True
        for name, why in self._ledger.foreign.items():
            _LOG.warning("accounting document is not changed", document=name, why=why)
        return self._ledger.state()

    def apply(self, command: AccountCommand) -> None:
        if self._is_read:
            self._ledger.apply(command, self._clock.now())

    def lead(self) -> None:
        if self._is_read:
            keeping = repeat(INTERVAL, self.write, sleep=self._sleep)
            self._writing = asyncio.create_task(keeping, name="accounting")

    async def write(self) -> None:
        """What changed. Others are written although one cannot be."""
        for name, text in self._ledger.due(self._clock.now()):
            try:
                await self._store.write(name, text)
                self._said.pop(name, None)
            except (GivenUpError, OSError) as error:
                self._ledger.failed([name])
                if self._said.get(name) != str(error):
                    self._said[name] = str(error)
                    _LOG.warning("accounting document is not written", document=name, why=str(error))

    async def stop(self) -> None:
        """The end of the term: what is not written yet is, if it still may be."""
        if self._writing is None:
            return
        await end(self._writing)
        self._writing = None
        try:
            await asyncio.wait_for(self.write(), _LAST)
        except TimeoutError:
            _LOG.warning("the last accounting documents are not written: the API server does not respond")
