"""The job plugins of vcjobs: their names, their arguments, and what each needs of the job.

Arguments are written as Go programs take them: `--port=23456`, `-port 23456`, `--wait-master-enabled`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ringwise.grammar import quoted
from ringwise.records import dataclass
from ringwise.topology.nearest import did_you_mean

#: Default path of the keys: in the home of root, as in Volcano.
HOME_SSH = "/root/.ssh"
_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})
_MAX_PORT = 65535
_MAX_SECONDS = 2**31 - 1
#: Characters of an argument in a message.
_LONGEST = 60

Value = str | int | bool


@dataclass(frozen=True, slots=True)
class Flag:
    """One argument. The type of the default is the type of the value; `most` limits a number."""

    default: Value
    most: int = _MAX_PORT


#: Every job plugin with its arguments.
JOB_PLUGINS: Mapping[str, Mapping[str, Flag]] = {
    "env": {},
    "svc": {
        "publish-not-ready-addresses": Flag(False),
        "disable-network-policy": Flag(False),
        "inject-hosts-env": Flag(True),
    },
    "ssh": {
        "ssh-key-file-path": Flag(HOME_SSH),
        "ssh-private-key": Flag(""),
        "ssh-public-key": Flag(""),
        "ssh-port": Flag(22),
    },
    "pytorch": {
        "master": Flag("master"),
        "worker": Flag("worker"),
        "port": Flag(23456),
        "wait-master-enabled": Flag(False),
        "wait-master-timeout": Flag(300, _MAX_SECONDS),
        "wait-master-image": Flag("busybox:1.36.1"),
    },
    "tensorflow": {
        "ps": Flag("ps"),
        "worker": Flag("worker"),
        "chief": Flag("chief"),
        "evaluator": Flag("evaluator"),
        "port": Flag(2222),
    },
    "mpi": {"master": Flag("master"), "worker": Flag("worker"), "port": Flag(22)},
    "ray": {
        "head": Flag("head"),
        "headContainer": Flag("head"),
        "worker": Flag("worker"),
        "workerContainer": Flag("worker"),
        "port": Flag(6379),
        "dashboardPort": Flag(8265),
        "clientPort": Flag(10001),
    },
    "hcclrank": {"master": Flag("master"), "worker": Flag("worker")},
}
#: Plugins that a plugin needs; Volcano's admission adds them to the job.
NEEDED_PLUGINS: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("svc",),
    "pytorch": ("svc",),
    "mpi": ("svc", "ssh"),
    "ray": ("svc",),
}
#: Plugins that cannot work without the task that an argument names.
_NEEDED_TASK = {"mpi": "master", "ray": "head"}


@dataclass(frozen=True, slots=True)
class PluginArguments:
    """The arguments of one plugin with its defaults, and what cannot be read and has no effect."""

    values: Mapping[str, Value]
    ignored: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    def switch(self, name: str) -> bool:
        return bool(self.values[name])


def arguments_of(plugin: str, arguments: Sequence[str]) -> PluginArguments:
    """The arguments of a known plugin. A wrong one keeps its default; the last of several counts."""
    flags = JOB_PLUGINS[plugin]
    values = {name: flag.default for name, flag in flags.items()}
    ignored: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, text = argument.lstrip("-").partition("=")
        if not argument.startswith("-") or argument.startswith("---"):
            ignored.append(
                f"job plugin {plugin}: invalid argument {quoted(argument, _LONGEST)}: must be --name=value"
            )
            continue
        flag = flags.get(name)
        if flag is None:
            what = f"job plugin {plugin} has no argument --{name[:_LONGEST]}"
            ignored.append(_unknown(what, name, flags, "--"))
            continue
        if not equals:
            text = "true" if isinstance(flag.default, bool) else next(rest, "")
        value = _value(flag, text)
        if value is None:
            ignored.append(
                f"job plugin {plugin}: --{name} must be {_allowed(flag)}, got {quoted(text, _LONGEST)}"
            )
        else:
            values[name] = value
    return PluginArguments(values, tuple(ignored))


def plugin_problems(plugins: Mapping[str, Sequence[str]], tasks: Sequence[str]) -> list[str]:
    """Unknown plugins, and plugins whose task the job does not have."""
    problems: list[str] = []
    for plugin, arguments in plugins.items():
        if plugin not in JOB_PLUGINS:
            problems.append(_unknown(f"unable to find job plugin: {plugin[:_LONGEST]}", plugin, JOB_PLUGINS))
            continue
        options = arguments_of(plugin, arguments)
        needed = options.text(_NEEDED_TASK[plugin]) if plugin in _NEEDED_TASK else ""
        if needed and needed not in tasks:
            role = _NEEDED_TASK[plugin]
            problems.append(
                f"The specified {plugin} {role} task was not found: job plugin {plugin} needs a task called "
                f"{needed[:_LONGEST]}; --{role}=NAME names another one"
            )
    return problems


def ignored_arguments(plugins: Mapping[str, Sequence[str]]) -> list[str]:
    """Arguments that have no effect. As in Volcano the job runs, and the plugin uses its defaults."""
    return [
        f"{ignored}; it is ignored"
        for plugin, arguments in plugins.items()
        if plugin in JOB_PLUGINS
        for ignored in arguments_of(plugin, arguments).ignored
    ]


def with_needed(plugins: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The plugins of a job with those that they need."""
    complete = {name: tuple(arguments) for name, arguments in plugins.items()}
    for name in plugins:
        for needed in NEEDED_PLUGINS.get(name, ()):
            complete.setdefault(needed, ())
    return complete


def _value(flag: Flag, text: str) -> Value | None:
    if isinstance(flag.default, bool):
        return True if text in _TRUE else False if text in _FALSE else None
    if isinstance(flag.default, int):
        is_number = text.isascii() and text.isdigit() and len(text) <= 10
        return int(text) if is_number and 1 <= int(text) <= flag.most else None
    # An empty name or path would be a wrong one; keys may be empty.
    return text if text or not flag.default else None


def _allowed(flag: Flag) -> str:
    if isinstance(flag.default, bool):
        return "true or false"
    return f"a number from 1 to {flag.most}" if isinstance(flag.default, int) else "a string"


def _unknown(message: str, name: str, allowed: Mapping[str, object], prefix: str = "") -> str:
    if not allowed:
        return f"{message}; it takes none"
    return f"{message}; allowed: {', '.join(prefix + one for one in allowed)}{did_you_mean(name, allowed)}"
