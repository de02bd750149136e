#!/usr/bin/env python3
"""Write what is generated from the models: the CRD and the API reference. `--check` fails when one is stale."""

import sys
from pathlib import Path

import yaml

from batchwright.api.crd import custom_resource_definition

ROOT = Path(__file__).parent.parent
HEADER = "# Generated from operator/batchwright/api by `make generate`: don't edit.\n"


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that stands in several places in each of them, without YAML anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def generated() -> dict[Path, str]:
    """Each generated file and its text."""
    crd = yaml.dump(custom_resource_definition(), Dumper=_PlainDumper, sort_keys=False, width=110, allow_unicode=True)
    return {ROOT / "crds" / "batchjobs.yaml": HEADER + crd}


def main() -> int:
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not current: run `make generate` and commit it", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(generated()[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
