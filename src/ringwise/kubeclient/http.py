"""aiohttp, imported without the certificates of the system.

aiohttp builds two TLS contexts when it is imported and reads all certificates of the system for each, which
takes longer than the rest of its import. Ringwise never uses them: `Access.tls` makes the context of every
connection. So the search for certificates is pointed to an empty file meanwhile. A connection that used one
of those contexts would fail, not be unprotected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

#: Environment variables that name OpenSSL's certificates.
_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@contextmanager
def _no_system_certificates() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(dict.fromkeys(_VARIABLES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _no_system_certificates():
    import aiohttp as aiohttp
