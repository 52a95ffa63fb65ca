"""Options of commands. `ringwise options` lists the common ones, which the help of commands omits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from ringwise.apps.web.options import WebOptions

    _Formats = click.Choice[str]
else:
    # Older versions of click have no type argument here.
    _Formats = click.Choice

Command = TypeVar("Command", bound=Callable[..., Any])


class Decorator(Protocol):
    def __call__(self, command: Command, /) -> Command: ...


#: Prefix of the output format that prints values of the JSON document.
JSONPATH = "jsonpath="
#: The command that lists the common options.
OPTIONS = "options"
_HINT = f"Use 'ringwise {OPTIONS}' for options that are common to many commands."

#: A file or a directory, which a shell completes; a file; a directory.
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
DIRECTORY = click.Path(path_type=Path, file_okay=False)
#: Files, directories, or - for stdin.
FILES = click.Path(allow_dash=True)


class AdvancedOption(click.Option):
    """An option that `--help` of a command omits; `ringwise options` shows it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.command.name == OPTIONS else None


def option(
    names: str, help: str, type: Any = None, default: Any = None, *, advanced: bool = False, **more: Any
) -> Decorator:
    """An option with a value. Its default is shown unless it is empty."""
    if default is not None:
        more = {"default": default, "show_default": bool(default), **more}
    cls = AdvancedOption if advanced else click.Option
    return click.option(*names.split(), cls=cls, type=type, help=help, **more)


def flag(names: str, help: str, **more: Any) -> Decorator:
    """An option without a value, or a pair of them such as `--on/--off`."""
    return option(names, help, is_flag=True, **more)


def with_options(*options: Decorator) -> Decorator:
    """Several options at once, listed in this order by `--help`."""

    def add(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return add


def duration_argument(text: str) -> int:
    """`90`, `90s`, `1h30m`, `2d`, in nanoseconds."""
    from ringwise.apps.lab.requests import MAX_TIME
    from ringwise.embed.kubelet import NotSimulatableError, seconds_or_duration
    from ringwise.grammar import quoted

    try:
        result = seconds_or_duration(text)
    except NotSimulatableError:
        result = MAX_TIME
    if result >= MAX_TIME:
        raise click.BadParameter(
            f"invalid duration {quoted(text)}: expected a number and a unit, such as 90s, 30m, 1h30m or 2d, "
            "below 100 years"
        )
    return result


def duration_option(names: str, help: str, default: str | None = None) -> Decorator:
    return option(names, help, duration_argument, default, metavar="DURATION")


def files_option(help: str, name: str = "files", **more: Any) -> Decorator:
    return option(f"-f --filename {name}", help, FILES, multiple=True, **more)


def driver_option() -> Decorator:
    kinds = click.Choice(["auto", "dcmi", "npu-smi", "simulated"])
    return option("--driver", "Driver interface; auto uses libdcmi.so, else npu-smi.", kinds, "auto")


class OutputFormat(_Formats):
    """An output format. Commands with JSON output also accept jsonpath=TEMPLATE."""

    def __init__(self, *formats: str) -> None:
        super().__init__([*formats, "jsonpath=TEMPLATE"] if "json" in formats else formats)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.startswith(JSONPATH) or value in self.choices:
            return str(super().convert(value, param, ctx))
        from ringwise.cli.jsonpath import JsonPathError, parse_template

        try:
            parse_template(value.removeprefix(JSONPATH))
        except JsonPathError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def output_choice(*formats: str, help: str = "Output format.", **more: Any) -> Decorator:
    """Return the option -o with these formats, the first of which is the default."""
    return option("-o --output", help, OutputFormat(*formats), formats[0], **more)


# -- options of several commands -------------------------------------------------------------------

output_option = output_choice(
    "table", "json", "yaml", help="Output format; get also has wide and name.", advanced=True
)
exit_code_option = flag("--exit-code", "Exit with code 3 if a job is rejected, 4 if one is pending.")
board_option = option(
    "--board-file boards", "Custom board profile; can be repeated.", PATH, advanced=True, multiple=True
)
configuration_option = option(
    "--config", "Scheduler configuration (volcano-scheduler.conf).", PATH, advanced=True
)
lab_option = option(
    "--lab lab",
    "Directory of the lab to use.  [default: $RINGWISE_LAB, else the state directory of the user]",
    DIRECTORY,
    advanced=True,
)
cluster_options = with_options(
    option(
        "--kubeconfig",
        "Use the cluster of this kubeconfig.  [default: $KUBECONFIG, ~/.kube/config]",
        advanced=True,
    ),
    option("--context", "Use the cluster of this kubeconfig context.", advanced=True),
)
#: For commands that use an API server only.
api_server_options = with_options(
    option(
        "--kubeconfig",
        "Path of a kubeconfig.  [default: $KUBECONFIG, the service account of the pod, ~/.kube/config]",
    ),
    option("--context", "Context of the kubeconfig."),
)
#: As in kubectl.
namespace_options = with_options(
    option(
        "-n --namespace",
        "Only this namespace.  [default: on a cluster, that of the kubeconfig context; else all]",
        advanced=True,
    ),
    flag("-A --all-namespaces", "All namespaces.", advanced=True),
)
#: For commands that change something.
target_options = with_options(lab_option, cluster_options)
change_options = with_options(target_options, output_option)
#: For commands that change objects without a namespace.
node_options = with_options(target_options, namespace_options, output_option)
#: For commands that plan a change with the scheduler.
plan_options = with_options(
    target_options, namespace_options, configuration_option, board_option, output_option
)
cluster_files_option = files_option("Read the cluster from a file, directory or - (stdin).")
_KEEP_GOING = flag("--keep-going", "Skip invalid documents; requires -f.", advanced=True)
now_option = option(
    "--now",
    "Current time in nanoseconds since 1970; requires -f.  [default: the newest timestamp of the input]",
    int,
    advanced=True,
)
_source = with_options(
    cluster_files_option, target_options, namespace_options, configuration_option, board_option
)
#: `--lab`, `-f`, or `--kubeconfig` and `--context`, with the options that require them.
source_options = with_options(_source, _KEEP_GOING, now_option)
query_options = with_options(source_options, output_option)
#: The same for commands that report invalid documents.
check_options = with_options(_source, now_option, output_option)
#: The options that `ringwise options` lists.
advanced_options = with_options(
    target_options,
    namespace_options,
    output_option,
    configuration_option,
    board_option,
    _KEEP_GOING,
    now_option,
)


def end_of_help(command: click.Command, program: str, examples: Sequence[str]) -> str:
    """Return the examples of a command, and where its other options are listed."""
    lines = ["\b", "Examples:", *(f"  {program} {example}" for example in examples)]
    paragraphs = ["\n".join(lines)] if examples else []
    if command.name != OPTIONS and any(isinstance(option, AdvancedOption) for option in command.params):
        paragraphs.append(_HINT)
    return "\n\n".join((*paragraphs, *filter(None, (command.epilog,))))


HOSTS = option(
    "--web-host web_hosts",
    "Additional host name of the dashboard, besides addresses and localhost; can be repeated.",
    multiple=True,
    metavar="NAME",
)
CERTIFICATE = with_options(
    option("--web-tls-cert-file", "Certificate of the dashboard (PEM); reloaded when it changes.", PATH),
    option("--web-tls-private-key-file", "Private key of the certificate (PEM).", PATH),
)
WEB = with_options(
    option(
        "--web-address",
        "Listen address of the dashboard, such as 127.0.0.1:8090; empty to disable it. An address "
        "that other machines can reach requires a certificate, and clients must send a token of the "
        "cluster.",
        default="",
    ),
    HOSTS,
    CERTIFICATE,
    option(
        "--web-replicas",
        "DNS name of all replicas and the port of their dashboards. The leader forwards long queries "
        "to another replica. All replicas must have the same certificate.",
        default="",
        metavar="NAME:PORT",
    ),
)


def take_web(options: dict[str, Any]) -> WebOptions | None:
    """Remove the options of the dashboard from `options` and return them; None if it is disabled."""
    names = ("web_address", "web_hosts", "web_tls_cert_file", "web_tls_private_key_file", "web_replicas")
    address, *others = (options.pop(name) for name in names)
    if not address:
        return None
    from ringwise.apps.web.options import WebOptions

    return WebOptions(address, *others)


LOOPBACK = "127.0.0.1"


def own_address(port: int) -> str:
    """The address of the pod, which the manifests pass as $POD_IP; outside a pod this machine alone."""
    host = os.environ.get("POD_IP") or LOOPBACK
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address_option(names: str, port: int, help: str) -> Decorator:
    shown = f"port {port} of $POD_IP, else of {LOOPBACK}"
    return option(names, help, default=lambda: own_address(port), show_default=shown)


def metrics_option(port: int) -> Decorator:
    what = "Listen address of /metrics, `:PORT` for all addresses; empty to disable it."
    return address_option("--metrics-address", port, what)
