"""Certificates in files that another program renews."""

from __future__ import annotations

import ssl
from pathlib import Path

from ringwise.kubeclient.config import load_pair
from ringwise.kubeclient.tasks import repeat
from ringwise.log import Logger
from ringwise.metrics.endpoints import AddressError

_LOG = Logger()


class CertificateFiles:
    """A TLS context with a certificate from files, which cert-manager or kubelet replace."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises AddressError."""
        self._files = certificate, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._loaded: tuple[bytes, bytes] | None = None
        try:
            self.read()
        except (OSError, ssl.SSLError, ValueError) as problem:
            raise AddressError(f"{certificate}, {key}: the certificate cannot be used: {problem}") from None

    def read(self) -> bool:
        """Load the files if they changed, and return whether they did. New connections use them."""
        pair = self._files[0].read_bytes(), self._files[1].read_bytes()
        if pair == self._loaded:
            return False
        certificate, key = (content.decode() for content in pair)
        # A certificate and a key that do not belong together leave a context without any key, so they are
        # tried on another one: while files are replaced one after the other, the last pair is served.
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
        load_pair(self.context, certificate, key)
        self._loaded = pair
        return True

    async def renew(self, interval: float) -> None:
        file, warning = str(self._files[0]), "certificate not loaded; the last one is served"

        async def read() -> None:
            if self.read():
                _LOG.info("new certificate loaded", file=file)

        await repeat(interval, read, (OSError, ssl.SSLError, ValueError), warning, file=file)
