"""Reading a BatchJob's manifest for a local run."""

import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from batchwright.api.batchjob import BatchJob, Storage


class ManifestError(Exception):
    """The manifest can't be used; the message names the place and the reason."""


def read_manifest(path: Path) -> BatchJob:
    """The BatchJob in a YAML file; `-` is standard input.

    Raises:
        ManifestError: the file can't be read, is no YAML, or is no valid BatchJob.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"{path} is not YAML: {error}") from error
    jobs = [document for document in documents if isinstance(document, dict) and document.get("kind") == "BatchJob"]
    if len(jobs) != 1:
        raise ManifestError(f"{path} holds {len(jobs)} BatchJobs: give a file with one")
    return _validate(path, jobs[0])


def _validate(path: Path, document: dict[str, Any]) -> BatchJob:
    try:
        return BatchJob.model_validate(document)
    except ValidationError as error:
        problems = (
            f"{'.'.join(str(step) for step in problem['loc']) or 'BatchJob'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise ManifestError(f"{path} is no valid BatchJob:\n  " + "\n  ".join(problems)) from error


def with_endpoint_url(job: BatchJob, endpoint_url: str) -> BatchJob:
    """The job with another S3 endpoint, wherever the manifest names one."""

    def moved(storage: Storage | None) -> Storage:
        return (storage or Storage()).model_copy(update={"endpoint_url": endpoint_url})

    spec = job.spec
    changes: dict[str, Any] = {"storage": moved(spec.storage)}
    if spec.input.storage is not None:
        changes["input"] = spec.input.model_copy(update={"storage": moved(spec.input.storage)})
    if spec.output.storage is not None:
        changes["output"] = spec.output.model_copy(update={"storage": moved(spec.output.storage)})
    return job.model_copy(update={"spec": spec.model_copy(update=changes)})
