"""`make chaos`: the long form, on the two nodes of this checkout's own cluster, with its report in the documents."""

import argparse
import os
import sys
import time
import uuid
from collections.abc import Sequence
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
    if options.form == "long":
        kubectl("uncordon", SPARE_NODE)
    print(f"again with the same: make chaos ARGS='--seed {options.seed} --form {options.form}'", flush=True)
    result = play(schedule, KUBECONFIG, label, seconds=MOST_SECONDS, tick=1.0, say=lambda text: print(text, flush=True))
    text = report(result, f"make chaos ARGS='--seed {options.seed}'")
    print(text)
    if options.report:
        options.report.write_text(insert(options.report.read_text(), text))
    if not result.violations:
        kubectl("--namespace", NAMESPACE, "delete", "batchjobs", "--selector", f"{LABEL}={label}", "--timeout=100s")
    return 1 if result.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="decides everything but the moments")
    parser.add_argument("--form", choices=sorted(FORMS), default="long", help="long: 20 BatchJobs, two nodes")
    parser.add_argument("--report", type=Path, default=None, help="a document with marks for the report")
    return parser


if __name__ == "__main__":
    sys.exit(main())
