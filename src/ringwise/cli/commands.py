"""The commands of `ringwise`. A command is imported when it is called; `--help` reads the table below."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ringwise import __version__
from ringwise.cli.options import end_of_help

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


PLUGIN = "kubectl-ringwise"
#: Commands, by identity, whose help has its examples.
_WITH_EXAMPLES: set[int] = set()

_SHORT_WITH_EQUALS = re.compile(r"^(-[a-zA-Z])=(?=.)", re.DOTALL)
#: Options that can precede the command, and whether they have a value.
_GLOBAL = {
    **dict.fromkeys(("-n", "--namespace", "--context", "--kubeconfig", "--lab"), True),
    **dict.fromkeys(("-A", "--all-namespaces"), False),
}
#: Values of --dry-run for which a command changes nothing.
_DRY_RUN = ("--dry-run=client", "--dry-run=server")


class CommandEntry(NamedTuple):
    """The module below `cli` that defines `NAME_command`, and the first sentence of its help."""

    module: str
    help: str
    starts_components: bool = False

    @property
    def changes(self) -> bool:
        """Whether it changes a cluster or a lab, or starts a component."""
        return self.module.startswith("change.") or self.starts_components


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, CommandEntry]],
        path: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        """`sections`: heading of the help page -> its commands; `path`: the commands before this one."""
        super().__init__(*args, **options)
        self.path = path
        self.sections = sections
        self.entries = {name: entry for entries in sections.values() for name, entry in entries.items()}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        typed = list(args)
        if not self.path:
            args = _as_in_kubectl(args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta.setdefault(TYPED, typed)
        return context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"ringwise.cli.{entry.module}")
        command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command)
        self._add_examples(ctx, command, (*self.path, cmd_name))
        return command

    def _add_examples(self, ctx: click.Context, command: click.Command, path: tuple[str, ...]) -> None:
        from ringwise.cli.examples import EXAMPLES

        if id(command) in _WITH_EXAMPLES:
            return
        _WITH_EXAMPLES.add(id(command))
        program = program_of(ctx)
        command.epilog = end_of_help(command, program, EXAMPLES.get(" ".join(path), ()))
        if isinstance(command, click.Group) and not isinstance(command, LazyGroup):
            for name, below in command.commands.items():
                self._add_examples(ctx, below, (*path, name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not self.path:
            from ringwise.cli.habits import ALIASES

            count = next((count for count in (3, 2) if " ".join(args[:count]) in ALIASES), 1)
            typed = " ".join(args[:count])
            ctx.meta[COMMAND] = typed
            args = [*ALIASES.get(typed, typed).split(" "), *args[count:]]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from ringwise.cli.habits import command_hint
            from ringwise.topology.nearest import nearest

            # A typing error must not lead to a command that changes something, and the next closest command
            # is not the one that was meant.
            name = nearest(args[0], self.list_commands(ctx))
            suggested = f'; did you mean "{name}"?' if name and not self.entries[name].changes else ""
            if not self.path:
                suggested = command_hint(args, program_of(ctx)) or suggested
            raise click.UsageError(error.message.rstrip(".") + suggested, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            from ringwise.cli.habits import option_hint

            hint = option_hint(error)
            if hint is None:
                raise
            raise click.UsageError(f"No such option '{error.option_name}': {hint}", error.ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table, so that no command is imported for it."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self.entries[name].help) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, entries in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()])


def _as_in_kubectl(args: Sequence[str]) -> list[str]:
    """Return the arguments as click reads them: global options after the command, and `-o=json` as `-ojson`.

    --dry-run is a flag here; its values client and server are the same, and none is its absence.
    """
    first = 0
    while first < len(args):
        arg = args[first]
        option = arg.partition("=")[0] if arg.startswith("--") else arg[:2]
        if option not in _GLOBAL:
            break
        # The value of an option is the next argument, unless it is in the same one: -nteam-a, -n=team-a.
        first += 2 if _GLOBAL[option] and arg == option else 1
    end = args.index("--", first) if "--" in args[first:] else len(args)
    options = [_SHORT_WITH_EQUALS.sub(r"\1", arg) for arg in (*args[first:end], *args[:first])]
    options = ["--dry-run" if arg in _DRY_RUN else arg for arg in options if arg != "--dry-run=none"]
    return [*options, *args[end:]]


def program_of(ctx: click.Context) -> str:
    """The program as its user types it."""
    return "kubectl ringwise" if ctx.find_root().info_name == PLUGIN else "ringwise"


#: Keys of the context: whether the program asks clusters by default; what was typed after its name.
ASKS_CLUSTERS = "ringwise.asks-clusters"
TYPED = "ringwise.typed"
#: The command as it was typed, which may be another name for the one that is run.
COMMAND = "ringwise.command"

COMPONENTS = {
    "scheduler": CommandEntry("run.components", "Run the scheduler on a Kubernetes cluster"),
    "controller": CommandEntry("run.components", "Run the vcjob controller on a Kubernetes cluster"),
    "admission": CommandEntry("run.components", "Run the webhook that rejects jobs that can never run"),
    "device-plugin": CommandEntry("run.device_plugin", "Run the kubelet device plugin on this node"),
}
DEVICE_PLUGIN = {
    "check": CommandEntry("run.hardware_check", "Check the NPUs of this node"),
}
SECTIONS = {
    "Inspect": {
        "why": CommandEntry("query.explain", "Explain why a job is pending, or why it runs where it runs"),
        "get": CommandEntry("query.objects", "List jobs, nodes, queues, pods and other objects"),
        "describe": CommandEntry("query.objects", "Show details of objects"),
        "top": CommandEntry("query.top", "Show chips, queues and pending jobs until Ctrl-C"),
        "capacity": CommandEntry("query.explain", "Show how many more jobs of each shape would fit now"),
        "events": CommandEntry("query.explain", "List the events of a job, or of all jobs"),
        "history": CommandEntry("query.explain", "List the runs of a job, as sacct does"),
        "report": CommandEntry("query.report", "Show allocated and lost chip-hours, and failures"),
        "limits": CommandEntry("query.explain", "Show usage limits and their current usage"),
        "place": CommandEntry("query.place", "Show where the jobs of manifests would be scheduled"),
        "topology": CommandEntry("query.topology", "Show or import leaf switches and SuperPoDs"),
        "boards": CommandEntry("query.boards", "List boards: chips, rings and valid requests"),
        "doctor": CommandEntry("query.explain", "Check the cluster for problems"),
        "support-bundle": CommandEntry(
            "query.support_bundle", "Write a support bundle with pseudonyms and no free text"
        ),
        "web": CommandEntry("query.web", "Serve the dashboard of a cluster until Ctrl-C"),
    },
    "Change": {
        "suspend": CommandEntry("change.suspending", "Suspend jobs and release their chips"),
        "resume": CommandEntry(
            "change.suspending", "Resume suspended jobs, on their previous nodes if they are free"
        ),
        "requeue": CommandEntry(
            "change.suspending", "Requeue running jobs, or change their queue or priority"
        ),
        "cordon": CommandEntry("change.changes", "Mark nodes as unschedulable"),
        "uncordon": CommandEntry("change.changes", "Mark nodes as schedulable"),
        "drain": CommandEntry(
            "change.draining", "Drain a node, leaf switch or SuperPoD (asks for confirmation)"
        ),
        "defrag": CommandEntry("change.defragment", "Move running jobs so that a blocked job can start"),
        "isolate": CommandEntry("change.changes", "Isolate chips, a node, a leaf switch or a SuperPoD"),
        "unisolate": CommandEntry("change.changes", "End the isolation of chips, a node, switch or SuperPoD"),
        "reserve": CommandEntry("change.reserving", "Reserve nodes for a queue or namespace"),
        "unreserve": CommandEntry("change.reserving", "Delete a reservation and release its nodes"),
    },
    "Lab": {
        "lab": CommandEntry("lab.lab", "Run a lab: simulated nodes and the real scheduler"),
        "submit": CommandEntry("change.changes", "Submit jobs, nodes, queues and other objects to the lab"),
        "delete": CommandEntry("change.changes", "Delete jobs, pods, queues and nodes of the lab"),
        "advance": CommandEntry("change.changes", "Advance the virtual time of a lab"),
        "fault": CommandEntry("change.faults", "List, inject and clear hardware faults"),
        "drill": CommandEntry("lab.drill", "Run drills: scripted faults with expectations"),
        "simulate": CommandEntry("lab.simulate", "Simulate the jobs of a file and show their pending times"),
        "demo": CommandEntry("lab.demo", "Show the scheduler at work on sample clusters"),
    },
    "Run components": {
        "run": CommandEntry("commands", "Run a component on a Kubernetes cluster", starts_components=True),
        "device-plugin": CommandEntry("commands", "Check the NPUs of this node"),
        "config": CommandEntry("query.config", "Check a scheduler or controller configuration"),
    },
    "Developer": {
        "replay": CommandEntry("lab.replay", "Replay a journal and compare the decisions"),
        "schema": CommandEntry("develop.schema", "Print the JSON schema of a document, or list all schemas"),
        "bench": CommandEntry("develop.bench", "Run a benchmark"),
        "completion": CommandEntry("completion", "Print the completion script for a shell"),
        "options": CommandEntry("query.config", "List the options that are common to many commands"),
        "version": CommandEntry("query.config", "Print the version, commit and schema versions"),
    },
}


@click.group("run", cls=LazyGroup, path=("run",), sections={"Components": COMPONENTS})
def run_command() -> None:
    """Run a component on a Kubernetes cluster."""


@click.group("device-plugin", cls=LazyGroup, path=("device-plugin",), sections={"Commands": DEVICE_PLUGIN})
def device_plugin_command() -> None:
    """Check the NPUs of this node."""


_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(cls=LazyGroup, sections=SECTIONS, context_settings=_HELP)
@click.version_option(__version__, prog_name="ringwise")
def cli() -> None:
    """Chip-aware gang scheduling for clusters of Ascend NPUs.

    Commands use the running lab, unless -f, --lab, --kubeconfig or --context is given.
    """
    click.get_current_context().call_on_close(_print_plugin_problems)


@click.group(PLUGIN, cls=LazyGroup, sections=SECTIONS, context_settings=_HELP)
@click.version_option(__version__, prog_name=PLUGIN)
def plugin() -> None:
    """Inspect and change the chips and jobs of a cluster.

    Commands use the cluster of the kubeconfig, unless -f, --lab, --kubeconfig or --context is given.
    """
    context = click.get_current_context()
    context.meta[ASKS_CLUSTERS] = True
    context.call_on_close(_print_plugin_problems)


def _print_plugin_problems() -> None:
    # Most commands need no plugin: then there is nothing to import.
    if "ringwise.apps.extensions" in sys.modules:
        from ringwise.apps.extensions import plugin_problems
        from ringwise.cli.output import warn_of_plugins

        warn_of_plugins(plugin_problems())
