#!/usr/bin/env bash
# isolate.sh GROUP: a machine within the machine, as the cluster's scripts see it, until its standard input ends.
# It has namespaces of its own, an empty /run, and the control group GROUP as the root of all control groups.
set -euo pipefail
group=$1

# Lines of: mount point, version, options.
hierarchies=$(sed -nE 's/^\S+ \S+ \S+ \S+ (\S+) .* - (cgroup2?) \S+ (\S+)$/\1 \2 \3/p' /proc/self/mountinfo | sort -u)
while read -r root _; do
  for controller in cpuset cpu io memory hugetlb pids; do # version 2 passes on what it is told to
    echo "+$controller" 2>/dev/null >"$root/cgroup.subtree_control" || true
  done
  mkdir -p "$root/$group"
  if [ -f "$root/cpuset.cpus" ]; then # version 1: a new cpuset is empty, and no process can enter it
    cat "$root/cpuset.cpus" >"$root/$group/cpuset.cpus"
    cat "$root/cpuset.mems" >"$root/$group/cpuset.mems"
  fi
  echo 0 >"$root/$group/cgroup.procs"
done <<<"$hierarchies"

export hierarchies
exec unshare --net --mount --pid --cgroup --ipc --fork --kill-child --mount-proc bash -euc '
  ip link set lo up
  mount -t tmpfs tmpfs /run
  mkdir -p /run/lock
  while read -r root version options; do
    umount --lazy "$root"
    if [ "$version" = cgroup ]; then
      mount -t cgroup -o "$(tr , "\n" <<<"$options" | grep -vE "^(rw|ro|relatime)$" | paste -sd,)" cgroup "$root"
    else
      mount -t cgroup2 cgroup2 "$root"
      # A group that passes its controllers on may hold no process itself.
      mkdir -p "$root/processes"
      echo 1 >"$root/processes/cgroup.procs"
    fi
  done <<<"$hierarchies"
  echo ready
  cat >/dev/null
  exit 0 # bash stays the first process, and reaps what others leave
'
