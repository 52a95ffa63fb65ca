"""How long a test waits for what must come."""

from __future__ import annotations

#: Seconds after which a test that hangs fails. On a busy machine one that works may take a minute or two.
TEST_TIMEOUT = 300.0
