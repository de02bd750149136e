"""Why a BatchJob wasn't created, by what API servers say. `tests/integration/gateway/batches/test_refusals.py` has the
same from a real one.
"""

import pytest

from batchwright.gateway.batches.verdict import Verdict, verdict_on
from batchwright.kube.errors import Unavailable, error_of
from fixtures.batch_records import record

JOB = 'batchjobs.batchwright.dev "batch-1"'
USER = 'User "system:serviceaccount:batchwright-system:batchwright-gateway"'

ANSWERS: dict[str, tuple[int, str, Verdict]] = {
    "quota": (403, f"{JOB} is forbidden: exceeded quota: q, requested: count/batchjobs=1", Verdict.REFUSED),
    "quota that isn't counted yet": (403, f"{JOB} is forbidden: status unknown for quota: q", Verdict.LATER),
    "policy": (
        422,
        f"{JOB} is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no",
        Verdict.REFUSED,
    ),
    "policy that answers as if nobody had signed in": (
        401,
        f"{JOB} is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no",
        Verdict.REFUSED,
    ),
    "webhook": (403, 'admission webhook "check.example.com" denied the request: no', Verdict.REFUSED),
    "webhook with a code of its own": (400, 'admission webhook "c" denied the request: no', Verdict.REFUSED),
    "webhook that can't be called": (500, 'failed calling webhook "check.example.com"', Verdict.LATER),
    "schema": (422, 'BatchJob.batchwright.dev "batch-1" is invalid: spec: Invalid value', Verdict.REFUSED),
    "too large": (413, "Request entity too large: limit is 3145728", Verdict.REFUSED),
    "namespace that ends": (403, f"{JOB} is forbidden: unable to create new content in namespace", Verdict.REFUSED),
    "no namespace": (404, 'namespaces "team-a" not found', Verdict.REFUSED),
    "no right": (
        403,
        f'batchjobs.batchwright.dev is forbidden: {USER} cannot create resource "batchjobs" in API group'
        ' "batchwright.dev" in the namespace "team-a"',
        Verdict.NOT_SET_UP,
    ),
    "a proxy's page": (403, "<html>Forbidden</html>", Verdict.NOT_SET_UP),
    "no such kind": (404, "404 page not found", Verdict.NOT_SET_UP),
    "no such kind, in other words": (404, "the server could not find the requested resource", Verdict.NOT_SET_UP),
    "another version of the kind": (400, "BatchJob in version v1 cannot be handled as a BatchJob", Verdict.NOT_SET_UP),
    "old token": (401, "Unauthorized", Verdict.LATER),
    "quota counted meanwhile": (409, 'Operation cannot be fulfilled on resourcequotas "q"', Verdict.LATER),
    "busy": (429, "too many requests", Verdict.LATER),
    "away": (503, "no", Verdict.LATER),
}


@pytest.mark.parametrize(("status", "message", "verdict"), ANSWERS.values(), ids=list(ANSWERS))
def test_what_an_answer_means(status: int, message: str, verdict: Verdict) -> None:
    assert verdict_on(error_of(status, message), record()) is verdict


def test_no_answer_may_be_one_later() -> None:
    assert verdict_on(Unavailable("no answer from the API server"), record()) is Verdict.LATER


def test_the_name_of_a_namespace_in_other_words_is_not_the_namespace() -> None:
    error = error_of(404, "the server could not find the requested resource")

    assert verdict_on(error, record(namespace="server")) is Verdict.NOT_SET_UP
