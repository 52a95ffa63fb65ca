"""How a command starts: what it imports, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ringwise.cli.commands import LazyGroup, cli

ROOT = Path(__file__).parents[2]
EXAMPLE = "examples/jobs/05-gang.yaml"

#: Nothing of these is needed for a command that talks to no server.
NETWORK = ("aiohttp", "asyncio", "http.client", "multiprocessing", "prometheus_client", "ssl")

#: Runs commands one after the other and prints after each the modules that are loaded by then.
PROBE = """
import json, sys
from ringwise.cli.main import main
loaded = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["ringwise", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
    loaded.append(sorted(sys.modules))
print("\\n" + json.dumps(loaded), file=sys.stderr)
"""


#: Runs a command and prints how often garbage was collected, and whether any is looked for at the end.
COLLECTIONS = """
import gc, sys
from ringwise.cli.main import main
usual, found = gc.get_threshold(), []
gc.callbacks.append(lambda phase, info: gc.get_threshold() != usual and found.append(phase))
try:
    main()
finally:
    print("\\n" + str((len(found), gc.get_freeze_count() == 0)), file=sys.stderr)
"""


def modules_loaded_by(*commands: str) -> list[set[str]]:
    """After each of the commands, which one process runs: what one of them loads, the next have, too."""
    given = json.dumps([command.split() for command in commands])
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, given], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = [set(names) for names in json.loads(ran.stderr.splitlines()[-1])]
    assert len(loaded) == len(commands)
    assert {"ringwise.cli.main", "click"} <= loaded[0]
    return loaded


def below(packages: tuple[str, ...], loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.startswith(tuple(f"{package}." for package in packages))} | (
        loaded & set(packages)
    )


@pytest.mark.full
@pytest.mark.process
def test_a_short_command_collects_no_garbage() -> None:
    """Its objects live until the end: one search among 50,000 of them took a twelfth of the time."""
    ran = subprocess.run(
        [sys.executable, "-c", COLLECTIONS, "place", "-f", EXAMPLE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr.splitlines()[-1] == "(0, False)"


@pytest.mark.process
def test_help_loads_no_command() -> None:
    *_, loaded = modules_loaded_by("--help", "--version")
    ours = {name for name in loaded if name.startswith("ringwise")}
    modules = ("cli", "cli.main", "cli.commands", "cli.options")
    assert ours == {"ringwise", *(f"ringwise.{name}" for name in modules)}
    assert below((*NETWORK, "msgspec", "rich", "yaml", "dataclasses"), loaded) == set()


@pytest.mark.process
def test_place_loads_only_what_it_needs() -> None:
    for_program, for_people = modules_loaded_by(f"place -f {EXAMPLE} -o json", f"place -f {EXAMPLE} -o table")
    assert "ringwise.apps.place" in for_program
    ours = ("ringwise.apps.admission", "ringwise.kube", "ringwise.kubeclient", "ringwise.embed")
    searched = ("importlib.metadata", "ringwise.plugins.topology910.racks")
    assert below((*NETWORK, *ours, *searched, "ringwise.cli.printers", "rich"), for_program) == set()
    assert below((*NETWORK, *ours, *searched, "ringwise.apps.lab"), for_people) == set()


@pytest.mark.full
@pytest.mark.process
def test_a_query_about_files_loads_no_network_and_draws_nothing_for_a_program() -> None:
    queries = ("why gang", "get jobs", "describe job gang", "capacity", "top")
    ours = ("ringwise.apps.lab", "ringwise.kube", "ringwise.kubeclient", "ringwise.embed")
    loaded = modules_loaded_by(*(f"{query} -f {EXAMPLE} -o json" for query in queries))
    for query, names in zip(queries, loaded, strict=True):
        assert "ringwise.apps.sources.files" in names, query
        assert below((*NETWORK, *ours, "ringwise.cli.printers", "rich"), names) == set(), query


def test_the_table_of_commands_has_their_own_help() -> None:
    assert isinstance(cli, LazyGroup)
    run = cli.get_command(click.Context(cli), "run")
    assert isinstance(run, LazyGroup)
    for group in (cli, run):
        own = {}
        for name in group.entries:
            command = group.get_command(click.Context(group), name)
            assert command is not None
            assert command.name == name
            own[name] = command.get_short_help_str(limit=1000)
        assert {name: f"{entry.help}." for name, entry in group.entries.items()} == own


def test_help_lists_every_command_with_its_help() -> None:
    ran = CliRunner().invoke(cli, ["--help"], terminal_width=200)
    assert ran.exit_code == 0
    assert isinstance(cli, LazyGroup)
    for heading, entries in cli.sections.items():
        assert f"\n{heading}:\n" in ran.stdout
        for name, entry in entries.items():
            assert f"  {name} " in ran.stdout
            assert entry.help in " ".join(ran.stdout.split())


def test_an_unknown_command_is_one_clear_error() -> None:
    ran = CliRunner().invoke(cli, ["plce"])
    assert ran.exit_code == 2
    assert "No such command 'plce'" in ran.output


#: Runs a command whose import of one module takes long.
SLOW_IMPORT = """
import importlib.abc, sys, time

slow, sys.argv = sys.argv[1], ["ringwise", *sys.argv[2:]]

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == slow:
            print("importing", flush=True)
            time.sleep(60)
        return None

sys.meta_path.insert(0, Slow())
from ringwise.cli.main import main
main()
"""


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("click", ["--help"]),
        ("ringwise.cli.commands", ["--help"]),
        ("ringwise.cli.query.place", ["place", "-f", EXAMPLE]),
        ("ringwise.scheduler", ["place", "-f", EXAMPLE]),
        ("ringwise.cli.printers.tables", ["place", "-f", EXAMPLE]),
        ("ringwise.apps.kube_scheduler", ["run", "scheduler", "--no-leader-elect"]),
        ("aiohttp", ["run", "scheduler", "--no-leader-elect"]),
    ],
)
def test_ctrl_c_inside_an_import_prints_no_traceback(module: str, arguments: list[str]) -> None:
    command = [sys.executable, "-c", SLOW_IMPORT, module, *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_without_lab()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert out == ""
    assert err.strip() == ""


def _without_lab() -> dict[str, str]:
    return {**os.environ, "RINGWISE_LAB": "/absent"}


def commands_of(
    group: click.Group, names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield names, group
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands_of(command, (*names, name))
        else:
            yield (*names, name), command


def test_every_help_page_fits_a_terminal_of_80_columns() -> None:
    long = [
        (names, line)
        for names, command in commands_of(cli)
        for line in command.get_help(
            click.Context(command, info_name=" ".join(("ringwise", *names)), terminal_width=80)
        ).splitlines()
        if len(line) > 80
    ]
    assert long == []
