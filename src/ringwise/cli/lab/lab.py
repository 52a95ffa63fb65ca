"""`ringwise lab`: a cluster of simulated nodes with the real scheduler, live in this terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ringwise.apps.forked_queries import ForkedQueries
from ringwise.apps.lab.api import run_lab
from ringwise.apps.lab.folder import FolderError, LabFolder, default_folder
from ringwise.apps.lab.lab import MAX_BYTES, FleetSettings, LabSettings, LiveLab
from ringwise.apps.lab.queries import status_document
from ringwise.cli.completion import CompletedName, shipped_board_names
from ringwise.cli.inputs import load_configuration
from ringwise.cli.options import (
    DIRECTORY,
    LOOPBACK,
    board_option,
    configuration_option,
    duration_option,
    flag,
    option,
)
from ringwise.cli.output import complain, require_grpc, stop
from ringwise.cli.printers.cluster import counts_text, use_text
from ringwise.durations import time_text
from ringwise.embed.fleets import MAX_NODES, parse_boards
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.store import StoreError
from ringwise.grammar import counted
from ringwise.metrics.endpoints import AddressError, parse_address

_FLEET = ("nodes", "board", "leaf_size", "superpod_size", "soft", "dynamic")
_SIMULATION = ("start_delay", "termination_delay", "duration")


@click.command("lab")
@option("--nodes", "Number of nodes.", click.IntRange(0, MAX_NODES), 16)
@option(
    "--board",
    "Board of the nodes (see `ringwise boards`), or boards with their number of nodes: 910-x8:200,310p:50.",
    CompletedName(shipped_board_names),
    "910-x8",
)
@option("--leaf-size", "Nodes per leaf switch.  [default: no switches]", click.IntRange(1))
@option("--superpod-size", "Nodes per SuperPoD.  [default: no SuperPoDs]", click.IntRange(1))
@option(
    "--soft",
    "Additional nodes (910b-x8) with soft shares of chips.  [default: 0]",
    click.IntRange(0, MAX_NODES),
    0,
)
@option(
    "--dynamic", "Additional nodes (310p) with dynamic vNPUs.  [default: 0]", click.IntRange(0, MAX_NODES), 0
)
@configuration_option
@board_option
@option(
    "--data-dir",
    "Directory of the state of the lab.  [default: $RINGWISE_LAB, else the state directory of the user]",
    DIRECTORY,
)
@flag("--reset", "Delete the data of the directory and start with a new cluster.")
@option(
    "--speed", "Speed of the lab clock, as a multiple of real time.", click.FloatRange(0.001, 1_000_000), 1.0
)
@flag(
    "--virtual/--real",
    "Virtual time, advanced by `ringwise advance`, or real time.  [default: real]",
    default=False,
)
@duration_option("--duration", "Duration of pods that do not set one.  [default: until they are deleted]")
@duration_option("--start-delay", "Time that pods take to start.", "2s")
@duration_option("--termination-delay", "Time that pods take to terminate.", "2s")
@flag(
    "--device-plugin/--no-device-plugin",
    "Run the real device plugin for each node with pods, with simulated chips and a kubelet stand-in.",
    default=False,
)
@option(
    "--mount-method",
    "How chips are mounted into containers; requires --device-plugin.  [default: plain]",
    click.Choice(["plain", "ascend-docker", "cdi"]),
)
@option(
    "--journal-size",
    "Size in megabytes after which the journal is rotated; two files are kept; 0 disables the journal.",
    click.IntRange(0),
    MAX_BYTES >> 20,
)
@option(
    "--web-address",
    "Listen address of the dashboard; empty to disable it.  [default: 127.0.0.1:8090, or another port]",
)
@click.pass_context
def lab_command(
    context: click.Context,
    /,
    nodes: int,
    board: str,
    config: Path | None,
    boards: tuple[Path, ...],
    data_dir: Path | None,
    reset: bool,
    speed: float,
    virtual: bool,
    device_plugin: bool,
    mount_method: str | None,
    journal_size: int,
    web_address: str | None,
    **_options: Any,
) -> None:
    """Run a lab: simulated nodes and the real scheduler.

    Use it from another terminal with submit, get, describe, delete, cordon, uncordon, drain, fault, why,
    capacity, doctor, topology show and top. The state of the lab is kept across restarts.
    """
    if mount_method is not None and not device_plugin:
        raise click.UsageError("--mount-method requires --device-plugin")
    if device_plugin:
        require_grpc("ringwise lab --device-plugin")
    _check_boards(context, board, nodes)
    settings = LabSettings(
        fleet=FleetSettings(**{name: context.params[name] for name in _FLEET}),
        configuration=_configuration(config),
        boards=boards,
        simulation=SimulationSettings(*(context.params[name] for name in _SIMULATION)),
        speed=None if virtual else speed,
        journal_bytes=journal_size << 20,
        mount_method=(mount_method or "plain") if device_plugin else None,
    )
    folder = LabFolder(data_dir or default_folder())
    os.umask(0o077)
    try:
        folder.take()
        if reset:
            folder.clear()
        live = LiveLab(folder, settings)
    except (FolderError, StoreError, ValueError) as error:
        raise stop(*(f"ringwise: {line}" for line in str(error).splitlines())) from None
    if live.continued and any(
        context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in _FLEET
    ):
        complain(
            "note: the directory already contains a cluster, whose nodes are not changed; --reset "
            "starts a new one"
        )
    _greet(live)
    status = StatusLine(live)
    try:
        run_lab(live, status.show, _dashboard(live, web_address))
    except (FolderError, StoreError, AddressError) as error:
        raise stop(f"ringwise: {error}") from None
    finally:
        status.end()
        live.close()
        folder.leave()
    there = f" --data-dir {other}" if (other := _other_folder(live)) else ""
    click.echo(f"stopped at {time_text(live.cluster.now)}; to continue:\n  ringwise lab{there}")


def _check_boards(context: click.Context, text: str, nodes: int) -> None:
    """Before anything is deleted or made."""
    try:
        parse_boards(text, nodes)
    except ValueError as error:
        raise stop(f"ringwise: --board: {error}") from None
    if ":" in text and context.get_parameter_source("nodes") is ParameterSource.COMMANDLINE:
        raise stop(f"ringwise: --nodes cannot be combined with --board {text}, which has the number of nodes")


def _configuration(path: Path | None) -> tuple[str, str] | None:
    if path is None:
        return None
    load_configuration(path)
    return path.read_text(encoding="utf-8"), str(path)


def _greet(live: LiveLab) -> None:
    words = "continues with" if live.continued else "starts with"
    click.echo(
        f"lab on {live.folder.path} {words} {counted(live.cluster.table.count('Node'), 'node')} and "
        f"{counted(live.cluster.table.count('Pod'), 'pod')}"
    )
    click.echo(f"listening on unix:{live.folder.socket}")
    if other := _other_folder(live):
        click.echo(f"in another terminal: export RINGWISE_LAB={other}")
    where = "then" if other else "in another terminal"
    click.echo(f"{where}: ringwise submit FILE, ringwise top; Ctrl-C stops")


def _other_folder(live: LiveLab) -> str:
    """The folder, quoted for a shell, unless it is the default of the commands."""
    path = live.folder.path
    return "" if path == default_folder().expanduser().absolute() else shlex.quote(str(path))


def _dashboard(
    live: LiveLab, address: str | None
) -> Callable[[ForkedQueries], AbstractAsyncContextManager[None]] | None:
    """Opens the dashboard and prints where it is; None where none is wanted."""
    if address == "":
        return None
    from ringwise.apps.web.options import DASHBOARD_PORT
    from ringwise.apps.web.serving import listening
    from ringwise.apps.web.snapshot import lab_dashboard
    from ringwise.web.addresses import is_loopback

    if address is not None and not is_loopback(parse_address(address)[0]):
        raise AddressError(
            f"the dashboard of a lab has no authentication and requires a local address, not {address}"
        )

    @asynccontextmanager
    async def serving(forked_queries: ForkedQueries) -> AsyncIterator[None]:
        wanted = address or f"{LOOPBACK}:{DASHBOARD_PORT}"
        async with listening(
            lab_dashboard(live, forked_queries=forked_queries), wanted, or_any_port=address is None
        ) as url:
            click.echo(f"dashboard on {url}")
            yield

    return serving


class StatusLine:
    """The lab in one line that is overwritten; in a pipe, a new line for each change."""

    def __init__(self, live: LiveLab) -> None:
        self._live = live
        self._terminal = sys.stdout.isatty()
        self._said = ""

    def show(self) -> None:
        status = status_document(self._live)
        words = f"{use_text(status)}, {counts_text(status)}"
        for line in status["alarms"]:
            words += f"; {line}"
        if self._terminal:
            # A line that wraps could not be overwritten.
            width = shutil.get_terminal_size().columns - 1
            line = f"{time_text(status['now'])}  {words}"
            click.echo(f"\r\x1b[K{line[:width]}", nl=False)
        elif words != self._said:
            click.echo(f"{time_text(status['now'])}  {words}")
        self._said = words

    def end(self) -> None:
        if self._terminal and self._said:
            click.echo()
