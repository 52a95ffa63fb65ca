"""The commands of `ringwise`. A command is imported when it is called; `--help` reads the table below."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ringwise import __version__
from ringwise.cli.advanced import EPILOG, OPTIONS, AdvancedOption

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


#: Modules of commands that change something.
_CHANGING = ("ringwise.cli.change.",)


class CommandEntry(NamedTuple):
    """Where a command is defined, and the first sentence of its help."""

    module: str
    attribute: str
    help: str

    @property
    def changes(self) -> bool:
        """Whether it changes a cluster or a lab, or starts a component."""
        return self.module.startswith(_CHANGING) or self.attribute == "run"


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, CommandEntry]],
        **options: Any,
    ) -> None:
        """`sections`: heading of the help page -> its commands."""
        super().__init__(*args, **options)
        self.sections = sections
        self.entries = {name: entry for entries in sections.values() for name, entry in entries.items()}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        typed = list(args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta.setdefault(TYPED, typed)
        return context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        if cmd_name != OPTIONS and any(isinstance(option, AdvancedOption) for option in command.params):
            command.epilog = EPILOG
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from ringwise.topology.nearest import nearest

            # A typing error must not lead to a command that changes something, and the next closest command
            # is not the one that was meant.
            name = nearest(args[0], self.list_commands(ctx))
            suggested = f" (did you mean '{name}'?)" if name and not self.entries[name].changes else ""
            raise click.UsageError(error.message.rstrip(".") + suggested, ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table, so that no command is imported for it."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.entries[name].help) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, entries in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()])


#: Keys of the context: the program asks clusters unless it is told otherwise; what was typed after its name.
ASKS_CLUSTERS = "ringwise.asks-clusters"
TYPED = "ringwise.typed"

COMPONENTS = {
    "scheduler": CommandEntry(
        "ringwise.cli.run.components",
        "scheduler",
        "Run the scheduler on a Kubernetes cluster.",
    ),
    "controller": CommandEntry(
        "ringwise.cli.run.components",
        "controller",
        "Run the vcjob controller on a Kubernetes cluster.",
    ),
    "admission": CommandEntry(
        "ringwise.cli.run.components",
        "admission_command",
        "Reject impossible jobs when they are created, with the reason and suggested fixes.",
    ),
    "device-plugin": CommandEntry(
        "ringwise.cli.run.device_plugin",
        "device_plugin",
        "Give the chips of this node to containers, as the scheduler decided, and report their health.",
    ),
}
DEVICE_PLUGIN = {
    "check": CommandEntry(
        "ringwise.cli.run.hardware_check",
        "check_command",
        "Check the NPUs of this node: chips, faults, network ports, memory and board profile.",
    ),
}
SECTIONS = {
    "Ask a cluster, a lab or files": {
        "why": CommandEntry(
            "ringwise.cli.query.explain",
            "why_command",
            "Explain why JOB waits or where it runs, and what would change that.",
        ),
        "get": CommandEntry(
            "ringwise.cli.query.objects",
            "get_command",
            "List jobs, nodes, queues, pods or other objects.",
        ),
        "describe": CommandEntry(
            "ringwise.cli.query.objects",
            "describe_command",
            "Show all fields of one object.",
        ),
        "top": CommandEntry(
            "ringwise.cli.query.top",
            "top_command",
            "Show the chips of all nodes, the queues and the pending jobs, until Ctrl-C.",
        ),
        "capacity": CommandEntry(
            "ringwise.cli.query.explain",
            "capacity_command",
            "Count how many more jobs of each shape would start now, and what fragmentation costs.",
        ),
        "events": CommandEntry(
            "ringwise.cli.query.explain",
            "events_command",
            "List what happened to JOB: submitted, pending, scheduled, faults, restarts, end.",
        ),
        "history": CommandEntry(
            "ringwise.cli.query.explain",
            "history_command",
            "List the runs of JOB: start, end, nodes, and why each ended, as sacct -j does.",
        ),
        "report": CommandEntry(
            "ringwise.cli.query.report",
            "report_command",
            "Show chip-hours held and lost, waiting time, starts and failures.",
        ),
        "limits": CommandEntry(
            "ringwise.cli.query.explain",
            "limits_command",
            "Show the limits of namespaces, queues and users, and what is used of them.",
        ),
        "place": CommandEntry(
            "ringwise.cli.query.place",
            "place_command",
            "Show where the jobs of manifests would be placed; nothing is changed.",
        ),
        "topology": CommandEntry(
            "ringwise.cli.query.topology",
            "topology",
            "Leaf switches and SuperPoDs: write the ConfigMap of the switches, draw what runs where.",
        ),
        "boards": CommandEntry(
            "ringwise.cli.query.boards",
            "boards",
            "List the known boards: chips, rings, valid requests, scores.",
        ),
        "doctor": CommandEntry(
            "ringwise.cli.query.explain",
            "doctor_command",
            "Check a cluster: nodes, chips, reports, switches, SuperPoDs, queues, jobs.",
        ),
        "support-bundle": CommandEntry(
            "ringwise.cli.query.support_bundle",
            "support_bundle_command",
            "Write a file for support: objects, configuration and journal, without names and free text.",
        ),
        "web": CommandEntry(
            "ringwise.cli.query.web",
            "web_command",
            "Serve the dashboard of a cluster, with the rights of a kubeconfig, until Ctrl-C.",
        ),
    },
    "Act on a cluster or a lab": {
        "submit": CommandEntry(
            "ringwise.cli.change.changes",
            "submit_command",
            "Submit Nodes, jobs, pods, PodGroups, Queues, HyperNodes, PriorityClasses, ConfigMaps and "
            "Commands to the lab.",
        ),
        "delete": CommandEntry(
            "ringwise.cli.change.changes",
            "delete_command",
            "Delete jobs with their pods, pods, empty queues, nodes with their pods: all that are "
            "named or none.",
        ),
        "suspend": CommandEntry(
            "ringwise.cli.change.suspending",
            "suspend_command",
            "Let JOB give its chips back; it stays, and can be resumed.",
        ),
        "resume": CommandEntry(
            "ringwise.cli.change.suspending",
            "resume_command",
            "Let the suspended JOB go on, on its old nodes where they are free.",
        ),
        "requeue": CommandEntry(
            "ringwise.cli.change.suspending",
            "requeue_command",
            "Let the running JOB start over from its queue, or change the queue or priority of JOB.",
        ),
        "cordon": CommandEntry(
            "ringwise.cli.change.changes", "cordon_command", "Mark NODE as unschedulable."
        ),
        "uncordon": CommandEntry(
            "ringwise.cli.change.changes", "uncordon_command", "Mark NODE as schedulable."
        ),
        "drain": CommandEntry(
            "ringwise.cli.change.draining",
            "drain_command",
            "Keep jobs off nodes and evict their pods, after a question that names the jobs that lose pods.",
        ),
        "defrag": CommandEntry(
            "ringwise.cli.change.defragment",
            "defrag_command",
            "Move running jobs so that a job starts that waits for holes between them.",
        ),
        "isolate": CommandEntry(
            "ringwise.cli.change.changes",
            "isolate_command",
            "Take CHIPs (like Ascend910-3) of NODE out of use, or NODE, a leaf switch or a SuperPoD.",
        ),
        "unisolate": CommandEntry(
            "ringwise.cli.change.changes",
            "unisolate_command",
            "Take back into use what was isolated: CHIPs of NODE, NODE, a leaf switch or a SuperPoD.",
        ),
        "reserve": CommandEntry(
            "ringwise.cli.change.reserving",
            "reserve_command",
            "Keep nodes for the jobs of a queue or of a namespace from one time to another.",
        ),
        "unreserve": CommandEntry(
            "ringwise.cli.change.reserving",
            "unreserve_command",
            "Cancel the reservation NAME: its nodes take jobs of all again.",
        ),
    },
    "Practise in a lab": {
        "lab": CommandEntry(
            "ringwise.cli.lab.lab",
            "lab_command",
            "Run a cluster of simulated nodes with the real scheduler until Ctrl-C.",
        ),
        "advance": CommandEntry(
            "ringwise.cli.change.changes",
            "advance_command",
            "Advance the virtual time of a lab by DURATION; without it, to the next event.",
        ),
        "fault": CommandEntry(
            "ringwise.cli.change.faults",
            "fault",
            "List what is broken in a cluster; break and heal simulated hardware of a lab.",
        ),
        "drill": CommandEntry(
            "ringwise.cli.lab.drill",
            "drill_command",
            "Run the drills of FILE in virtual time: submits, faults and time steps with expectations.",
        ),
        "simulate": CommandEntry(
            "ringwise.cli.lab.simulate",
            "simulate_command",
            "Let the jobs of FILE come, run and end in virtual time, and show how long they waited.",
        ),
        "demo": CommandEntry(
            "ringwise.cli.lab.demo",
            "demo",
            "Place jobs of every kind on embedded clusters, and explain each result.",
        ),
    },
    "Settings": {
        "config": CommandEntry(
            "ringwise.cli.query.config",
            "config",
            "Check a volcano-scheduler.conf or a volcano-controller.conf.",
        ),
        "options": CommandEntry(
            "ringwise.cli.query.config",
            "options_command",
            "List the options of queries that their help omits.",
        ),
        "version": CommandEntry(
            "ringwise.cli.query.config",
            "version_command",
            "Print the version, the commit, and the schema versions that are read and written.",
        ),
        "completion": CommandEntry(
            "ringwise.cli.completion",
            "completion_command",
            "Print the completion script for a shell.",
        ),
    },
    "Run a component": {
        "run": CommandEntry(
            "ringwise.cli.commands",
            "run",
            "Run a component on a Kubernetes cluster: scheduler, controller, admission, device-plugin.",
        ),
        "device-plugin": CommandEntry(
            "ringwise.cli.commands", "device_plugin", "Check the NPUs of this node, without a cluster."
        ),
    },
    "Develop": {
        "bench": CommandEntry(
            "ringwise.cli.develop.bench",
            "bench",
            "Run a benchmark; exit code 1 when a goal does not hold.",
        ),
        "schema": CommandEntry(
            "ringwise.cli.develop.schema",
            "schema_command",
            "Print the JSON schema of the document NAME; without it, list them.",
        ),
        "replay": CommandEntry(
            "ringwise.cli.lab.replay",
            "replay_command",
            "Decide the events of journal FILE again and compare with the recorded decisions.",
        ),
    },
}


@click.group("run", cls=LazyGroup, sections={"Components": COMPONENTS})
def run() -> None:
    """Run a component on a Kubernetes cluster: scheduler, controller, admission, device-plugin."""


@click.group("device-plugin", cls=LazyGroup, sections={"Commands": DEVICE_PLUGIN})
def device_plugin() -> None:
    """Check the NPUs of this node, without a cluster."""


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="ringwise")
def cli() -> None:
    """Chip-aware gang scheduling for clusters of Ascend NPUs.

    Queries ask the running lab, or what -f, --lab, --kubeconfig or --context name.
    """
    click.get_current_context().call_on_close(_tell_plugin_problems)


@click.group(
    "kubectl-ringwise",
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="kubectl-ringwise")
def plugin() -> None:
    """Ask a live cluster about chips and jobs, and change it.

    Commands use the cluster of the kubeconfig, or what -f, --lab, --kubeconfig or --context name.
    """
    context = click.get_current_context()
    context.meta[ASKS_CLUSTERS] = True
    context.call_on_close(_tell_plugin_problems)


def _tell_plugin_problems() -> None:
    # Most commands need no plugin: then there is nothing to import.
    if "ringwise.apps.extensions" in sys.modules:
        from ringwise.cli.output import tell_plugin_problems

        tell_plugin_problems()
