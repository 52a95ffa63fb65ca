"""Access to a cluster: from a kubeconfig, or from the service account of the pod this process runs in."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from ringwise.kubeclient.clock import Clock, RealClock
from ringwise.kubeclient.credentials import (
    Credential,
    Credentials,
    ExecPlugin,
    FixedCredential,
    KubeConfigError,
    TokenFile,
)
from ringwise.manifests.text.errors import ManifestError, one_line, shown
from ringwise.records import dataclass

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEFAULT_KUBECONFIG = Path(".kube") / "config"

Struct = TypeVar("Struct")


@dataclass(frozen=True, slots=True)
class Access:
    """Address of the API server, how to verify it, and the credentials to send."""

    server: str
    credentials: Credentials
    namespace: str = "default"
    #: PEM of the certificate authority; empty for those of the system. Ignored when `insecure`.
    authority: str = ""
    insecure: bool = False
    certificate: str = ""
    key: str = ""
    #: Name expected in the server's certificate, where it differs from the address.
    server_name: str = ""
    proxy: str = ""
    #: File or folder it was read from, for error messages.
    origin: str = ""
    #: The context of the kubeconfig; empty without one.
    context: str = ""

    def tls(self, credential: Credential) -> ssl.SSLContext | None:
        """TLS settings with the current certificates; None for plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cadata=self.authority or None)
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            certificate = credential.certificate or self.certificate
            if certificate:
                load_pair(context, certificate, credential.key or self.key)
        except (ssl.SSLError, ValueError, OSError) as problem:
            raise KubeConfigError(f"{self.origin}: certificates cannot be used: {problem}") from None
        return context


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """OpenSSL reads certificate and key from files only. A file in memory needs no writable disk."""
    text = f"{certificate}\n{key}\n".encode()
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("client-certificate")
        try:
            os.write(handle, text)
            context.load_cert_chain(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
        return
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        context.load_cert_chain(file.name)


# -- kubeconfig


class _Kebab(msgspec.Struct, rename="kebab"):
    """Base of kubeconfig structs: field names in kebab case."""


class _Cluster(_Kebab):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False


class _User(_Kebab):
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: _Exec | None = None
    auth_provider: Any = None
    username: str | None = None


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _Named(msgspec.Struct):
    """An entry of one of the three lists."""

    name: str
    cluster: _Cluster | None = None
    user: _User | None = None
    context: _Context | None = None


class _KubeConfig(_Kebab):
    current_context: str | None = None
    clusters: list[_Named] | None = None
    users: list[_Named] | None = None
    contexts: list[_Named] | None = None


def find_access(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """From the kubeconfig that was named, $KUBECONFIG, the pod's service account, or ~/.kube/config."""
    clock = RealClock()
    if kubeconfig:
        return read_kubeconfig([Path(kubeconfig)], context, clock)
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return read_kubeconfig(listed, context, clock)
    if environ.get("KUBERNETES_SERVICE_HOST") and context is None:
        return in_cluster(environ, clock, service_account)
    home = Path(environ.get("HOME") or "~").expanduser() / _DEFAULT_KUBECONFIG
    if home.is_file():
        return read_kubeconfig([home], context, clock)
    raise KubeConfigError(
        f"no cluster: use --kubeconfig or $KUBECONFIG, or run in a pod ({home} does not exist)"
    )


def in_cluster(environ: Mapping[str, str], clock: Clock, folder: Path = SERVICE_ACCOUNT) -> Access:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not (folder / "token").is_file():
        raise KubeConfigError(
            f"{folder}/token is missing: run the pod with a service account whose token is mounted"
        )
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile(folder / "token", clock),
        namespace=_text(folder / "namespace").strip() if (folder / "namespace").is_file() else "default",
        authority=_text(folder / "ca.crt"),
        origin=str(folder),
    )


def direct(server: str) -> Access:
    """A server with plain HTTP or with the certificate authorities of the system: a local proxy, a test."""
    return Access(server.rstrip("/"), FixedCredential(Credential("")), origin=server)


def read_kubeconfig(paths: list[Path], context: str | None, clock: Clock) -> Access:
    """Several files are merged; the first that defines a name wins."""
    merged = _KubeConfig(clusters=[], users=[], contexts=[])
    origin: dict[str, Path] = {}
    for path in paths:
        if not path.is_file() and len(paths) > 1:
            continue
        config = _parsed(path)
        merged.current_context = merged.current_context or config.current_context
        for kind in ("clusters", "users", "contexts"):
            entries: list[_Named] = getattr(config, kind) or []
            for one in entries:
                origin.setdefault(f"{kind.removesuffix('s')} {one.name}", path.parent)
            setattr(merged, kind, [*getattr(merged, kind), *entries])
    return _KubeConfigReader(merged, origin, ", ".join(map(str, paths)), clock).access(context)


def _parsed(path: Path) -> _KubeConfig:
    text = _text(path)
    try:
        if text.lstrip().startswith("{"):
            # Usually JSON. YAML is read by another parser, which is imported only where it is needed.
            with suppress(msgspec.DecodeError):
                return msgspec.json.decode(text, type=_KubeConfig)
        from ringwise.manifests.text.yaml_stream import YamlStream

        documents = [one.value for one in YamlStream(str(path), text.encode()).values()]
        return msgspec.convert(documents[0] if documents else {}, _KubeConfig)
    except (msgspec.ValidationError, RecursionError) as problem:
        raise KubeConfigError(one_line(f"{path}: {problem}")) from None
    except ManifestError as problem:
        raise KubeConfigError(str(problem)) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "is not text"
        raise KubeConfigError(f"{path}: {why}") from None


class _KubeConfigReader:
    """Reads one merged kubeconfig. Relative paths are relative to the file that contains them."""

    def __init__(self, config: _KubeConfig, folders: Mapping[str, Path], origin: str, clock: Clock) -> None:
        self._config = config
        self._folders = folders
        self._origin = origin
        self._clock = clock

    def access(self, wanted: str | None) -> Access:
        name = wanted or self._config.current_context
        contexts = {one.name: one.context for one in reversed(self._config.contexts or [])}
        if not name:
            self._fail("has no current-context; choose one with --context")
        context = contexts.get(name)
        if context is None:
            names = ", ".join(sorted(contexts)) or "none"
            self._fail(f"context {shown(name)} not found; must be one of {names}")
        cluster = next((one for one in self._config.clusters or () if one.name == context.cluster), None)
        if cluster is None or cluster.cluster is None or not cluster.cluster.server:
            self._fail(f"context {name}: cluster {shown(context.cluster)} has no server")
        user = next((one for one in self._config.users or () if one.name == context.user), None)
        if context.user and user is None:
            self._fail(f"context {name}: user {shown(context.user)} not found")
        access = self._cluster(cluster.name, cluster.cluster)
        access = replace(access, namespace=context.namespace or "default", context=name)
        return self._with_user(access, context.user, user.user if user else None)

    def _cluster(self, name: str, cluster: _Cluster) -> Access:
        folder = self._folders[f"cluster {name}"]
        server = (cluster.server or "").rstrip("/")
        if not server.startswith(("https://", "http://")):
            self._fail(f"cluster {name}: server must begin with https:// or http://, got {shown(server)}")
        return Access(
            server=server,
            credentials=FixedCredential(Credential()),
            authority=self._pem(cluster, "certificate_authority", folder, f"cluster {name}"),
            insecure=bool(cluster.insecure_skip_tls_verify),
            server_name=cluster.tls_server_name or "",
            proxy=cluster.proxy_url or "",
            origin=self._origin,
        )

    def _with_user(self, access: Access, name: str, user: _User | None) -> Access:
        if user is None:
            return access
        folder = self._folders[f"user {name}"]
        if user.auth_provider is not None:
            self._fail(f"user {name}: auth-provider was removed from Kubernetes; use an exec plugin")
        if user.username:
            self._fail(f"user {name}: passwords were removed from Kubernetes; use a token or a certificate")
        access = replace(
            access,
            certificate=self._pem(user, "client_certificate", folder, f"user {name}"),
            key=self._pem(user, "client_key", folder, f"user {name}"),
        )
        if bool(access.certificate) != bool(access.key):
            missing = "client-key" if access.certificate else "client-certificate"
            self._fail(f"user {name}: {missing} is missing")
        return replace(access, credentials=self._credentials(access, user, folder))

    def _credentials(self, access: Access, user: _User, folder: Path) -> Credentials:
        if user.exec is not None:
            cluster = None
            if user.exec.provide_cluster_info:
                cluster = {
                    "server": access.server,
                    "certificate-authority-data": base64.b64encode(access.authority.encode()).decode(),
                    "insecure-skip-tls-verify": access.insecure,
                }
            # A path is relative to the kubeconfig; a bare name is looked up on the PATH.
            command = user.exec.command
            return ExecPlugin(
                str(folder / command) if os.sep in command else command,
                tuple(user.exec.args or ()),
                {variable.name: variable.value for variable in user.exec.env or ()},
                self._clock,
                api_version=user.exec.api_version,
                cluster=cluster,
                hint=user.exec.install_hint or "",
            )
        if user.token_file:
            return TokenFile(folder / user.token_file, self._clock)
        return FixedCredential(Credential(user.token or ""))

    def _pem(self, entry: _Cluster | _User, name: str, folder: Path, what: str) -> str:
        """The text of one of the fields that have a twin with the content of their file."""
        if data := getattr(entry, f"{name}_data"):
            try:
                return base64.b64decode(data, validate=True).decode()
            except (binascii.Error, ValueError):
                self._fail(f"{what}: {name.replace('_', '-')}-data is not base64 of a PEM text")
        file: str | None = getattr(entry, name)
        return _text(folder / file) if file else ""

    def _fail(self, why: str) -> NoReturn:
        raise KubeConfigError(one_line(f"{self._origin}: {why}"))
