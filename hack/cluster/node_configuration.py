"""The configuration files of a node's services. Values only: nothing here touches the machine."""

from __future__ import annotations

import json
from pathlib import Path

from .layout import CLUSTER_DOMAIN, DNS_SERVICE, POD_NETWORK, Layout, Node

PAUSE_IMAGE = "batchwright.local/pause:1"


def files(layout: Layout, node: Node, *, cni_plugins: Path, snapshotter: str) -> dict[str, str]:
    """Names and contents of the files below the node's folder."""
    return {
        "cni/10-batchwright.conflist": _json(cni(layout, node)),
        "containerd.toml": containerd(layout, node, cni_plugins=cni_plugins, snapshotter=snapshotter),
        "kubelet.json": _json(kubelet(layout, node)),
        "kube-proxy.json": _json(kube_proxy(layout, node)),
        # Pods of the host's network get no name server: nothing leaves the machine.
        "resolv.conf": "",
    }


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def cni(layout: Layout, node: Node) -> dict[str, object]:
    """The network of the node's pods: a bridge, with addresses out of the node's own range."""
    addresses = {
        "type": "host-local",
        "dataDir": str(layout.node(node) / "pod-addresses"),
        "ranges": [[{"subnet": node.pod_network}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "batchwright", "plugins": [bridge, ports]}


def containerd(layout: Layout, node: Node, *, cni_plugins: Path, snapshotter: str) -> str:
    """containerd's configuration (TOML, version 2: containerd 1.3 to 2.x read it)."""
    return f"""\
version = 2
root = "{layout.node(node)}/containerd"
state = "{layout.containerd_socket(node).parent}/containerd"

[grpc]
  address = "{layout.containerd_socket(node)}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE no process may lower its score, and every container would fail to start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_plugins}"
    conf_dir = "{layout.node(node)}/cni"
"""


def kubelet(layout: Layout, node: Node) -> dict[str, object]:
    """kubelet's configuration (KubeletConfiguration, kubelet.config.k8s.io/v1beta1)."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",  # two kubelets below one root would remove each other's pods
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # lowering it takes CAP_SYS_RESOURCE
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket(node)}",
        "authentication": {
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
            "webhook": {"enabled": True},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(layout.pki / f"{node.name}.crt"),
        "tlsPrivateKeyFile": str(layout.pki / f"{node.name}.key"),
        "address": node.address,
        "healthzBindAddress": "127.0.0.1",
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [DNS_SERVICE],
        "resolvConf": str(layout.node(node) / "resolv.conf"),
        "nodeStatusUpdateFrequency": "2s",
        "serializeImagePulls": False,
        # An image that kubelet removes cannot be pulled again: there is no registry.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }


def kube_proxy(layout: Layout, node: Node) -> dict[str, object]:
    """kube-proxy's configuration (KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1)."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "oomScoreAdj": 0,
        "clusterCIDR": POD_NETWORK,  # what comes from elsewhere, the host, is masqueraded and so finds its way back
        "hostnameOverride": node.name,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clientConnection": {"kubeconfig": str(layout.kubeconfig("kube-proxy"))},
        "conntrack": {"maxPerCore": 0},  # a machine's setting, which a namespace may not change
    }
