#!/usr/bin/env python3
"""Write what is generated from the models: the CRD and the references. `--check` fails when one is stale."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent.parent))

from hack.gateway_reference import gateway_reference
from hack.pod_parts import spell_out
from hack.reference import reference
from hack.settings_reference import settings_reference

from batchwright.api.crd import custom_resource_definition

ROOT = Path(__file__).parent.parent
HEADER = "# Generated from operator/batchwright/api by `make generate`: don't edit.\n"


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that stands in several places in each of them, without YAML anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def generated() -> Mapping[str, str]:
    """Each generated file, by its path in the repository, and its text."""
    definition = custom_resource_definition()
    crd = yaml.dump(spell_out(definition), Dumper=_PlainDumper, sort_keys=False, width=110, allow_unicode=True)
    return {
        "crds/batchjobs.yaml": HEADER + crd,
        "docs/reference/batchjob.md": reference(definition),
        "docs/reference/settings.md": settings_reference(),
        "docs/reference/gateway.md": gateway_reference(),
    }


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write what is not current below `root`; with `--check`, only name it. The exit code says whether all is well."""
    texts = generated()
    stale = [path for path, text in texts.items() if not _is_current(root / path, text)]
    for path in stale:
        if "--check" in arguments:
            print(f"{path} is not current: run `make generate` and commit it", file=sys.stderr)
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(texts[path], encoding="utf-8")
            print(f"wrote {path}")
    return 1 if stale and "--check" in arguments else 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
