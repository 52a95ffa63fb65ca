"""What users of kubectl and Slurm type, and what does the same here. Read only for what does not exist."""

from __future__ import annotations

import click

#: Commands that only read -> what is run for them.
ALIASES = {
    "jobs": "get jobs",
    "nodes": "get nodes",
    "pods": "get pods",
    "queues": "get queues",
    "sinfo": "get nodes",
    "squeue": "get jobs",
    "sreport": "report",
    "sshare": "get queues",
}
#: Other commands -> the command that does the same.
COMMANDS = {
    "apply": "submit FILE",
    "cancel": "delete job JOB",
    "create": "submit FILE",
    "explain": "schema",
    "hold": "suspend JOB",
    "logs": "events JOB",
    "release": "resume JOB",
    "sacct": "history JOB",
    "sbatch": "submit FILE",
    "scancel": "delete job JOB",
    "scontrol": "describe KIND NAME",
    "sprio": "why JOB",
    "srun": "submit FILE",
    "wait": "submit FILE --wait",
}
#: A cluster has kubectl for these.
_OF_KUBECTL = {
    "delete job JOB": "kubectl delete vcjob JOB",
    "events JOB": "kubectl logs POD",
    "submit FILE": "kubectl create -f FILE",
}
#: What `get` does not list -> the command that does.
KINDS = {
    "all": "get jobs",
    "events": "events JOB",
    "faults": "fault list",
    "history": "history JOB",
    "limits": "limits",
    "partitions": "get queues",
    "podgroups": "get jobs",
    "superpods": "topology show",
    "switches": "topology show",
}
#: Options by command -> what does the same.
OPTIONS = {
    "delete": {"--force": "pods are deleted with their termination grace period"},
    "drain": {"--grace-period": "pods get their termination grace period"},
    "get": {
        "--no-headers": "use -o name",
        "--partition": "use --queue",
        "--show-labels": "use -o json",
        "--me": "use --user",
        "--states": "use --state",
        "-j": "names are arguments: get jobs JOB",
        "-p": "use --queue",
        "-t": "use --state",
    },
    "history": {"-j": "the job is an argument: history JOB"},
    "reserve": {"--user": "use --for"},
    "top": {"--sort-by": "use get nodes --sort-by"},
}


def command_hint(name: str, program: str) -> str:
    """Return the end of the sentence that there is no such command."""
    if name not in COMMANDS:
        return ""
    instead = COMMANDS[name]
    on_cluster = program != "ringwise" and _OF_KUBECTL.get(instead)
    return f": use '{on_cluster or f'{program} {instead}'}'"


def option_hint(error: click.NoSuchOption) -> str | None:
    """Return what does the same as an option that a command does not have."""
    command = "" if error.ctx is None else str(error.ctx.command.name)
    return OPTIONS.get(command, {}).get(error.option_name)
