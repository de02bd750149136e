"""The cluster's certificates, all signed by one authority of its own, and the kubeconfig files that hold them."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from .commands import run
from .layout import API_SERVER, API_SERVICE, CLUSTER_DOMAIN, HOST_ADDRESS, NODES, Layout

DAYS = "3650"
CLUSTER_NAME = "batchwright"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate: whom it names (an X.509 subject; O is a Kubernetes group) and under which addresses."""

    name: str
    subject: str
    addresses: str = ""


CERTIFICATES = (
    Certificate(
        "kube-apiserver",
        "/CN=kube-apiserver",
        f"IP:{HOST_ADDRESS},IP:{API_SERVICE},DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
        f"DNS:kubernetes.default.svc.{CLUSTER_DOMAIN}",
    ),
    Certificate("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client"),
    Certificate("front-proxy", "/CN=front-proxy-client"),
    Certificate("admin", "/O=system:masters/CN=admin"),
    Certificate("kube-controller-manager", "/CN=system:kube-controller-manager"),
    Certificate("kube-scheduler", "/CN=system:kube-scheduler"),
    Certificate("kube-proxy", "/CN=system:kube-proxy"),
    *(
        Certificate(node.name, f"/O=system:nodes/CN=system:node:{node.name}", f"DNS:{node.name},IP:{node.address}")
        for node in NODES
    ),
)
KUBECONFIG_USERS = (
    "admin",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    *(node.name for node in NODES),
)


def make(layout: Layout) -> None:
    """Make all keys, certificates and kubeconfig files, unless they are there."""
    if layout.pki.is_dir():
        return
    unfinished = layout.state / ".pki"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    _make_authority(unfinished)
    for certificate in CERTIFICATES:
        _sign(certificate, unfinished)
    layout.kubeconfig("admin").parent.mkdir(exist_ok=True)
    for user in KUBECONFIG_USERS:
        write_private(layout.kubeconfig(user), kubeconfig(unfinished, user))
    unfinished.rename(layout.pki)  # last, so that a run that is killed before leaves nothing half made


def _make_authority(folder: Path) -> None:
    _make_key(folder / "ca.key")
    subject = f"/CN={CLUSTER_NAME}-cluster"
    run(
        *("openssl", "req", "-x509", "-new", "-key", folder / "ca.key", "-days", DAYS, "-subj", subject),
        *("-out", folder / "ca.crt"),
    )
    # Service account tokens are signed with a key of their own.
    _make_key(folder / "service-accounts.key")
    public = folder / "service-accounts.pub"
    run("openssl", "pkey", "-in", folder / "service-accounts.key", "-pubout", "-out", public)


def _sign(certificate: Certificate, folder: Path) -> None:
    key, target = folder / f"{certificate.name}.key", folder / f"{certificate.name}.crt"
    request, extensions = folder / "request.csr", folder / "extensions.cnf"
    _make_key(key)
    run("openssl", "req", "-new", "-key", key, "-subj", certificate.subject, "-out", request)
    lines = ["extendedKeyUsage=serverAuth,clientAuth"]
    if certificate.addresses:
        lines.append(f"subjectAltName={certificate.addresses}")
    extensions.write_text("\n".join(lines))
    run(
        *("openssl", "x509", "-req", "-in", request, "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"),
        *("-CAcreateserial", "-days", DAYS, "-extfile", extensions, "-out", target),
    )


def _make_key(path: Path) -> None:
    run(
        *("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-pkeyopt", "ec_param_enc:named_curve", "-out", path),
    )
    path.chmod(0o600)


def kubeconfig(folder: Path, user: str) -> str:
    """A kubeconfig file (YAML, of which JSON is a part) with the certificates of `folder` in it."""

    def encoded(name: str) -> str:
        return base64.b64encode((folder / name).read_bytes()).decode()

    cluster = {"server": API_SERVER, "certificate-authority-data": encoded("ca.crt")}
    credentials = {
        "client-certificate-data": encoded(f"{user}.crt"),
        "client-key-data": encoded(f"{user}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER_NAME, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": CLUSTER_NAME, "context": {"cluster": CLUSTER_NAME, "user": user}}],
        "current-context": CLUSTER_NAME,
    }
    return json.dumps(config, indent=2) + "\n"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    unfinished.write_text(text)
    unfinished.replace(path)
