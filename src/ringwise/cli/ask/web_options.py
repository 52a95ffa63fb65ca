"""Options of the commands that serve a dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ringwise.apps.web.options import WebOptions

HOSTS = click.option(
    "--web-host",
    "web_hosts",
    multiple=True,
    metavar="NAME",
    help="A name that the dashboard is reached by, besides addresses and localhost; may be repeated.",
)
CERTIFICATE = (
    click.option(
        "--web-cert-file",
        type=click.Path(path_type=Path),
        help="Certificate of the dashboard, PEM; read again when it changes.",
    ),
    click.option("--web-key-file", type=click.Path(path_type=Path), help="The key of that certificate, PEM."),
)
WEB = (
    click.option(
        "--web-address",
        default="",
        help="Listen address of the dashboard, like 127.0.0.1:8090; empty for none. On an address that "
        "other machines reach it needs a certificate and asks callers for a token of the cluster.",
    ),
    HOSTS,
    *CERTIFICATE,
    click.option(
        "--web-replicas",
        default="",
        metavar="NAME:PORT",
        help="A name with the addresses of all replicas, and the port of their dashboards: the replica that "
        "leads passes long questions on to another one. They have the same certificate.",
    ),
)


def web_options(
    address: str, hosts: tuple[str, ...], certificate: Path | None, key: Path | None, replicas: str
) -> WebOptions | None:
    """None where no dashboard is wanted."""
    if not address:
        return None
    from ringwise.apps.web.options import WebOptions

    return WebOptions(address, hosts, certificate, key, replicas)
