"""The commands of `ringwise`. A command is imported when it is called; `--help` reads the table below."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ringwise import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandEntry(NamedTuple):
    """Where a command is defined, and the first sentence of its help."""

    module: str
    attribute: str
    help: str


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def __init__(self, *args: Any, entries: Mapping[str, CommandEntry], **options: Any) -> None:
        super().__init__(*args, **options)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from ringwise.topology.nearest import did_you_mean

            nearest = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(error.message.rstrip(".") + nearest, ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table, so that no command is imported for it."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.entries[name].help) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.entries[name].help) for name in self.list_commands(ctx)])


COMMANDS = {
    "admission": CommandEntry(
        "ringwise.cli.components",
        "admission_command",
        "Refuse impossible jobs at submit, with the reason and the cures.",
    ),
    "advance": CommandEntry(
        "ringwise.cli.lab_commands",
        "advance_command",
        "Advance the virtual time of a lab by DURATION; without it, to the next event.",
    ),
    "bench": CommandEntry(
        "ringwise.cli.bench", "bench", "Run a benchmark; exit code 1 when a goal does not hold."
    ),
    "boards": CommandEntry(
        "ringwise.cli.boards", "boards", "List the known boards: chips, rings, valid requests, scores."
    ),
    "capacity": CommandEntry(
        "ringwise.cli.explain",
        "capacity_command",
        "Count how many more jobs of each shape would start now, and what fragmentation costs.",
    ),
    "chips": CommandEntry(
        "ringwise.cli.chips", "chips", "The chips of a cluster, as their nodes report them."
    ),
    "completion": CommandEntry(
        "ringwise.cli.completion", "completion_command", "Print the completion script for a shell."
    ),
    "config": CommandEntry("ringwise.cli.config", "config", "Check a volcano-scheduler.conf."),
    "controller": CommandEntry(
        "ringwise.cli.components", "controller", "Run the vcjob controller on a Kubernetes cluster."
    ),
    "cordon": CommandEntry(
        "ringwise.cli.lab_commands", "cordon_command", "Mark NODE of the lab as unschedulable."
    ),
    "delete": CommandEntry(
        "ringwise.cli.lab_commands",
        "delete_command",
        "Delete jobs with their pods, pods, empty queues, nodes with their pods: all that are named or none.",
    ),
    "demo": CommandEntry(
        "ringwise.cli.demo",
        "demo",
        "Place jobs of every kind on embedded clusters, and explain each result.",
    ),
    "describe": CommandEntry(
        "ringwise.cli.lab_commands", "describe_command", "Show all fields of one object of the lab."
    ),
    "device-plugin": CommandEntry(
        "ringwise.cli.device_plugin",
        "device_plugin",
        "Give the chips of this node to containers, as the scheduler decided, and report their health.",
    ),
    "doctor": CommandEntry(
        "ringwise.cli.explain",
        "doctor_command",
        "Check a cluster: nodes, chips, reports, switches, SuperPoDs, queues, jobs.",
    ),
    "drain": CommandEntry(
        "ringwise.cli.lab_commands",
        "drain_command",
        "Cordon nodes and evict their pods, after a question that names the jobs that lose pods.",
    ),
    "drill": CommandEntry(
        "ringwise.cli.drill",
        "drill_command",
        "Run the drills of FILE in virtual time: submits, faults and time steps with expectations.",
    ),
    "fault": CommandEntry(
        "ringwise.cli.faults",
        "fault",
        "Break and heal simulated hardware of the lab, and list what is broken.",
    ),
    "get": CommandEntry(
        "ringwise.cli.lab_commands", "get_command", "List the lab's nodes, jobs, queues or pods."
    ),
    "install": CommandEntry("ringwise.cli.install", "install_command", "Install Ringwise on a cluster."),
    "isolate": CommandEntry(
        "ringwise.cli.chips",
        "isolate_command",
        "Take CHIP (like Ascend910-3) of NODE out of use, or NODE, a leaf switch or a SuperPoD.",
    ),
    "lab": CommandEntry(
        "ringwise.cli.lab",
        "lab_command",
        "Run a cluster of simulated nodes with the real scheduler until Ctrl-C.",
    ),
    "place": CommandEntry(
        "ringwise.cli.place",
        "place_command",
        "Show where the jobs of manifests would be placed; nothing is changed.",
    ),
    "release": CommandEntry(
        "ringwise.cli.chips",
        "release_command",
        "Give back what was isolated: CHIP of NODE, NODE, a leaf switch or a SuperPoD.",
    ),
    "replay": CommandEntry(
        "ringwise.cli.replay",
        "replay_command",
        "Decide the events of journal FILE again and compare with the recorded decisions.",
    ),
    "scheduler": CommandEntry(
        "ringwise.cli.components", "scheduler", "Run the scheduler on a Kubernetes cluster."
    ),
    "schema": CommandEntry(
        "ringwise.cli.schema",
        "schema_command",
        "Print the JSON schema of the document NAME; without it, list them.",
    ),
    "submit": CommandEntry(
        "ringwise.cli.lab_commands",
        "submit_command",
        "Submit Nodes, jobs, pods, PodGroups, Queues, PriorityClasses, ConfigMaps and Commands to the lab.",
    ),
    "top": CommandEntry(
        "ringwise.cli.lab_commands",
        "top_command",
        "Show the chips of all nodes, the queues and the pending jobs, until Ctrl-C.",
    ),
    "topology": CommandEntry(
        "ringwise.cli.topology",
        "topology",
        "Leaf switches and SuperPoDs: write the ConfigMap of the switches, draw what runs where.",
    ),
    "uncordon": CommandEntry(
        "ringwise.cli.lab_commands", "uncordon_command", "Mark NODE of the lab as schedulable."
    ),
    "uninstall": CommandEntry("ringwise.cli.install", "uninstall_command", "Remove Ringwise from a cluster."),
    "web": CommandEntry(
        "ringwise.cli.web",
        "web_command",
        "Serve the dashboard of a cluster, with the rights of a kubeconfig, until Ctrl-C.",
    ),
    "why": CommandEntry(
        "ringwise.cli.explain",
        "why_command",
        "Explain why JOB waits or where it runs, and what would change that.",
    ),
}


@click.group(cls=LazyGroup, entries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ringwise")
def cli() -> None:
    """Chip-aware gang scheduling for clusters of Ascend NPUs."""
    click.get_current_context().call_on_close(_tell_plugin_problems)


def _tell_plugin_problems() -> None:
    # Most commands need no plugin: then there is nothing to import.
    if "ringwise.apps.extensions" in sys.modules:
        from ringwise.cli.output import tell_plugin_problems

        tell_plugin_problems()
