"""Options of the commands that serve a dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ringwise.apps.web.options import WebOptions

HOSTS = click.option(
    "--web-host",
    "web_hosts",
    multiple=True,
    metavar="NAME",
    help="Additional host name of the dashboard, besides addresses and localhost; can be repeated.",
)
CERTIFICATE = (
    click.option(
        "--web-tls-cert-file",
        type=click.Path(path_type=Path),
        help="Certificate of the dashboard (PEM); reloaded when it changes.",
    ),
    click.option(
        "--web-tls-private-key-file",
        type=click.Path(path_type=Path),
        help="Private key of the certificate (PEM).",
    ),
)
WEB = (
    click.option(
        "--web-address",
        default="",
        help="Listen address of the dashboard, such as 127.0.0.1:8090; empty to disable it. An address "
        "that other machines can reach requires a certificate, and clients must send a token of the "
        "cluster.",
    ),
    HOSTS,
    *CERTIFICATE,
    click.option(
        "--web-replicas",
        default="",
        metavar="NAME:PORT",
        help="DNS name of all replicas and the port of their dashboards. The leader forwards long queries "
        "to another replica. All replicas must have the same certificate.",
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
