"""Why work doesn't start, and what a person reads about it."""

from datetime import datetime, timedelta

import pytest

from batchwright.api.conditions import Reason
from batchwright.controller.core import blockers
from batchwright.controller.core.blockers import Blocker
from batchwright.controller.core.observed import Observed, Occurrence
from batchwright.controller.settings import Settings
from builders import NOW, BatchJobBuilder, JobBuilder, ago, batchjob, job
from fixtures.reconciling import status_of

POD = "uid-plan-0-1-pod-0"
PLAN = job("plan")


def blocker_of(builder: BatchJobBuilder) -> Blocker | None:
    observed: Observed = builder.build()
    return blockers.not_starting(observed, observed.jobs[0])


def mount_failure(volume: str, detail: str) -> BatchJobBuilder:
    message = f'MountVolume.SetUp failed for volume "{volume}" : {detail}'
    return batchjob().with_job(PLAN.waiting_pod("ContainerCreating")).with_event(POD, "FailedMount", message)


def test_a_missing_secret_is_named_with_its_namespace_its_field_and_the_remedy() -> None:
    blocker = blocker_of(mount_failure("batchwright-storage-input", 'secret "s3-credentials" not found'))
    assert blocker is not None
    assert blocker.reason is Reason.SECRET_MISSING
    for part in (
        "Secret 's3-credentials' is missing in namespace 'demo'",
        "spec.storage.credentialsSecretRef",
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        "kubectl -n demo create secret generic s3-credentials",
    ):
        assert part in blocker.message


def test_a_missing_key_is_named() -> None:
    blocker = blocker_of(
        mount_failure("batchwright-storage-output", "references non-existent secret key: AWS_SECRET_ACCESS_KEY")
    )
    assert blocker is not None
    assert blocker.reason is Reason.SECRET_MISSING
    assert "Secret 's3-credentials' in namespace 'demo' has no key 'AWS_SECRET_ACCESS_KEY'" in blocker.message


@pytest.mark.parametrize(
    ("detail", "found"),
    [
        ('configmap "corporate" not found', "ConfigMap 'corporate' is missing"),
        ("references non-existent config key: ca.crt", "ConfigMap 'corporate' in namespace 'demo' has no key 'ca.crt'"),
    ],
)
def test_a_missing_bundle_of_certificates_is_named(detail: str, found: str) -> None:
    builder = mount_failure("batchwright-ca-server", detail).with_spec(
        server={"url": "https://s", "caBundleConfigMapRef": {"name": "corporate"}}
    )
    blocker = blocker_of(builder)
    assert blocker is not None
    assert blocker.reason is Reason.CONFIG_MAP_MISSING
    assert found in blocker.message
    assert "spec.server.caBundleConfigMapRef" in blocker.message


@pytest.mark.parametrize(
    ("waiting", "message", "reason", "part"),
    [
        ("ImagePullBackOff", "Back-off pulling image", Reason.PODS_NOT_STARTING, "Back-off pulling image"),
        ("ErrImageNeverPull", "not present", Reason.PODS_NOT_STARTING, "ErrImageNeverPull"),
        ("CreateContainerError", "no command", Reason.PODS_NOT_STARTING, "no command"),
        ("CreateContainerConfigError", 'secret "env" not found', Reason.SECRET_MISSING, 'secret "env" not found'),
        (
            "CreateContainerConfigError",
            "couldn't find key token in Secret demo/env",
            Reason.SECRET_MISSING,
            "couldn't find key token in Secret demo/env",
        ),
        ("CreateContainerConfigError", 'configmap "env" not found', Reason.CONFIG_MAP_MISSING, "spec.worker.env"),
        ("CreateContainerConfigError", "something else", Reason.PODS_NOT_STARTING, "something else"),
    ],
)
def test_a_container_that_waits_gives_the_kubelets_message(
    waiting: str, message: str, reason: Reason, part: str
) -> None:
    blocker = blocker_of(batchjob().with_job(PLAN.waiting_pod(waiting, message)))
    assert blocker is not None
    assert blocker.reason is reason
    assert part in blocker.message


def test_an_unschedulable_pod_gives_the_schedulers_message() -> None:
    blocker = blocker_of(batchjob().with_job(PLAN.pod(unschedulable="0/1 nodes are available: Insufficient cpu.")))
    assert blocker is not None
    assert blocker.reason is Reason.PODS_NOT_STARTING
    assert "Insufficient cpu" in blocker.message


@pytest.mark.parametrize(
    ("message", "reason", "part"),
    [
        (
            'Error creating: pods "x" is forbidden: error looking up service account demo/batch:'
            ' serviceaccount "batch" not found',
            Reason.SERVICE_ACCOUNT_MISSING,
            "kubectl -n demo create serviceaccount batch",
        ),
        (
            'Error creating: pods "x" is forbidden: exceeded quota: small, requested: cpu=250m',
            Reason.JOB_REFUSED,
            "exceeded quota: small",
        ),
    ],
)
def test_pods_that_the_job_controller_cannot_create(message: str, reason: Reason, part: str) -> None:
    blocker = blocker_of(batchjob().with_job(PLAN).with_event("uid-plan-0-1", "FailedCreate", message))
    assert blocker is not None
    assert blocker.reason is reason
    assert part in blocker.message


@pytest.mark.parametrize(
    ("pod_age", "since"),
    [(None, ago(minutes=9)), (4, ago(minutes=4))],
    ids=["it was refused from the first time on", "there were pods in between"],
)
def test_a_refusal_that_is_told_again_and_again_is_an_old_one(pod_age: int | None, since: datetime) -> None:
    refused = PLAN.with_(created_at=ago(minutes=10))
    if pod_age is not None:
        refused = refused.ended_pod(code=1, created_at=ago(minutes=pod_age))
    again = Occurrence(refused.view.uid, "FailedCreate", "exceeded quota", NOW, ago(minutes=9))
    blocker = blocker_of(batchjob().with_job(refused).with_(occurrences=(again,)))
    assert blocker is not None
    assert blocker.since == since


@pytest.mark.parametrize(
    "builder",
    [
        PLAN,
        PLAN.waiting_pod("ContainerCreating"),
        PLAN.running_pod(),
        PLAN.running_pod().pod(unschedulable="no room for the second"),
        PLAN.pod(unschedulable="no room").complete(),
        PLAN.pod(unschedulable="no room").with_(suspended=True),
        PLAN.pod(unschedulable="no room", delete_by=NOW),
    ],
    ids=["no pod yet", "creating", "running", "one of two runs", "job is over", "suspended", "going away"],
)
def test_nothing_is_said_where_nothing_stands_still(builder: JobBuilder) -> None:
    assert blocker_of(batchjob().with_job(builder)) is None


def test_an_event_about_another_pod_says_nothing() -> None:
    builder = batchjob().with_job(PLAN.waiting_pod("ContainerCreating"))
    assert blocker_of(builder.with_event("other", "FailedMount", "MountVolume.SetUp failed")) is None


@pytest.mark.parametrize(
    ("reason", "age", "stalled"),
    [
        (Reason.SECRET_MISSING, 10, False),
        (Reason.SECRET_MISSING, 20, True),
        (Reason.PODS_NOT_STARTING, 60, False),
        (Reason.PODS_NOT_STARTING, 130, True),
    ],
)
def test_a_slow_start_is_not_taken_for_a_standstill(reason: Reason, age: int, stalled: bool) -> None:
    blocker = Blocker(reason, "", ago(seconds=age))
    assert (blocker.overdue_at(Settings()) <= NOW) is stalled


def test_the_next_look_is_when_it_becomes_a_standstill() -> None:
    settings = Settings(missing_deadline=timedelta(seconds=15))
    assert blockers.next_look(Blocker(Reason.SECRET_MISSING, "", ago(seconds=12)), NOW, settings) == timedelta(
        seconds=3
    )


@pytest.mark.parametrize(
    ("stage", "builder"),
    [
        ("plan", batchjob().with_job(job("plan").with_(suspended=True))),
        ("run", batchjob().planned().with_job(job("run", 1).with_(suspended=True))),
        ("merge", batchjob().planned().with_job(job("merge", 1).with_(suspended=True))),
        ("merge", batchjob().planned().with_job(job("merge", 1).with_(suspended=True)).cancelled()),
    ],
    ids=["plan", "run", "merge", "closing merge"],
)
def test_a_job_that_somebody_else_has_suspended_is_told(stage: str, builder: BatchJobBuilder) -> None:
    assert f"The {stage} Job waits: it is suspended, and not by Batchwright." in (status_of(builder).message or "")
