"""What users of kubectl and Slurm type by habit: it works, or the error names what does the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from ringwise.cli.commands import LazyGroup, cli, plugin
from ringwise.cli.habits import COMMANDS, KINDS, OPTIONS
from ringwise.views.kinds import BY_WORD
from ringwise.views.kinds import KINDS as LISTED
from tests.lab.rig import SMALL, Terminal, job, running


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("habits")
    with running(folder, SMALL):
        terminal = Terminal(folder)
        terminal.submit(job("train", 2, 8), job("tune", 1, 1))
        yield terminal


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("get node/node-1 no/node-2 -o name", "node-1\nnode-2\n"),
        ("get job/lab/train -o name", "lab/train\n"),
        ("get pods --node node-1 -o name", ""),
        ("describe node/node-1", "node node-1\n"),
        ("describe job/lab/train", "job lab/train (vcjob)\n"),
        ("cordon node/node-1", "node node-1 cordoned\n"),
        ("uncordon node/node-1", "node node-1 uncordoned\n"),
        ("drain node/node-3 --ignore-daemonsets --delete-emptydir-data -y", "node node-3 cordoned; 0 pods"),
        ("uncordon node-3", "node node-3 uncordoned\n"),
        ("get jobs --user alice", "no job has user alice (annotation ringwise.io/user, or the label of"),
        ("delete job/tune", "job lab/tune deleted\n"),
    ],
)
def test_what_kubectl_takes_works(typed: str, said: str, terminal: Terminal) -> None:
    assert terminal.ok(typed).startswith(said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("hold train", "No such command 'hold': use 'ringwise suspend'"),
        ("squeue -u alice", "No such command 'squeue': use 'ringwise get jobs'"),
        ("get events", "unknown kind \"events\": use 'ringwise events JOB'"),
        (
            "get nodez",
            'unknown kind "nodez"; did you mean "node"?; kinds are jobs, nodes or no, queues or q,',
        ),
        ("get node/node-1 node-2", 'invalid name "node-2": expected node/NAME'),
        ("get node/node-1 job/train", 'invalid name "job/train": expected node/NAME'),
        ("delete job/", 'invalid name "job/": expected job/NAME'),
        ("describe node", "expected the name of one node, got 0"),
        (
            "get jobs --start",
            "No such option '--start': get jobs shows expected starts in the column 'starts in'",
        ),
        ("drain node-1 --dry-run", "No such option '--dry-run': use --plan"),
        ("history -j train", "No such option '-j': the job is an argument: history JOB"),
        ("report --days 1", "No such option '--days': use --since, such as --since 1d"),
        ("reserve --queue default", "No such option '--queue': use --for queue=QUEUE"),
        ("get nodes --user alice", "--user requires jobs; it cannot be combined with nodes"),
        ("get jobs --node node-1", "--node requires chips or pods; it cannot be combined with jobs"),
        ("get pods --node node-9", 'node "node-9" not found'),
    ],
)
def test_what_it_does_not_take_names_what_does_the_same(typed: str, said: str, terminal: Terminal) -> None:
    assert said in terminal.refused(typed)


@pytest.mark.parametrize(
    ("typed", "instead"), [("apply -f x", "kubectl create -f"), ("hold x", "kubectl ringwise suspend")]
)
def test_a_plugin_names_what_a_cluster_has(typed: str, instead: str) -> None:
    ran = CliRunner().invoke(plugin, typed.split(), prog_name="kubectl-ringwise")
    assert (ran.exit_code, f": use '{instead}'" in ran.stderr) == (2, True)


def test_every_hint_names_a_command_that_exists_for_a_word_that_does_not() -> None:
    assert isinstance(cli, LazyGroup)
    instead = [*COMMANDS.values(), *KINDS.values()]
    assert {text.split()[0] for text in instead} <= {*cli.entries}
    assert not {*COMMANDS} & {*cli.entries}
    assert not {*KINDS} & {*BY_WORD}
    for command, hints in OPTIONS.items():
        found = cli.get_command(cli.make_context("ringwise", ["version"]), command)
        assert found is not None
        assert not {*hints} & {name for option in found.params for name in option.opts}


@pytest.mark.parametrize("command", ["get", "describe", "delete"])
def test_the_help_names_every_kind(command: str) -> None:
    said = " ".join(CliRunner().invoke(cli, [command, "--help"]).stdout.split())
    for kind in LISTED:
        if command == "get" or (kind.is_described if command == "describe" else kind.is_deletable):
            short = f" ({', '.join(kind.short_names)})" if kind.short_names else ""
            word = kind.plural if command == "get" else kind.name
            assert f"{word}{short}" in said
