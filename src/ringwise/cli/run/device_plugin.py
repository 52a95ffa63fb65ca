"""`ringwise run device-plugin`: the kubelet device plugin of one node.

The options of Huawei's plugin keep their names and their ranges, with one dash or two. What this plugin does
not do is refused by name; what needs no option here is accepted, with a line in the log.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ringwise import __version__
from ringwise.cli.exit_codes import ExitCode
from ringwise.cli.options import (
    PATH,
    Decorator,
    api_server_options,
    driver_option,
    flag,
    metrics_option,
    option,
    own_address,
    with_options,
)
from ringwise.cli.output import require_grpc, stop
from ringwise.grammar import quoted
from ringwise.log import Logger

if TYPE_CHECKING:
    from ssl import SSLContext

_LOG = Logger()

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_NODE_NAME = 230
_PORTS = (1025, 65535)
#: Ids of a chip that is shared.
_SHARES = 100


def _names(name: str) -> str:
    return f"-{name} --{name} {_variable(name)}"


def _flag(name: str, default: bool, help: str, **more: Any) -> Decorator:
    """A truth value in Go's form: `-name`, `-name=true`, `--name=false`."""
    more = {"is_flag": False, "flag_value": "true", "show_default": True, **more}
    return option(_names(name), help, bool, default, **more)


def _number(name: str, default: int, least: int, most: int | None, help: str) -> Decorator:
    return option(_names(name), help, click.IntRange(least, most), default, show_default=True)


def _text(name: str, help: str, default: str = "") -> Decorator:
    return option(_names(name), help, default=default)


def _path(name: str, help: str, default: str | None = None) -> Decorator:
    return option(name, help, PATH, default)


def _variable(name: str) -> str:
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower().replace("310_p", "310p_")
    return words.replace("-", "_")


def _print_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"ringwise device-plugin, version {__version__}")
        context.exit()


#: Options of Huawei's plugin that are accepted in one value only, with what the others would mean.
_ONE_VALUE: dict[str, tuple[Any, str]] = {
    "use310PMixedInsert": (False, "resources for each 310P card model"),
    "hotReset": (-1, "resetting chips"),
    "fdFlag": (False, "FusionDirector's edge mode"),
    "enableSlowNode": (False, "slow node detection"),
}

#: Options of Huawei's plugin that are accepted in all their values and change nothing, with the reason.
_WITHOUT_EFFECT: dict[str, str] = {
    "linkdownTimeout": "the fault configuration sets the timeout",
    "thirdPartyScanDelay": "chips are not reset",
    "dealWatchHandler": "objects are always listed again after a watch fails",
    "checkCachedPods": "the cache is checked before a call fails",
    "getPodFromKubelet": "pods are watched through the API server",
    "edgeLogFile": "edge mode is not supported; use -logFile",
}


def _no_effect(name: str) -> str:
    return f"No effect: {_WITHOUT_EFFECT[name]}."


_options = with_options(
    option("--node-name", "Name of this node.  [default: $NODE_NAME]", envvar="NODE_NAME", required=True),
    driver_option(),
    _path("--simulated-chips", "Description of simulated chips (JSON)."),
    _path("--simulated-socket", "Read changes of simulated chips from this unix socket."),
    option(
        "--mount-method",
        "How chips are mounted into containers; auto uses ascend-docker if ASCEND_DOCKER_RUNTIME "
        "is True, else plain device nodes.",
        click.Choice(["auto", "ascend-docker", "plain", "cdi"]),
        "auto",
    ),
    flag("--mount-driver", "Also mount the files of the driver (with plain device nodes)."),
    _path(
        "--kubelet-dir",
        "Root directory of the kubelet, which contains device-plugins and pod-resources.",
        "/var/lib/kubelet",
    ),
    _path(
        "--state-dir",
        "Directory of the mount records. Default: device-plugins/ringwise in the kubelet's directory.",
    ),
    _path("--cdi-dir", "Directory for CDI specifications.", "/var/run/cdi"),
    _path(
        "--cgroup-root",
        "Root of the host's cgroup file system, to check whether containers of deleted pods still run.",
        "/sys/fs/cgroup",
    ),
    _path(
        "--container-spec-dir",
        "Directory in which the container runtime keeps its containers. Their specifications, including "
        "the environment, are read to find the chips of containers without a mount record. Default: "
        "not read.",
    ),
    flag("--set-labels/--no-labels", "Set missing node labels.", default=True),
    api_server_options,
    metrics_option(8082),
    _flag(
        "volcanoType",
        True,
        "Match calls to pods by their annotations; if false, kubelet's device IDs are the chips.",
    ),
    _number("listWatchPeriod", 5, 3, 1800, "Seconds between two scans of the chips."),
    _flag("autoStowing", True, "Use recovered chips again without confirmation."),
    _number("deviceResetTimeout", 600, 10, 600, "Seconds to wait for chips at startup."),
    _number("logLevel", 0, -1, 3, "-1 debug, 0 info, 1 warning, 2 error, 3 critical."),
    _text("logFile", "Write the log to this file instead of stderr; it rotates at 20 MB."),
    _number("maxAge", 7, 7, 700, "Days to keep rotated log files."),
    _number("maxBackups", 30, 1, 180, "Number of rotated log files to keep."),
    _flag("enable-healthz", True, "Serve /healthz (also as /) and /readyz."),
    _text(
        "healthz-address",
        "Listen port (on $POD_IP, else on 127.0.0.1) or address and port of /healthz.",
        default="11251",
    ),
    _text("tls-cert-file", "Certificate of /healthz (PEM); if set, /healthz is served over HTTPS."),
    _text("tls-private-key-file", "Private key of the certificate (PEM)."),
    _flag("presetVirtualDevice", True, "Must be true: the plugin does not create vNPUs."),
    _number("shareDevCount", 1, 1, 100, "Device IDs per chip: 1, or 100 with -softShareDevConfigDir."),
    _text(
        "softShareDevConfigDir",
        "Share chips by percentage; absolute host path of the directory for the memory of shared chips.",
    ),
    _flag("use310PMixedInsert", False, "Must be false."),
    _number("hotReset", -1, -1, 2, "Must be -1."),
    _flag("fdFlag", False, "Must be false."),
    _flag("enableSlowNode", False, "Must be false."),
    _flag(
        "useSingleDieMode",
        False,
        "Required for shares on A3 nodes, on which each die must be configured as a separate device.",
    ),
    _flag("getPodFromKubelet", False, _no_effect("getPodFromKubelet")),
    _number("linkdownTimeout", 30, 1, 30, _no_effect("linkdownTimeout")),
    _number("thirdPartyScanDelay", 300, 0, None, _no_effect("thirdPartyScanDelay")),
    _flag("dealWatchHandler", False, _no_effect("dealWatchHandler")),
    _flag("checkCachedPods", True, _no_effect("checkCachedPods")),
    _text("edgeLogFile", _no_effect("edgeLogFile")),
    _flag(
        "version",
        False,
        "Print the version and exit.",
        is_eager=True,
        expose_value=False,
        callback=_print_version,
    ),
)


@click.command("device-plugin")
@_options
def device_plugin_command(**flags: Any) -> None:
    """Run the kubelet device plugin on this node."""
    require_grpc("ringwise device-plugin")
    from ringwise.apps.device_plugin import DeviceOptions, run
    from ringwise.apps.logs import log_to
    from ringwise.device.drivers.port import DriverError
    from ringwise.device.service import SilentKubeletError
    from ringwise.device.settings import PluginSettings
    from ringwise.kubeclient.credentials import KubeConfigError
    from ringwise.metrics.endpoints import AddressError

    _check(flags)
    health_address, health_tls = _health_address(flags), _health_tls(flags)
    folder: Path = flags["kubelet_dir"]
    shares = bool(flags["soft_share_dev_config_dir"])
    try:
        log_to(flags["log_file"], flags["log_level"], flags["max_age"], flags["max_backups"])
    except OSError as problem:
        raise stop(f"-logFile: {flags['log_file']}: {problem.strerror or problem}") from None
    for name, reason in _WITHOUT_EFFECT.items():
        if click.get_current_context().get_parameter_source(_variable(name)) is ParameterSource.COMMANDLINE:
            _LOG.info("an option has no effect", option=f"-{name}", why=reason)
    namespace, pod = os.environ.get("POD_NAMESPACE"), os.environ.get("POD_NAME")
    settings = PluginSettings(
        flags["node_name"],
        pod=f"{namespace}/{pod}" if namespace and pod else "",
        plugin_folder=folder / "device-plugins",
        pod_resources=folder / "pod-resources" / "kubelet.sock",
        state_folder=flags["state_dir"] or folder / "device-plugins" / "ringwise",
        cdi_folder=flags["cdi_dir"],
        cgroup_root=flags["cgroup_root"],
        container_spec_dir=flags["container_spec_dir"],
        mount_method=_mounting(flags["mount_method"]),
        mount_driver=flags["mount_driver"],
        match_pods=flags["volcano_type"],
        soft_share_folder=Path(flags["soft_share_dev_config_dir"]) if shares else None,
        single_die=flags["use_single_die_mode"],
        period=float(flags["list_watch_period"]),
        set_labels=flags["set_labels"],
    )
    options = DeviceOptions(
        settings,
        driver=flags["driver"],
        simulated_chips=flags["simulated_chips"],
        simulated_socket=flags["simulated_socket"],
        kubeconfig=flags["kubeconfig"],
        context=flags["context"],
        metrics_address=flags["metrics_address"],
        health_address=health_address,
        health_tls=health_tls,
        discovery_timeout=float(flags["device_reset_timeout"]),
    )
    try:
        run(options)
    except (DriverError, KubeConfigError, AddressError) as problem:
        raise stop(f"ringwise device-plugin: {problem}") from None
    except SilentKubeletError as problem:
        raise stop(f"ringwise device-plugin: {problem}", code=ExitCode.FAILED) from None


def _check(flags: dict[str, Any]) -> None:
    name = flags["node_name"]
    if len(name) > _MAX_NODE_NAME or not _NODE_NAME.fullmatch(name):
        raise click.UsageError(
            f"--node-name: must be a node's name of at most {_MAX_NODE_NAME} characters, got {quoted(name)}"
        )
    _check_shares(flags)
    for name, (allowed, meaning) in _ONE_VALUE.items():
        value = flags[_variable(name)]
        if value != allowed:
            shown = str(allowed).lower() if isinstance(allowed, bool) else repr(allowed)
            raise click.UsageError(f"-{name}: must be {shown}: {meaning} is not supported")
    if not flags["auto_stowing"]:
        raise click.UsageError("-autoStowing: must be true: isolate chips with `ringwise isolate` instead")
    if flags["driver"] == "simulated" and flags["simulated_chips"] is None:
        raise click.UsageError("--driver simulated requires --simulated-chips FILE")


def _check_shares(flags: dict[str, Any]) -> None:
    """Raise UsageError for the first flag of shares that is invalid (rule V21); the card is checked later."""
    folder, count = flags["soft_share_dev_config_dir"], flags["share_dev_count"]
    if not flags["preset_virtual_device"]:
        raise click.UsageError("-presetVirtualDevice: must be true: creating vNPUs is not supported")
    if not folder:
        if count > 1:
            raise click.UsageError(
                f"-shareDevCount: Invalid value: {count}: must be 1 without -softShareDevConfigDir; "
                "sharing chips without limits is not supported"
            )
        if flags["use_single_die_mode"]:
            raise click.UsageError("-useSingleDieMode: requires -softShareDevConfigDir")
        return
    if count != _SHARES:
        raise click.UsageError(
            f"-shareDevCount: Invalid value: {count}: must be {_SHARES} with -softShareDevConfigDir"
        )
    if not Path(folder).is_absolute():
        raise click.UsageError(
            f"-softShareDevConfigDir: Invalid value: {quoted(folder)}: must be an absolute path"
        )
    if not flags["volcano_type"]:
        raise click.UsageError("-softShareDevConfigDir: requires -volcanoType=true")


def _mounting(chosen: str) -> str:
    if chosen != "auto":
        return chosen
    return "ascend-docker" if os.environ.get("ASCEND_DOCKER_RUNTIME") == "True" else "plain"


def _health_address(flags: dict[str, Any]) -> str:
    """Today's plugin takes a port."""
    text: str = flags["healthz_address"]
    if not text:
        return ""
    port = text.rpartition(":")[2]
    if not (port.isascii() and port.isdigit() and _PORTS[0] <= int(port) <= _PORTS[1]):
        raise click.UsageError(
            f"--healthz-address: must be a port from {_PORTS[0]} to {_PORTS[1]}, got {quoted(text)}"
        )
    if not flags["enable_healthz"]:
        return ""
    return text if ":" in text else own_address(int(port))


def _health_tls(flags: dict[str, Any]) -> SSLContext | None:
    """HTTPS for the probes where certificate and key are named."""
    certificate, key = flags["tls_cert_file"], flags["tls_private_key_file"]
    if not certificate and not key:
        return None
    if not certificate or not key:
        raise click.UsageError("--tls-cert-file and --tls-private-key-file must be set together")
    import ssl

    for name, path in (("--tls-cert-file", certificate), ("--tls-private-key-file", key)):
        try:
            Path(path).read_bytes()
        except OSError as problem:
            raise click.UsageError(f"{name}: {path}: {problem.strerror or problem}") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # Without a password here an encrypted key would be asked for at a terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise click.UsageError(
            f"--tls-cert-file, --tls-private-key-file: {certificate} and {key} must be a "
            f"certificate and its key in PEM format without a password: {reason}"
        ) from None
    return context
