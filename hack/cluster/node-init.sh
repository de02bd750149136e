#!/usr/bin/env bash
# The first process of a node's namespaces. When it ends, the kernel kills everything else of the node, as a
# power cut would; and it ends when one of the node's three services does.
set -u
name=$1 address=$2 state=$3 runtime=$4 programs=$5

# The host's network namespaces would be kept alive by the copies of their mounts here.
umount --no-mtab --recursive --lazy /run/netns 2>/dev/null
# A /run of the node's own, so that nothing stays behind in the host's; only the sockets are shared with it.
run=$state/$name/run sockets=$(dirname "$runtime")
mkdir -p "$run" && mount --no-mtab -t tmpfs tmpfs "$run" && mkdir -p "$run/netns" "$run/${sockets#/run/}" || exit 1
mount --no-mtab --bind "$sockets" "$run/${sockets#/run/}" && mount --no-mtab --rbind "$run" /run || exit 1
# Pods with `mountPropagation` need shared mounts. Nothing of it reaches the host: this mount namespace is the node's.
mount --make-rshared / || exit 1

for _ in $(seq 300); do # the cable is laid from outside
  ip route get 192.0.2.1 >/dev/null 2>&1 && break
  sleep 0.1
done
ip route get 192.0.2.1 >/dev/null 2>&1 || { echo "no network within 30 s" >&2; exit 1; }
echo 1 >/proc/sys/net/ipv4/ip_forward
[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ] && echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables

containerd --config "$state/$name/containerd.toml" >>"$state/log/$name-containerd.log" 2>&1 &
for _ in $(seq 300); do
  timeout 2 ctr --address "$runtime/containerd.sock" version >/dev/null 2>&1 && break
  sleep 0.1
done
# A pod that comes before its image fails, and tries again only after a while.
for _ in $(seq 3000); do
  [ -e "$runtime/images-loaded" ] && break
  sleep 0.1
done
"$programs/kubelet" --config "$state/$name/kubelet.json" --kubeconfig "$state/kubeconfig/$name" \
  --hostname-override "$name" --node-ip "$address" --root-dir "$state/$name/kubelet" \
  >>"$state/log/$name-kubelet.log" 2>&1 &
"$programs/kube-proxy" --config "$state/$name/kube-proxy.json" >>"$state/log/$name-kube-proxy.log" 2>&1 &
wait -n
echo "a service of $name ended" >&2
