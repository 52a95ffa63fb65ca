"""Documents of accounting for the dashboard of a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ringwise.apps.live_accounts import accounts_of
from ringwise.apps.web.job_documents import Documents, ReadAccounts
from ringwise.kubeclient.client import ApiError, Client, UnreachableError
from ringwise.web.guard import RequestRefusedError
from ringwise.wellknown import VOLCANO_SYSTEM

#: Seconds for which documents are kept: they are written once a minute, and are many megabytes.
CACHE_SECONDS = 60.0


class RecentAccounts:
    """Reads them once for all who look."""

    def __init__(self, read: ReadAccounts, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = asyncio.Lock()
        self._at: float | None = None
        self._documents: Documents = ()

    async def __call__(self) -> Documents:
        """Raises RequestRefusedError."""
        async with self._lock:
            now = self._clock()
            if self._at is None or now - self._at >= CACHE_SECONDS:
                self._documents, self._at = await self._fresh(), now
            return self._documents

    async def _fresh(self) -> Documents:
        try:
            return await self._read()
        except ApiError as error:
            # The right is this process's to have: another token of the reader does not help.
            status, code = (
                (404, "no-accounting") if error.status in (401, 403) else (503, "no-accounting-now")
            )
            raise RequestRefusedError(status, code, f"accounting cannot be read: {error}") from None
        except (UnreachableError, OSError) as error:
            text = f"accounting cannot be read: {error}"
            raise RequestRefusedError(503, "no-accounting-now", text) from None


def accounts_in_cluster(client: Client) -> ReadAccounts:
    """Those in ConfigMaps."""
    return RecentAccounts(lambda: accounts_of(client, VOLCANO_SYSTEM))
