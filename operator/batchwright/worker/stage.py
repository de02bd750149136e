"""What every stage works with: the job, the two stores, where things lie, and how the server is reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from batchwright.api import defaults, names
from batchwright.api.batchjob import Storage
from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.api.worker_job import WorkerJob
from batchwright.batchfile.layout import OutputLayout
from batchwright.storage.factory import open_store
from batchwright.storage.location import parse_location
from batchwright.storage.protocol import ObjectStore
from batchwright.storage.settings import StorageSettings
from batchwright.worker.api_key import ApiKey
from batchwright.worker.failures import final
from batchwright.worker.transport.errors import ConnectFailed
from batchwright.worker.transport.opening import open_transport
from batchwright.worker.transport.protocol import Transport
from batchwright.worker.transport.settings import TransportSettings

PRIORITY_HEADER: Final = "X-Vllm-Priority"


@dataclass(frozen=True, slots=True)
class Mounts:
    """Folders that the operator mounts into a pod. A part that isn't there was not asked for by the spec."""

    credentials: Path = Path(names.STORAGE_CREDENTIALS_DIRECTORY)
    certificates: Path = Path(names.CA_DIRECTORY)
    server: Path = Path(names.SERVER_DIRECTORY)
    spool: Path = Path(names.SPOOL_DIRECTORY)

    def credentials_of(self, store: str) -> Path | None:
        """Folder with the credentials of `input` or `output`; None takes the SDK's default chain."""
        return _existing(self.credentials / store)

    def certificates_of(self, peer: str) -> Path | None:
        """PEM file for `server`, `input` or `output`; None takes the public authorities."""
        return _existing(self.certificates / peer / names.CA_FILE)


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


@dataclass(frozen=True, slots=True)
class Stage:
    """The values are resolved once, at the start of a stage."""

    job: WorkerJob
    input_store: ObjectStore
    input_key: str
    output_store: ObjectStore
    layout: OutputLayout
    names: defaults.PublishedNames
    policy: defaults.RequestPolicy
    api_key: ApiKey
    mounts: Mounts

    def transport_settings(self) -> TransportSettings:
        """How the server is reached, with a connection for each request in flight."""
        server = self.job.batchjob.spec.server
        headers: Mapping[str, str] = (server and server.headers) or {}
        if self.policy.priority is not None:
            headers = {**headers, PRIORITY_HEADER: str(self.policy.priority)}
        return TransportSettings(
            base_url=self.job.server_url,
            max_connections=self.policy.max_concurrency,
            headers=headers,
            ca_bundle=self.mounts.certificates_of("server"),
        )


def open_stage(job: WorkerJob, mounts: Mounts) -> Stage:
    """Resolve everything that a stage needs. Nothing is requested yet.

    Raises:
        StorageError: a location or a storage setting can't be used.
    """
    spec = job.batchjob.spec
    source = parse_location(spec.input.uri)
    target = parse_location(spec.output.uri).join(f"{defaults.output_folder(job.batchjob)}/")

    def store(name: str, storage: Storage) -> ObjectStore:
        return open_store(
            source if name == "input" else target,
            StorageSettings.from_spec(storage),
            credentials_dir=mounts.credentials_of(name),
            ca_bundle=mounts.certificates_of(name),
        )

    return Stage(
        job=job,
        input_store=store("input", defaults.input_storage(spec)),
        input_key=source.key,
        output_store=store("output", defaults.output_storage(spec)),
        layout=OutputLayout(target.key),
        names=defaults.published_names(spec.output),
        policy=defaults.request_policy(spec),
        api_key=ApiKey(_existing(mounts.server / names.API_KEY_FILE)),
        mounts=mounts,
    )


def open_server(stage: Stage) -> Transport:
    """The connections to the model server. Call it in the event loop that will run the requests.

    Raises:
        StageFailed: the spec's address, headers or CA bundle can't be used.
    """
    try:
        return open_transport(stage.transport_settings())
    except (ValueError, ConnectFailed) as error:
        message = f"The model server can't be reached as spec.server says: {error}. Correct it."
        raise final(ExitCode.CONFIGURATION_INVALID, Reason.INVALID_SPEC, message) from error
