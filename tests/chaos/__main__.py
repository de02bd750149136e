"""`make chaos`: the long form, on the two nodes of this checkout's own cluster, with its report in the documents."""

import argparse
import os
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from hack.cluster import kind
from hack.quickstart import kubectl

from chaos.cluster_world import LABEL, NAMESPACE, ROOT
from chaos.report import insert, report
from chaos.round import play
from chaos.schedule import LONG, SHORT, make_schedule

KUBECONFIG = ROOT / ".cluster" / "kubeconfig"
FORMS = {"long": LONG, "short": SHORT}
SPARE_NODE = "node-2"
MOST_SECONDS = 3000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one round; 1 where something was wrong."""
    options = _parser().parse_args(arguments)
    if not KUBECONFIG.exists() or kind.exists():
        print("chaos is for the cluster of `make cluster-up NODES=2`, and for no other one", file=sys.stderr)
        return 2
    # Whatever cluster the caller's shell is set to: this one alone is killed.
    os.environ["KUBECONFIG"] = str(KUBECONFIG)
    label = uuid.uuid4().hex[:6]
    schedule = make_schedule(options.seed, FORMS[options.form], f"chaos-{label}")
    print(f"again with the same: make chaos ARGS='--seed {options.seed} --form {options.form}'", flush=True)
    with _second_node() if options.form == "long" else nullcontext():
        result = play(schedule, KUBECONFIG, label, seconds=MOST_SECONDS, tick=1.0, say=_say)
    text = report(result, f"make chaos ARGS='--seed {options.seed}'")
    print(text)
    if options.report:
        options.report.write_text(insert(options.report.read_text(), text))
    if result.violations:
        return 1
    kubectl("--namespace", NAMESPACE, "delete", "batchjobs", "--selector", f"{LABEL}={label}", "--timeout=100s")
    spared = set(FORMS[options.form].kills) - {kill.target for kill in result.history.kills}
    if spared:
        print(f"nothing was wrong, but {', '.join(sorted(spared))} was never killed", file=sys.stderr)
        return 1
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def _second_node() -> Iterator[None]:
    """The node that may be lost, open to workers meanwhile. What must not be lost with it was deployed before."""
    lasting = "--selector=app.kubernetes.io/name in (model-server, s3)"
    there = ("get", "pods", lasting, "--field-selector", f"spec.nodeName={SPARE_NODE}", "-o", "name")
    pods = kubectl("--namespace", NAMESPACE, *there)
    if pods:
        raise SystemExit(f"{pods.split()} would be lost with {SPARE_NODE}: cordon it and deploy the quickstart anew")
    kubectl("uncordon", SPARE_NODE)
    try:
        yield
    finally:
        kubectl("cordon", SPARE_NODE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="decides everything but the moments")
    parser.add_argument("--form", choices=sorted(FORMS), default="long", help="long: 20 BatchJobs, two nodes")
    parser.add_argument("--report", type=Path, default=None, help="a document with marks for the report")
    return parser


if __name__ == "__main__":
    sys.exit(main())
