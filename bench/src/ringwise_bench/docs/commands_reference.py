"""`docs/reference/commands.md`: every command and option, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import click

from ringwise.cli.examples import EXAMPLES
from ringwise.cli.options import OPTIONS, AdvancedOption
from ringwise.views.kinds import KINDS
from ringwise.views.lists import state_words
from ringwise_bench.docs.parts import table

#: Usage lines are folded here, however wide the writer's terminal is.
_WIDTH = 100


def commands_parts(root: click.Group, exit_codes: Mapping[int, str]) -> dict[str, str]:
    """Those of `docs/reference/commands.md`."""
    lists = ((kind.plural, _words(state_words(kind)), _words(kind.keys)) for kind in KINDS)
    return {
        "exit codes": table(("code", "meaning"), ((str(code), text) for code, text in exit_codes.items())),
        "lists": table(("kind", "`--state`", "`--sort-by`"), lists),
        "commands": "\n".join(_command(path, command) for path, command in walk(root, ("ringwise",))),
    }


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _command(path: tuple[str, ...], command: click.Command) -> str:
    context = click.Context(command, info_name=" ".join(path), terminal_width=_WIDTH)
    lines = [f"## `{' '.join(path)}`", "", (command.help or "").split("\f")[0].strip(), ""]
    lines += ["```", context.get_usage().removeprefix("Usage: "), "```", ""]
    common = command.name != OPTIONS
    options = [
        option
        for option in command.params
        if isinstance(option, click.Option) and not (common and isinstance(option, AdvancedOption))
    ]
    if examples := EXAMPLES.get(" ".join(path[1:])):
        lines += ["```", *(f"ringwise {example}" for example in examples), "```", ""]
    if options:
        rows = ((_names(option), _meaning(option)) for option in options)
        lines += [table(("option", "meaning"), rows), ""]
    hidden = [option for option in command.params if common and isinstance(option, AdvancedOption)]
    if hidden:
        lines += [f"[Common options](#ringwise-options): {', '.join(map(_names, hidden))}.", ""]
    return "\n".join(lines)


def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    if command.invoke_without_command:
        yield path, command
    context = click.Context(command)
    for name in sorted(command.list_commands(context)):
        below = command.get_command(context, name)
        assert below is not None
        yield from walk(below, (*path, name))


def _names(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    kind = option.type
    word = "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name.upper()
    word = (option.metavar or word.removesuffix(" RANGE")).replace("|", "\\|")
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
