"""The options of a dashboard."""

from __future__ import annotations

from pathlib import Path

from ringwise.metrics.endpoints import AddressError, parse_address
from ringwise.records import dataclass
from ringwise.web.addresses import is_loopback

#: Port of the dashboard, where it is free.
DASHBOARD_PORT = 8090


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Where the dashboard listens, by which names it is known, and the files of its certificate."""

    address: str
    hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    #: A name with the addresses of all replicas, and the port of their dashboards; empty: there are none.
    replicas: str = ""
    #: Where the port is taken, another one is used.
    or_any_port: bool = False

    @property
    def local(self) -> bool:
        """Whether only this machine can connect: no token is asked for then."""
        return is_loopback(parse_address(self.address)[0])

    def check(self) -> None:
        """Raises AddressError. Tokens of the cluster are not sent in the clear."""
        if self.replicas:
            parse_address(self.replicas)
        if (self.certificate is None) != (self.key is None):
            raise AddressError("--web-tls-cert-file and --web-tls-private-key-file must be set together")
        if not self.local and self.certificate is None:
            raise AddressError(
                f"--web-address {self.address}: an address that other machines can reach requires "
                "--web-tls-cert-file and --web-tls-private-key-file; use 127.0.0.1 for this "
                "machine only"
            )
