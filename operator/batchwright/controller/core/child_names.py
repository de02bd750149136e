"""Names of children: DNS labels that differ for every BatchJob that ever was.

A BatchJob's name has up to 253 characters with dots; a Job's name becomes a label value and a host name together with
the pod's index, so it must be a DNS label. Its readable part is cut, and a hash over name and UID keeps two names that
differ at the end, and a BatchJob that was deleted and made anew, apart.
"""

import base64
import hashlib

from batchwright.controller.core.observed import Identity, Stage

MAX_LENGTH = 52
"""63 characters of a DNS label, less the dash and five characters that Kubernetes adds to a pod's name, less room for
the index of up to 1,000 workers."""
_HASH_LENGTH = 10
_LONGEST_SUFFIX = len("-merge-99-9")


def job_name(identity: Identity, stage: Stage, run: int = 0, attempt: int = 1) -> str:
    """The name of a stage's Job: `nightly-eval-7mzqkfxyab-run-1`."""
    parts = [_base(identity), stage.value]
    if stage is not Stage.PLAN:
        parts.append(str(run))
    if attempt > 1:
        parts.append(str(attempt))
    return "-".join(parts)


def config_map_name(identity: Identity) -> str:
    """The name of the workers' ConfigMap."""
    return f"{_base(identity)}-job"


def _base(identity: Identity) -> str:
    readable = identity.name.lower().replace(".", "-")[: MAX_LENGTH - _LONGEST_SUFFIX - _HASH_LENGTH - 1].strip("-")
    digest = hashlib.sha256(f"{identity.name}/{identity.uid}".encode()).digest()
    short = base64.b32encode(digest).decode().lower()[:_HASH_LENGTH]
    return f"{readable}-{short}" if readable else short
