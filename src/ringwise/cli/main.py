"""The `ringwise` command. Every command is a file of its own beside this one."""

from __future__ import annotations

import os
import sys

import click

from ringwise import __version__
from ringwise.cli.admission import admission_command
from ringwise.cli.bench import bench
from ringwise.cli.boards import boards
from ringwise.cli.capacity import capacity_command
from ringwise.cli.chips import chips
from ringwise.cli.controller import controller
from ringwise.cli.demo import demo
from ringwise.cli.device_plugin import device_plugin
from ringwise.cli.doctor import doctor_command
from ringwise.cli.get import describe_command, get_command
from ringwise.cli.install import install_command, uninstall_command
from ringwise.cli.isolate import isolate_command, release_command
from ringwise.cli.lab import lab_command
from ringwise.cli.lab_actions import (
    advance_command,
    cordon_command,
    delete_command,
    drain_command,
    fault_command,
    uncordon_command,
)
from ringwise.cli.place import place_command
from ringwise.cli.replay import replay_command
from ringwise.cli.scheduler import scheduler
from ringwise.cli.submit import submit_command
from ringwise.cli.top import top_command
from ringwise.cli.topology import topology
from ringwise.cli.why import why_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ringwise")
def cli() -> None:
    """Chip-aware gang scheduling for clusters of Ascend NPUs."""


COMMANDS = (
    admission_command,
    advance_command,
    bench,
    boards,
    capacity_command,
    chips,
    controller,
    cordon_command,
    delete_command,
    demo,
    describe_command,
    device_plugin,
    doctor_command,
    drain_command,
    fault_command,
    get_command,
    install_command,
    isolate_command,
    lab_command,
    place_command,
    release_command,
    replay_command,
    scheduler,
    submit_command,
    top_command,
    topology,
    uncordon_command,
    uninstall_command,
    why_command,
)
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    run_safely(cli)


def run_safely(commands: click.Group) -> None:
    """Whatever happens, a person reads one line and not a traceback."""
    try:
        commands.main(standalone_mode=True)
    except BrokenPipeError:
        # The reader has seen enough; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("RINGWISE_DEBUG"):
            raise
        click.echo(
            f"ringwise: internal error: {type(error).__name__}: {error} "
            "(please report it; RINGWISE_DEBUG=1 shows where)",
            err=True,
        )
        sys.exit(70)
