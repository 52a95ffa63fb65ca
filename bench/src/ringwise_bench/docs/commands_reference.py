"""`docs/commands.md`: every command and option, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import click

from ringwise.views.lists import sort_keys_of, states_of

#: Usage lines are folded here, however wide the writer's terminal is.
_WIDTH = 100

_SOURCES = """## Which cluster

Queries (`why`, `get`, `describe`, `top`, `capacity`, `place`, `topology show`, `doctor`, `fault list`) are
the same for a cluster, a lab and files, and print the same documents:

| given | asked |
|---|---|
| nothing | by `ringwise` the running lab, by `kubectl ringwise` the cluster of the kubeconfig |
| `-f FILES` | the cluster that the manifests describe, after one cycle where jobs are concerned |
| `--lab FOLDER` | the lab in this folder |
| `--kubeconfig FILE`, `--context NAME` | that cluster |

`-f` of `submit`, `delete` and `place` names manifests. `place` asks a lab or a cluster only where an option
or `kubectl ringwise` says so. `-n` and `-A` are those of kubectl, except that without `-n` all namespaces
count.

A command that changes something (`cordon`, `uncordon`, `drain`, `isolate`, `release`) reaches a cluster only
with `--kubeconfig`, `--context` or as `kubectl ringwise`. Its first line, on stderr, names its target:
`lab FOLDER`, or `cluster CONTEXT (SERVER)`. Where no lab runs it ends with exit code 2 and the line to type.
In this version `isolate` and `release` want their target named also where a lab runs, because they changed
the cluster of the kubeconfig before. `submit`, `delete`, `advance`, `fault inject` and `fault clear` have
only a lab; `install`, `uninstall` and `run` only a cluster.

Older names still work: `scheduler`, `controller`, `admission` and `device-plugin` without `run`, and
`chips list` for `get chips`."""

_LISTS = """## Lists

`get` lists a part of the objects, in an order, for files, a lab and a cluster alike:

- `-l` takes labels as kubectl does: `a=b,c!=d,e in (f,g),h notin (i),j,!k`. A job has those of its vcjob,
  PodGroup or pod, a chip those of its node; those of queues are not read.
- `--queue` lists the jobs and pods of a queue, `-n` those of a namespace.
- `--state pending,refused` lists what is in one of these states; a node has several at once.
- `--sort-by chips` orders the rows, `--sort-by -chips` the other way round; `age` has the youngest first.
  `.metadata.name`, `.metadata.namespace` and `.metadata.creationTimestamp` are read as kubectl reads them.
- `--limit 20` cuts a table after 20 rows and says how many more there are; 0 shows all. Without it a table in
  a terminal has at most 100 rows, in a pipe all. JSON and YAML are never cut.
- `-w` prints the table and then each row that changes, until Ctrl-C, and a line for what is not in the list
  any more. A lab is asked every second. A cluster is listed once and then followed with watches; what has
  changed is shown every 5 s, because states and reasons are computed from all its objects. A kind that may be
  listed and not watched is listed twice a minute. It goes with tables alone, and not with files, which do not
  change.

A word that is not known ends the command with exit code 2 and the words that are. A lab chooses the rows
itself; of a cluster all objects are read, because states and reasons are computed from them.

| | `--state` | `--sort-by` |
|---|---|---|"""


def _lists() -> str:
    rows = [
        f"| {kind} | {_words(states_of(kind))} | {_words(sort_keys_of(kind))} |"
        for kind in ("jobs", "pods", "nodes", "chips", "queues")
    ]
    return "\n".join([_LISTS, *rows])


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


_COMPLETION = (
    "## Shell completion",
    "",
    "Commands, options, their values and files are completed; names of nodes, jobs, queues and pods are",
    "those of the running lab. `ringwise completion SHELL` prints the script:",
    "",
    "| shell | once | for every new shell |",
    "|---|---|---|",
    '| bash 4.4 and newer | `eval "$(ringwise completion bash)"` | put that line into `~/.bashrc` |',
    '| zsh | `eval "$(ringwise completion zsh)"` | put that line into `~/.zshrc`, after `compinit` |',
    "| fish | `ringwise completion fish \\| source` "
    "| `ringwise completion fish > ~/.config/fish/completions/ringwise.fish` |",
    "",
    "The script calls `ringwise`, which must be on the PATH (`.venv/bin` is, after `. .venv/bin/activate`).",
)


def commands_page(root: click.Group, exit_codes: Mapping[int, str]) -> str:
    lines = [
        "# Commands",
        "",
        "Every command prints its answer to stdout and everything else to stderr. Bad input gets one line",
        "per problem and exit code 2. This page is made from the code (`make docs`).",
        "",
        "What is printed is as wide as the terminal; in a pipe as `$COLUMNS` says, else 120 columns.",
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in exit_codes.items()),
    ]
    lines += ["", _SOURCES, "", _lists(), "", *_COMPLETION]
    for path, command in _walk(root, ("ringwise",)):
        context = click.Context(command, info_name=" ".join(path), terminal_width=_WIDTH)
        lines += ["", f"## `{' '.join(path)}`", ""]
        lines += [(command.help or "").split("\f")[0].strip(), ""]
        lines += ["```", context.get_usage().removeprefix("Usage: "), "```"]
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        if options:
            lines += ["", "| option | meaning |", "|---|---|"]
            lines += [f"| {_names(option)} | {_meaning(option)} |" for option in options]
    return "\n".join(lines) + "\n"


def _walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    context = click.Context(command)
    for name in sorted(command.list_commands(context)):
        below = command.get_command(context, name)
        assert below is not None
        yield from _walk(below, (*path, name))


def _names(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    kind = option.type
    word = "\\|".join(str(c) for c in kind.choices) if isinstance(kind, click.Choice) else kind.name.upper()
    return f"{names} {word}"


def _meaning(option: click.Option) -> str:
    text = (option.help or "").replace("|", "\\|")
    if isinstance(option.show_default, str):
        text += f" Default: {option.show_default}."
    elif (
        option.show_default and isinstance(option.default, (str, int, float)) and option.default is not False
    ):
        text += f" Default: `{option.default}`."
    return text.strip()
