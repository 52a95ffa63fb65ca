"""Options of the commands that serve a dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringwise.cli.options import PATH, option, with_options

if TYPE_CHECKING:
    from ringwise.apps.web.options import WebOptions

HOSTS = option(
    "--web-host web_hosts",
    "Additional host name of the dashboard, besides addresses and localhost; can be repeated.",
    multiple=True,
    metavar="NAME",
)
CERTIFICATE = with_options(
    option("--web-tls-cert-file", "Certificate of the dashboard (PEM); reloaded when it changes.", PATH),
    option("--web-tls-private-key-file", "Private key of the certificate (PEM).", PATH),
)
WEB = with_options(
    option(
        "--web-address",
        "Listen address of the dashboard, such as 127.0.0.1:8090; empty to disable it. An address "
        "that other machines can reach requires a certificate, and clients must send a token of the "
        "cluster.",
        default="",
    ),
    HOSTS,
    CERTIFICATE,
    option(
        "--web-replicas",
        "DNS name of all replicas and the port of their dashboards. The leader forwards long queries "
        "to another replica. All replicas must have the same certificate.",
        default="",
        metavar="NAME:PORT",
    ),
)


def take_web(options: dict[str, Any]) -> WebOptions | None:
    """What the options of a dashboard say, taken out of those of the command; None where none is wanted."""
    names = ("web_address", "web_hosts", "web_tls_cert_file", "web_tls_private_key_file", "web_replicas")
    address, *others = (options.pop(name) for name in names)
    if not address:
        return None
    from ringwise.apps.web.options import WebOptions

    return WebOptions(address, *others)
