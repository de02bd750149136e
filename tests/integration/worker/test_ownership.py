"""One BatchJob has an output, on a volume and in a bucket, whether or not the store knows conditional PUT."""

from dataclasses import replace

import msgspec
import pytest

from batchwright.api.conditions import Reason
from batchwright.api.exit_codes import ExitCode
from batchwright.batchfile.owner_record import OwnerRecord
from batchwright.batchfile.plan_record import READABLE_VERSIONS, RecordError, decode_record
from batchwright.worker.failures import StageFailed
from batchwright.worker.ownership import take_output
from fixtures.fault_proxy import FaultProxy, IgnoreConditions, LoseAnswer
from fixtures.s3 import S3Bucket
from fixtures.worker import JobUnderTest, bucket_place, chat_lines
from stub.harness import StubProcess


@pytest.fixture(params=["folder", "bucket", "bucket without conditions"])
def owned(job: JobUnderTest, request: pytest.FixtureRequest) -> JobUnderTest:
    """A good job on each kind of store."""
    if request.param != "folder":
        bucket: S3Bucket = request.getfixturevalue("s3_bucket")
        proxy: FaultProxy = request.getfixturevalue("s3_proxy")
        if request.param == "bucket without conditions":
            proxy.inject("PutObject", IgnoreConditions())
        job = job.at(bucket_place(bucket, proxy.endpoint_url))
    return job.input(chat_lines(2))


def owned_by(
    job: JobUnderTest, cluster: str = "cluster-1", namespace: str = "team", uid: str = "uid-1"
) -> JobUnderTest:
    return replace(job.with_settings(cluster=cluster), metadata={"namespace": namespace, "uid": uid})


def record_uri(job: JobUnderTest) -> str:
    return f"{job.place.output_uri}job/.batchwright/owner.json"


def owner(job: JobUnderTest) -> OwnerRecord:
    return decode_record(job.place.get(record_uri(job)), OwnerRecord)


def test_the_first_one_has_it_and_a_second_attempt_finds_it(owned: JobUnderTest) -> None:
    job = owned_by(owned)
    assert job.plan() == job.plan()
    assert owner(job) == OwnerRecord("cluster-1", "team", "job", "uid-1")


def test_one_that_is_applied_again_takes_over(owned: JobUnderTest) -> None:
    planned = owned_by(owned).plan()
    assert owned_by(owned, uid="uid-2").plan() == planned
    assert owner(owned).uid == "uid-2"


@pytest.mark.parametrize("other", [{"cluster": "cluster-2"}, {"namespace": "others"}, {"cluster": ""}])
def test_another_one_is_refused_and_nothing_is_touched(
    owned: JobUnderTest, stub: StubProcess, other: dict[str, str]
) -> None:
    owned_by(owned).plan()
    before = owner(owned)
    with pytest.raises(StageFailed) as failure:
        owned_by(owned.input(b"{"), **other).plan()
    report = failure.value.report
    assert failure.value.code is ExitCode.STORAGE_REFUSED
    assert (report.reason, report.final) == (Reason.OUTPUT_OWNED_BY_ANOTHER, True)
    assert "BatchJob team/job of the cluster cluster-1" in report.message
    assert record_uri(owned) in report.message
    assert "another output or another name" in report.message
    assert "delete this record" in report.message
    assert owner(owned) == before
    with pytest.raises(KeyError):
        owned.place.get(f"{owned.place.output_uri}job/.batchwright/validation-errors.jsonl")
    assert stub.arrivals().total == 0


def test_another_name_under_the_same_output_is_no_other_owner(owned: JobUnderTest) -> None:
    owned_by(owned).plan()
    replace(owned_by(owned, namespace="others"), name="job-2").plan()


class TestOneFolder:
    """Two BatchJobs of different names that write in the same folder."""

    def test_the_second_one_that_names_it_is_refused(self, owned: JobUnderTest, stub: StubProcess) -> None:
        first = owned_by(owned.with_output(folder="shared"))
        first.plan()
        with pytest.raises(StageFailed) as failure:
            replace(first, name="job-2").plan()
        report = failure.value.report
        assert (report.reason, report.final) == (Reason.OUTPUT_OWNED_BY_ANOTHER, True)
        assert "shared/ is the output of BatchJob team/job of the cluster cluster-1" in report.message
        assert "another output or another folder" in report.message
        assert stub.arrivals().total == 0

    @pytest.mark.parametrize("named_first", [True, False])
    def test_one_that_names_it_and_one_that_has_its_name(self, owned: JobUnderTest, named_first: bool) -> None:
        named = owned_by(replace(owned.with_output(folder="job"), name="job-2"))
        first, second = (named, owned_by(owned)) if named_first else (owned_by(owned), named)
        first.plan()
        with pytest.raises(StageFailed, match=rf"is the output of BatchJob team/{first.name} "):
            second.plan()
        first.plan()

    def test_with_folders_of_their_own_they_dont_meet(self, owned: JobUnderTest) -> None:
        for name in ("job", "job-2"):
            one = owned_by(replace(owned.with_output(folder=f"{name} results"), name=name))
            one.plan()
            owner_of_it = decode_record(one.place.get(f"{one.output_folder}.batchwright/owner.json"), OwnerRecord)
            assert owner_of_it.name == name


def test_a_run_without_a_cluster(job: JobUnderTest) -> None:
    job.input(chat_lines(2)).plan()
    assert owner(job) == OwnerRecord("local", "default", "job")
    with pytest.raises(StageFailed, match=r"default/job of a run without a cluster"):
        owned_by(job).plan()


def test_an_answer_that_gets_lost(job: JobUnderTest, s3_bucket: S3Bucket, s3_proxy: FaultProxy) -> None:
    job = job.at(bucket_place(s3_bucket, s3_proxy.endpoint_url))
    for uid in ("uid-1", "uid-2"):
        s3_proxy.inject("PutObject", LoseAnswer(), times=1)
        take_output(owned_by(job, uid=uid).stage(), exclusive=True)
        assert owner(job).uid == uid


def test_a_record_that_cannot_be_read_is_nobodys_to_replace(job: JobUnderTest) -> None:
    newer = max(READABLE_VERSIONS) + 1
    job.input(chat_lines(2)).place.put(record_uri(job), msgspec.json.encode({"version": newer}))
    with pytest.raises(RecordError, match=rf"owner\.json doesn't tell whose output this is: .* of version {newer}"):
        job.plan()
