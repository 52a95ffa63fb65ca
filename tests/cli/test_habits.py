"""What users of kubectl and Slurm type by habit: it works, or the error names what does the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ringwise.apps.targets import moment
from ringwise.cli.commands import LazyGroup, cli, plugin
from ringwise.cli.habits import ALIASES, COMMANDS, KINDS, OPTIONS
from ringwise.durations import SECOND, time_text
from ringwise.views.kinds import BY_WORD
from ringwise.views.kinds import KINDS as LISTED
from tests.lab.rig import SMALL, Terminal, job, queue, running

#: 2026-01-31T10:30:00Z.
_NOW = 1_769_855_400 * SECOND
_TWO_HOURS = 2 * 3600 * SECOND


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """Of a lab that tests leave as it is."""
    yield from _lab(tmp_path_factory.mktemp("habits"))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Terminal]:
    """The same, for a test that changes it."""
    yield from _lab(tmp_path)


def _lab(folder: Path) -> Iterator[Terminal]:
    with running(folder, SMALL):
        terminal = Terminal(folder)
        terminal.submit(job("train", 2, 8), job("tune", 1, 1))
        yield terminal


#: One after the other: some change what others show.
TYPED = [
    ("get node/node-1 no/node-2 -o name", "node-1\nnode-2\n"),
    ("get job/lab/train -o name", "lab/train\n"),
    ("get pods --node node-1 -o name", ""),
    ("describe node/node-1", "node node-1\n"),
    ("describe job/lab/train", "job lab/train (vcjob)\n"),
    ("cordon node/node-1", "node node-1 cordoned\n"),
    ("uncordon node/node-1", "node node-1 uncordoned\n"),
    ("drain node/node-3 --ignore-daemonsets --delete-emptydir-data -y", "node node-3 cordoned; 0 pods"),
    ("uncordon node-3", "node node-3 uncordoned\n"),
    ("describe reservations", "there are no reservations\n"),
    ("describe vcjob/lab/train", "job lab/train (vcjob)\n"),
    ("get vj train -o name", "lab/train\n"),
    ("squeue -o name", "lab/train\nlab/tune\n"),
    ("nodes node-1 -o name", "node-1\n"),
    ("get jobs --user alice", "no job has user alice (annotation ringwise.io/user, or the label of"),
    ("delete job/tune", "job lab/tune deleted\n"),
    ("scontrol show job train", "job lab/train (vcjob)\n"),
    ("cordon no/node-1 nodes/node-2", "node node-1 cordoned\nnode node-2 cordoned\n"),
    ("uncordon node-1 node-2", "node node-1 uncordoned\n"),
    ("top nodes -o name", "node-0\nnode-1\n"),
    ("get Job train -o name", "lab/train\n"),
    ("get JOBS -o name", "lab/train\nlab/tune\n"),
    ("get vcjob.batch.volcano.sh/train -o name", "lab/train\n"),
    ("get jobs,nodes -o name", "lab/train\nlab/tune\nnode-0\n"),
    ("-n lab get jobs -o name", "lab/train\nlab/tune\n"),
    ("--namespace=none get jobs -o name", ""),
    ("-A get jobs -o name", "lab/train\nlab/tune\n"),
    ("-n=lab get jobs -o name", "lab/train\nlab/tune\n"),
    ("-nnone get jobs -o name", ""),
    ("-n none -A get jobs -o name", "lab/train\nlab/tune\n"),
    ("get jobs -n=lab -o=name", "lab/train\nlab/tune\n"),
    ("describe node node-0 node-1", "node node-0\n"),
    ("describe chip node-0/Ascend910-0", "node"),
    ("get chips node-0 --limit 1", "node"),
    ("describe usagelimit", "there are no usagelimits\n"),
    ("scontrol show reservation", "there are no reservations\n"),
    ("squeue -p default -o name", "lab/train\nlab/tune\n"),
]


def test_what_kubectl_takes_works(own: Terminal) -> None:
    for typed, said in TYPED:
        assert own.ok(typed).startswith(said), typed


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("hold train", "No such command 'hold': use 'ringwise suspend JOB'"),
        (
            "sacct",
            "ringwise get jobs lists them; for the events of all jobs use ringwise get events",
        ),
        ("get events --field-selector type=Warning", "expected involvedObject.name=JOB"),
        ("events train --field-selector involvedObject.name=tune", "the name of one job is required"),
        ("why train -j tune", "the name of one job is required: ringwise why JOB;"),
        (
            "patch queue default",
            "No such command 'patch': change the manifest, then use 'ringwise submit FILE'",
        ),
        ("kill train", "No such command 'kill': use 'ringwise delete job JOB'"),
        (
            "get nodez",
            'unknown kind "nodez"; did you mean "node"?; kinds are jobs (vcjobs, vcjob, vj), nodes (no),',
        ),
        ("get node/node-1 node-2", 'invalid name "node-2": expected node/NAME'),
        ("get node/node-1 job/train", 'invalid name "job/train": expected node/NAME'),
        ("delete job/", 'invalid name "job/": expected job/NAME'),
        ("describe nodes", "the name of one node is required; get nodes lists them"),
        ("get nodes --start", "--start requires jobs; it cannot be combined with nodes"),
        ("scontrol hold train", "No such command 'scontrol': use 'ringwise suspend JOB'"),
        ("scontrol update JobId=1", "use 'ringwise requeue JOB --queue QUEUE'"),
        ("scontrol update NodeName=node-1 State=DRAIN Reason=fan", "use 'ringwise drain NODE'"),
        ("scontrol update nodename=node-1 state=RESUME", "use 'ringwise uncordon NODE'"),
        ("get nodes --show-labels", "--show-labels': use describe node NODE; -l selects by labels"),
        ("scontrol ping", "No such command 'scontrol': use 'ringwise describe KIND NAME'"),
        ("rollout restart job/train", "No such command 'rollout': use 'ringwise requeue JOB'"),
        ("get namespaces", "unknown kind \"namespaces\": use 'ringwise get jobs -A'"),
        ("get pg", "unknown kind \"pg\": use 'ringwise get jobs'"),
        ("get jobs,nodes -o json", "names and -o json require one kind"),
        ("get job nosuch", 'job "nosuch" not found\n'),
        ("get chips node-9", 'node "node-9" not found\n'),
        ("get jobs,nodez", 'unknown kind "jobs,nodez"'),
        ("drain node-1 --dry-run=all", "Option '--dry-run' does not take a value"),
        ("reserve --queue default --duration 2h", "nodes, or a number of nodes, are required"),
        ("reserve 1 --queue default --for default --to +2h", "one of --for and --queue is required"),
        ("reserve 1 --queue default", "one of --to and --duration is required"),
        (
            "reserve 1 --queue default --duration 2:00",
            'Invalid value for --duration: invalid duration "2:00": expected 90m, 1h30m, 7d, 2:00:00,',
        ),
        ("reserve 1 --queue default --to soon", 'end: invalid time "soon": expected a time such as'),
        ("reserve 1 --queue default --start 2026-1-1 --to +1h", 'start: invalid time "2026-1-1": expected'),
        ("logs train", "No such command 'logs': use 'ringwise events JOB'"),
        (
            "get pods --field-selector spec.host=node-1",
            'pods: unknown field "spec.host"; must be one of metadata.name, metadata.namespace, '
            "status.phase, spec.nodeName",
        ),
        (
            "get pods --field-selector node-1",
            'invalid field selector "node-1": expected field=value, field==',
        ),
        ("get nodes --user alice", "--user requires jobs; it cannot be combined with nodes"),
        ("get jobs --node node-1", "--node requires chips or pods; it cannot be combined with jobs"),
        ("get pods --node node-9", 'node "node-9" not found'),
    ],
)
def test_what_it_does_not_take_names_what_does_the_same(typed: str, said: str, terminal: Terminal) -> None:
    assert said in terminal.refused(typed)


@pytest.mark.parametrize("command", ["why", "events", "history", "get events", "sacct", "sprio"])
@pytest.mark.parametrize("job", ["job/train", "vj/lab/train", "-j train", "-j job/train", "--for job/train"])
def test_jobs_are_named_in_the_ways_of_kubectl_and_slurm(command: str, job: str, terminal: Terminal) -> None:
    name = ALIASES.get(command, command)
    assert terminal.json(f"{command} {job}") == terminal.json(f"{name} lab/train")


@pytest.mark.parametrize("sign", ["=", "=="])
def test_get_events_selects_a_job_as_kubectl_does(sign: str, terminal: Terminal) -> None:
    selected = terminal.json(f"get events --field-selector involvedObject.name{sign}train")
    assert selected == terminal.json("events lab/train")


@pytest.mark.parametrize(
    ("selector", "pods"),
    [
        ("spec.nodeName=node-0", ["train-worker-0"]),
        ("spec.nodeName==node-0,status.phase=Pending", ["train-worker-0"]),
        ("spec.nodeName!=node-0,metadata.name!=tune-worker-0", ["train-worker-1"]),
        ("status.phase=Running", []),
        ("status.phase=pending,metadata.name=train-worker-0", ["train-worker-0"]),
    ],
)
def test_field_selectors(selector: str, pods: list[str], terminal: Terminal) -> None:
    listed = terminal.json(f"get pods --field-selector {selector}")["pods"]
    assert [pod["name"] for pod in listed] == pods


def test_field_selector_of_cordoned_nodes(own: Terminal) -> None:
    own.ok("cordon node-3")
    assert own.ok("get nodes --field-selector spec.unschedulable=true -o name") == "node-3\n"


@pytest.mark.parametrize("command", ["apply -f", "create -f", "sbatch", "apply --dry-run=server -f"])
def test_files_are_submitted(command: str, own: Terminal) -> None:
    assert "lab/again: " in own.ok(f"{command} -", job("again"))
    submitted = "" if "dry-run" in command else "job lab/again deleted\n"
    assert own.ok("scancel job/again --ignore-not-found") in (submitted, "there is nothing to delete\n")


def test_create_refuses_an_object_that_exists(own: Terminal) -> None:
    own.ok("apply -f -", job("again"))
    for flags in ("", " --dry-run"):
        ran = own.run(f"create -f -{flags}", job("new") + "---\n" + job("again"))
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert ran.stderr == (
            "ringwise: AlreadyExists: Job lab/again already exists\n"
            "ringwise: to change it: ringwise apply -f FILE\n"
        )
    # All objects are stored, or none.
    assert "lab/new" not in own.ok("get jobs -o name")
    assert "lab/again: " in own.ok("apply -f -", job("again"))


@pytest.mark.parametrize("command", ["create -n team-a -f", "submit --namespace=team-a"])
def test_n_is_the_namespace_of_objects_that_have_none(command: str, own: Terminal) -> None:
    manifest = queue("again") + "---\n" + job("again").replace(", namespace: lab", "")
    assert "team-a/again: " in own.ok(f"{command} -", manifest)
    assert "job team-a/again deleted" in own.ok("delete -n team-a -f -", manifest)


@pytest.mark.parametrize("command", ["submit -n team-a -", "delete -n team-a -f -"])
def test_n_does_not_change_the_namespace_of_an_object(command: str, terminal: Terminal) -> None:
    said = 'metadata.namespace: Invalid value: "lab": must be "team-a", as -n says'
    assert said in terminal.refused(command, job("again"))


def test_start_lists_pending_jobs_by_their_expected_start(tmp_path: Path) -> None:
    with running(tmp_path, SMALL):
        terminal = Terminal(tmp_path)
        terminal.submit(job("long", 2, 8, minutes=60), job("short", 2, 8, minutes=10))
        terminal.submit(job("whole", 4, 8), job("half", 2, 8, minutes=5))
        assert terminal.ok("get jobs --start -o name") == "lab/half\nlab/whole\n"


@pytest.mark.parametrize("command", ["drain node-0", "defrag", "reserve 1 --for default --to +1h"])
@pytest.mark.parametrize("dry_run", ["--dry-run", "--dry-run=client", "--dry-run=server"])
def test_dry_run_is_a_plan(command: str, dry_run: str, terminal: Terminal) -> None:
    assert terminal.json(f"{command} {dry_run}") == terminal.json(f"{command} --plan")


def test_dry_run_none_carries_the_change_out(own: Terminal) -> None:
    assert "reservation night: 2 nodes" in own.ok(
        "reserve --dry-run=none --queue default --nodes node-2,node-3 --start +1h --duration 2h --name night "
        "-y"
    )
    (made,) = own.json("get reservations")["reservations"]
    assert (made["nodes"], made["end"] - made["start"]) == (["node-2", "node-3"], _TWO_HOURS)


def test_the_end_of_a_reservation_can_be_relative_to_its_start(terminal: Terminal) -> None:
    planned = terminal.json("reserve 1 --for default --from tomorrow --to +2h --plan")["reservation"]
    assert planned["end"] - planned["start"] == _TWO_HOURS


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        ("2:00:00", 7200),
        ("1-12:30:00", 131_400),
        ("90m", 5400),
        ("7d", 604_800),
        ("1d12h", 129_600),
        ("120", 7200),
        ("2hours", 7200),
    ],
)
def test_durations_of_reservations(duration: str, seconds: int, terminal: Terminal) -> None:
    planned = terminal.json(f"reserve node-0,node-1 --queue default --duration {duration} --plan")
    reserved = planned["reservation"]
    assert (reserved["nodes"], reserved["end"] - reserved["start"]) == (
        ["node-0", "node-1"],
        seconds * SECOND,
    )


@pytest.mark.parametrize("time", ["2099-11-20T08:00", "2099-11-20T08:00:00"])
def test_a_time_without_a_zone_is_in_utc(time: str) -> None:
    assert moment(time, 0) == moment("2099-11-20T08:00:00Z", 0)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("now+1hour", "2026-01-31T11:30:00Z"),
        ("now+30minutes", "2026-01-31T11:00:00Z"),
        ("now+1h30m", "2026-01-31T12:00:00Z"),
        ("now+2days", "2026-02-02T10:30:00Z"),
        ("now+90", "2026-01-31T10:31:30Z"),
        ("+2:00:00", "2026-01-31T12:30:00Z"),
        ("1sec", "2026-01-31T10:30:01Z"),
        ("23:59:59", "2026-01-31T23:59:59Z"),
        ("0:00", "2026-02-01T00:00:00Z"),
        ("1-12:00:00", "2026-02-01T22:30:00Z"),
        ("18:00", "2026-01-31T18:00:00Z"),
        ("9:00:30", "2026-02-01T09:00:30Z"),
        ("10:30", "2026-02-01T10:30:00Z"),
        ("noon", "2026-01-31T12:00:00Z"),
        ("midnight", "2026-02-01T00:00:00Z"),
        ("tomorrow", "2026-02-01T00:00:00Z"),
        ("2026-11-20", "2026-11-20T00:00:00Z"),
        ("2026-11-20T18:00", "2026-11-20T18:00:00Z"),
    ],
)
def test_times_as_slurm_has_them(typed: str, expected: str) -> None:
    assert time_text(moment(typed, _NOW)) == expected


@pytest.mark.parametrize(
    "typed", ["now", "now+", "now+soon", "25:00", "18:60", "90", "1hours2", "dawn", "5may", "31dec", "now2h"]
)
def test_times_that_are_invalid(typed: str) -> None:
    with pytest.raises(ValueError, match=r"invalid time|is in the past"):
        moment(typed, _NOW)


@pytest.mark.parametrize(
    ("period", "hours"),
    [
        ("--from 18:00 --to 8:00", 14),
        ("--from 18:00 --to midnight", 6),
        ("--from tomorrow --to 18:00", 18),
        ("--from 18:00 --to 18:00", 24),
    ],
)
def test_a_reservation_ends_at_the_next_such_time_after_its_start(
    period: str, hours: int, terminal: Terminal
) -> None:
    reserved = terminal.json(f"reserve node-0 --queue default {period} --plan")["reservation"]
    assert reserved["end"] - reserved["start"] == hours * 3600 * SECOND


@pytest.mark.parametrize("typed", ["squeue --me", "get jobs --me"])
def test_jobs_of_the_current_user(typed: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    assert terminal.ok(typed) == terminal.ok("get jobs --user alice") != terminal.ok("get jobs")


def test_states_as_squeue_writes_them(terminal: Terminal) -> None:
    assert terminal.json("squeue -t PD,R") == terminal.json("get jobs --state pending --state running")


def test_several_jobs_are_suspended_and_resumed(tmp_path: Path) -> None:
    with running(tmp_path, SMALL):
        terminal = Terminal(tmp_path)
        terminal.submit(job("train", 2, 8), job("tune", 1, 1))
        # They do not run yet, so the answer does not tell of chips.
        suspended = terminal.ok("suspend job train tune")
        assert suspended == "vcjob lab/train suspended\nvcjob lab/tune suspended\n"
        assert "vcjob lab/train resumed" in terminal.ok("resume job train")


def test_reports_of_days(terminal: Terminal) -> None:
    report = terminal.json("report --since 2d")
    assert terminal.json("report --days 2") == terminal.json("report --last 2d") == report
    assert terminal.json("report --since 2d --until now") == report
    by_user = terminal.json("report --since 2d --group-by user")
    assert terminal.json("report --since 2d --by user") == by_user
    assert terminal.json("sreport cluster AccountUtilizationByUser --since 2d") == by_user
    assert terminal.json("report --last 3d") != report


@pytest.mark.parametrize(
    ("typed", "instead"),
    [("patch x", "kubectl patch"), ("hold x", "kubectl ringwise suspend JOB")],
)
def test_a_plugin_names_what_a_cluster_has(typed: str, instead: str) -> None:
    ran = CliRunner().invoke(plugin, typed.split(), prog_name="kubectl-ringwise")
    assert (ran.exit_code, f": use '{instead}'" in ran.stderr) == (2, True)


def test_every_hint_names_a_command_that_exists_for_a_word_that_does_not() -> None:
    assert isinstance(cli, LazyGroup)
    instead = [*ALIASES.values(), *COMMANDS.values(), *KINDS.values()]
    assert {text.split()[0] for text in instead} <= {*cli.entries}
    assert not {*ALIASES, *COMMANDS} & {*cli.entries}
    assert not {*ALIASES} & {*COMMANDS}
    changing = {text for text in ALIASES.values() if cli.entries[text.split()[0]].changes}
    assert changing == {"submit", "delete job"}
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
