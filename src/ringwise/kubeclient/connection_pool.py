"""The connections of one client certificate, which may change while they are used."""

from __future__ import annotations

import aiohttp


class Line:
    """Connections with one client certificate, and how many requests and watches use them."""

    __slots__ = ("busy", "pair", "retired", "session")

    def __init__(self, session: aiohttp.ClientSession, pair: tuple[str, str]) -> None:
        self.session = session
        self.pair = pair
        self.busy = 0
        self.retired = False

    async def leave(self) -> None:
        """Closed by the last one who leaves: whoever still listened would wait for ever, without an error."""
        self.busy -= 1
        if self.retired and not self.busy:
            await self.session.close()
