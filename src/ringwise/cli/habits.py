"""What users of kubectl and Slurm type, and what does the same here. Read only for what does not exist."""

from __future__ import annotations

from collections.abc import Sequence

import click

#: One to three words -> the command that is run.
ALIASES = {
    "apply": "submit",
    "cancel": "delete job",
    "create": "submit",
    "get event": "events",
    "get events": "events",
    "get history": "history",
    "jobs": "get jobs",
    "nodes": "get nodes",
    "pods": "get pods",
    "queues": "get queues",
    "sacct": "history",
    "sbatch": "submit",
    "scancel": "delete job",
    "scontrol show": "describe",
    "sinfo": "get nodes",
    "sprio": "why",
    "squeue": "get jobs",
    "sreport": "report",
    "sreport cluster AccountUtilizationByUser": "report --group-by user",
    "sreport cluster UserUtilizationByAccount": "report --group-by user",
    "sreport cluster Utilization": "report",
    "sreport user TopUsage": "report --group-by user",
    "sshare": "get queues",
    "top node": "get nodes",
    "top nodes": "get nodes",
    "top pod": "get pods",
    "top pods": "get pods",
}
#: Other commands -> the command that does the same.
COMMANDS = {
    "api-resources": "get --help",
    "exec": "describe pod POD",
    "explain": "schema",
    "hold": "suspend JOB",
    "kill": "delete job JOB",
    "logs": "events JOB",
    "release": "resume JOB",
    "rollout": "requeue JOB",
    "sacctmgr": "limits",
    "scontrol": "describe KIND NAME",
    "scontrol create": "reserve NODE... --for QUEUE --to TIME",
    "scontrol delete": "unreserve NAME",
    "scontrol hold": "suspend JOB",
    "scontrol release": "resume JOB",
    "scontrol requeue": "requeue JOB",
    "scontrol resume": "resume JOB",
    "scontrol suspend": "suspend JOB",
    "scontrol update": "requeue JOB --queue QUEUE",
    "srun": "submit FILE",
    "wait": "submit FILE --wait",
}
#: Commands that change an object: a lab takes the changed manifest.
CHANGES = ("annotate", "edit", "label", "patch", "replace", "scale", "set")
#: Commands that only kubectl has for a cluster.
_OF_KUBECTL = (*CHANGES, "api-resources", "exec", "logs", "wait")
#: What `get` does not list -> the command that does.
KINDS = {
    "all": "get jobs",
    "faults": "fault list",
    "limits": "limits",
    "namespaces": "get jobs -A",
    "ns": "get jobs -A",
    "partitions": "get queues",
    "pg": "get jobs",
    "podgroup": "get jobs",
    "podgroups": "get jobs",
    "superpods": "topology show",
    "switches": "topology show",
}
#: Options by command -> what does the same.
OPTIONS = {
    "delete": {"--force": "pods are deleted with their termination grace period"},
    "drain": {"--grace-period": "pods get their termination grace period"},
    "get": {
        "--show-labels": "use describe node NODE; -l selects by labels",
        "-N": "nodes are listed one per line",
        "-R": "use get nodes -o wide, or fault list",
        "-j": "names are arguments: get jobs JOB",
    },
    "reserve": {"--user": "use --for"},
    "top": {"--sort-by": "use get nodes --sort-by"},
}


def command_hint(args: Sequence[str], program: str) -> str:
    """Return the end of the sentence that there is no such command."""
    return next(filter(None, (_hint(" ".join(args[:count]), args, program) for count in (2, 1))), "")


def _hint(name: str, args: Sequence[str], program: str) -> str:
    if name == "scontrol update" and any(arg.lower().startswith("nodename=") for arg in args):
        is_back = any(arg.lower() in ("state=resume", "state=idle", "state=undrain") for arg in args)
        return f": use '{program} {'uncordon' if is_back else 'drain'} NODE'"
    if name in _OF_KUBECTL and program != "ringwise":
        return f": use 'kubectl {name}'"
    if name in CHANGES:
        return f": change the manifest, then use '{program} submit FILE'"
    return f": use '{program} {COMMANDS[name]}'" if name in COMMANDS else ""


def option_hint(error: click.NoSuchOption) -> str | None:
    """Return what does the same as an option that a command does not have."""
    command = "" if error.ctx is None else str(error.ctx.command.name)
    return OPTIONS.get(command, {}).get(error.option_name)
