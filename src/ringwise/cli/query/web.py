"""`ringwise web`: the dashboard beside a cluster, of a journal, or of manifests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.inputs import load_catalog
from ringwise.cli.options import (
    CERTIFICATE,
    HOSTS,
    api_server_options,
    board_option,
    configuration_option,
    files_option,
    option,
)
from ringwise.cli.output import complain, running_component, stop

if TYPE_CHECKING:
    from ringwise.web.application import DashboardServer

#: Other commands show files before a decision, so it is said where a page shows the moment after one.
AFTER_DECISION = "note: the page shows chips that pending jobs would get now as used"


_CERTIFICATE = ("web_tls_cert_file", "web_tls_private_key_file")


@click.command("web")
@api_server_options
@option(
    "--journal journals",
    "Show the final state of this journal instead of a cluster.",
    click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
)
@files_option("Show the cluster that these manifests describe instead.")
@configuration_option
@board_option
@option("--web-address", "Listen address of the dashboard.  [default: 127.0.0.1:8090, or another port]")
@HOSTS
@CERTIFICATE
def web_command(
    journals: tuple[Path, ...],
    files: tuple[str, ...],
    config: Path | None,
    boards: tuple[Path, ...],
    web_address: str | None,
    **options: Any,
) -> None:
    """Serve the dashboard of a cluster until Ctrl-C.

    It uses the permissions of the kubeconfig and makes no decisions. With --journal or --filename it shows
    the content of the file, without a cluster.
    """
    if journals and files:
        raise click.UsageError("--journal and --filename cannot be combined")
    if len(journals) > 1:
        raise click.UsageError(
            "--journal can be used only once; rotated files of the journal are read with it"
        )
    if not journals and not files:
        _beside_cluster(web_address, boards, options)
        return
    if any(options[name] is not None for name in _CERTIFICATE):
        raise click.UsageError(
            "the dashboard of files listens on this machine only and does not use a certificate"
        )
    if journals:
        serve(_of_journal(journals[0], boards), web_address)
    else:
        serve(_of_files(files, config, boards), web_address)


def _beside_cluster(address: str | None, boards: tuple[Path, ...], options: dict[str, Any]) -> None:
    from ringwise.apps.live import NothingReadableError
    from ringwise.apps.web.kube import run_standalone
    from ringwise.apps.web.options import DASHBOARD_PORT, WebOptions
    from ringwise.cli.query.queries import find_cluster
    from ringwise.kubeclient.client import ApiError, UnreachableError
    from ringwise.kubeclient.credentials import KubeConfigError

    with running_component("dashboard"):
        web = WebOptions(
            address or f"127.0.0.1:{DASHBOARD_PORT}",
            options["web_hosts"],
            options["web_tls_cert_file"],
            options["web_tls_private_key_file"],
            or_any_port=address is None,
        )
        web.check()
        try:
            run_standalone(web, find_cluster(options), load_catalog(boards), _print_url)
        except (KubeConfigError, UnreachableError, NothingReadableError) as error:
            raise stop(f"ringwise: {error}") from None
        except ApiError as error:
            message = f"ringwise: the API server rejected the request: {error}"
            raise stop(message, code=ExitCode.FAILED) from None


def _print_url(url: str) -> None:
    click.echo(f"dashboard on {url}; Ctrl-C stops")


def _of_journal(path: Path, boards: tuple[Path, ...]) -> DashboardServer:
    from ringwise.apps.journal.format import JournalError
    from ringwise.apps.web.snapshot import end_of_journal, snapshot_dashboard

    try:
        view, now, notes = end_of_journal(path, load_catalog(boards))
    except JournalError as error:
        raise stop(f"ringwise: {error}") from None
    complain(*(f"note: {note}" for note in notes))
    return snapshot_dashboard(view, now, "journal", str(path), [path])


def _of_files(files: tuple[str, ...], config: Path | None, boards: tuple[Path, ...]) -> DashboardServer:
    """The cluster of manifests after one cycle, as `ringwise place` decides it."""
    from ringwise.apps.web.snapshot import snapshot_dashboard
    from ringwise.cli.query.queries import files_source, reading_objects

    source = files_source(files, config, boards, may_skip=False)
    with reading_objects(may_skip=False):
        view = source.decided.view
    complain(AFTER_DECISION)
    return snapshot_dashboard(view, source.now, "file", " ".join(files))


def serve(server: DashboardServer, address: str | None) -> None:
    """Serve to this machine alone until Ctrl-C."""
    from ringwise.apps.web.options import DASHBOARD_PORT
    from ringwise.apps.web.serving import listening
    from ringwise.metrics.endpoints import AddressError, parse_address
    from ringwise.web.addresses import is_loopback

    async def main() -> None:
        wanted = address or f"127.0.0.1:{DASHBOARD_PORT}"
        if not is_loopback(parse_address(wanted)[0]):
            raise AddressError(f"the dashboard of files requires a local address, not {wanted}")
        async with listening(server, wanted, or_any_port=address is None) as url:
            _print_url(url)
            await asyncio.Event().wait()

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        click.echo("stopped")
    except AddressError as error:
        raise stop(str(error)) from None
