"""Carrying out a plan."""

from dataclasses import replace
from typing import Any

import pytest

from batchwright.api.conditions import Phase
from batchwright.api.status import BatchJobStatus
from batchwright.controller.apply import Applier, merge_patch
from batchwright.controller.core.observed import Observed, Refusal
from batchwright.controller.core.plan_of_actions import CreateJob, Plan
from batchwright.kube import errors
from builders import IDENTITY, NOW, ago
from fixtures.kubernetes_api import Api


class TestMergePatch:
    @pytest.mark.parametrize(
        ("before", "after", "patch"),
        [
            ({}, {}, {}),
            ({"a": 1}, {"a": 1}, {}),
            ({"a": 1}, {"a": 2}, {"a": 2}),
            ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
            ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, {"a": {"y": None}}),
            ({"a": [1, 2]}, {"a": [2]}, {"a": [2]}),
            ({"a": {"x": 1}}, {"a": [1]}, {"a": [1]}),
            ({}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ],
    )
    def test_only_what_differs_is_sent_and_what_is_gone_is_null(
        self, before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]
    ) -> None:
        assert merge_patch(before, after) == patch


class TestApply:
    OBSERVED = Observed(IDENTITY, None)
    PLAN = Plan(actions=(CreateJob({"kind": "Job", "metadata": {"name": "j"}}),))

    def act(self, error: Exception | None, observed: Observed = OBSERVED) -> tuple[Refusal, ...]:
        api: Any = Api(create_job=error)
        return Applier(api, api).act(observed, self.PLAN, NOW)

    @pytest.mark.parametrize(
        "error", [errors.Refused("exceeded quota", status=403), errors.Unavailable("webhook failed", status=500)]
    )
    def test_a_refused_child_is_told_to_the_next_look(self, error: Exception) -> None:
        (refusal,) = self.act(error)
        assert refusal.child == "Job j in namespace demo"
        assert refusal.since == NOW

    def test_it_is_refused_since_the_first_time(self) -> None:
        known = Refusal("Job j in namespace demo", "before", ago(minutes=5))
        (refusal,) = self.act(errors.Refused("now", status=403), replace(self.OBSERVED, refusals=(known,)))
        assert (refusal.message, refusal.since) == ("now", known.since)

    def test_a_child_that_is_being_deleted_is_no_refusal(self) -> None:
        assert self.act(errors.BeingDeleted("going")) == ()

    def test_no_answer_is_an_error_of_the_pass(self) -> None:
        with pytest.raises(errors.Unavailable):
            self.act(errors.Unavailable("no answer"))

    def test_the_status_is_written_as_a_difference(self) -> None:
        api: Any = Api(patch_status={})
        before = BatchJobStatus(phase=Phase.PENDING, eta="3m")
        Applier(api, api).write_status(
            replace(self.OBSERVED, status=before), "7", BatchJobStatus(phase=Phase.FAILED, message="m")
        )
        ((namespace, name, uid, version, changes),) = api.called("patch_status")
        assert (namespace, name, uid, version) == ("demo", "nightly", IDENTITY.uid, "7")
        assert changes == {"phase": "failed", "message": "m", "eta": None}
