"""Names of children: valid DNS labels, different for every BatchJob that ever was."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.controller.core import child_names
from batchwright.controller.core.observed import Identity, Stage
from builders import IDENTITY

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LONGEST_INDEX = "-999"

names = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?){0,9}\Z")


def all_names(identity: Identity) -> set[str]:
    return {
        child_names.config_map_name(identity),
        *(child_names.job_name(identity, Stage.PLAN, 0, attempt) for attempt in (1, 2, 3)),
        *(child_names.job_name(identity, Stage.RUN, run) for run in (1, 4)),
        *(child_names.job_name(identity, Stage.MERGE, run, attempt) for run in (1, 4) for attempt in (1, 3)),
    }


@given(names, st.uuids())
def test_every_name_is_a_dns_label_with_room_for_an_index(name: str, uid: object) -> None:
    for child in all_names(replace(IDENTITY, name=name, uid=str(uid))):
        assert DNS_LABEL.fullmatch(child), child
        assert len(child) <= child_names.MAX_LENGTH
        assert len(child + LONGEST_INDEX) <= 63


def test_children_of_one_batchjob_differ() -> None:
    assert len(all_names(IDENTITY)) == 10


def test_names_of_253_characters_that_differ_at_the_end_get_different_children() -> None:
    stem = "a" * 250
    first, second = (replace(IDENTITY, name=f"{stem}.{end}", uid="same") for end in ("aa", "ab"))
    assert not all_names(first) & all_names(second)


def test_a_batchjob_made_anew_gets_different_children() -> None:
    assert not all_names(IDENTITY) & all_names(replace(IDENTITY, uid="another"))


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("nightly-eval", "nightly-eval-"),
        ("v1.2", "v1-2-"),
        ("a" * 30 + "-b", "a" * 30 + "-"),
        ("0", "0-"),
    ],
)
def test_the_readable_part_is_the_name_as_far_as_it_fits(name: str, begin: str) -> None:
    assert child_names.job_name(replace(IDENTITY, name=name), Stage.PLAN).startswith(begin)
