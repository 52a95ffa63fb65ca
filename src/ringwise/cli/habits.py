"""What users of kubectl and Slurm type, and what does the same here. Read only for an error."""

from __future__ import annotations

import click

#: Commands -> the command that does the same.
COMMANDS = {
    "apply": "submit",
    "cancel": "delete job",
    "create": "submit",
    "explain": "schema",
    "hold": "suspend",
    "release": "resume",
    "sacct": "history",
    "sbatch": "submit",
    "scancel": "delete job",
    "scontrol": "describe",
    "sinfo": "get nodes",
    "sprio": "why",
    "squeue": "get jobs",
    "sreport": "report",
    "sshare": "get queues",
}
#: A cluster has kubectl for these.
_OF_KUBECTL = {"submit": "kubectl create -f", "delete job": "kubectl delete"}
#: What `get` does not list -> the command that does.
KINDS = {"all": "get jobs", "events": "events JOB", "limits": "limits", "partitions": "get queues"}
#: Options by command -> what does the same.
OPTIONS = {
    "delete": {"--force": "pods are deleted with their termination grace period"},
    "drain": {"--dry-run": "use --plan", "--grace-period": "pods get their termination grace period"},
    "get": {
        "--field-selector": "use --state, or --node for pods",
        "--no-headers": "use -o name",
        "--partition": "use --queue",
        "--show-labels": "use -o json",
        "--start": "get jobs shows expected starts in the column 'starts in'",
        "--states": "use --state",
    },
    "history": {"-j": "the job is an argument: history JOB"},
    "report": {"--days": "use --since, such as --since 1d", "--last": "use --since, such as --since 1d"},
    "reserve": {
        "--duration": "use --to",
        "--end": "use --to",
        "--nodes": "nodes are arguments: reserve NODE...",
        "--queue": "use --for queue=QUEUE",
        "--start": "use --from",
        "--user": "use --for",
    },
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
