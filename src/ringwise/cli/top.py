"""`ringwise top`: the running lab at a glance, live."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ringwise.apps.lab.client import LabClient, NoLabError, RefusedByLabError
from ringwise.apps.lab.folder import default_folder
from ringwise.cli.output import output_option, stdout_console, stop
from ringwise.cli.queries import ask_lab, lab_option, screen


@click.command("top")
@click.option("--once", is_flag=True, help="Print one frame and end.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between frames.",
)
@lab_option
@output_option
def top_command(once: bool, every: float, lab: Path | None, output: str) -> None:
    """Show rings of all nodes, queues and waiting jobs, until Ctrl-C."""
    console = stdout_console()
    if once or output != "table" or not console.is_terminal:
        ask_lab(lab, "top", output)
        return
    client = LabClient(lab or default_folder())
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(Text.from_ansi(_frame(client, console)["text"]), refresh=True)
                time.sleep(every)
    except KeyboardInterrupt:
        return
    except (NoLabError, RefusedByLabError) as error:
        raise stop(f"ringwise: {error}") from None


def _frame(client: LabClient, console: Console) -> Any:
    return client.ask("top", output="table", height=console.height, **screen())
