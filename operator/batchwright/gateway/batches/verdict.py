"""What it means that the API server doesn't create a BatchJob: something about the batch, about the gateway, or about
the moment. Pure.

Only what is about the batch may end it. A status code alone doesn't say: quota, policy and a missing right are all 403.
"""

import re
from enum import Enum, auto
from http import HTTPStatus
from typing import Final

from batchwright.gateway.records.batch_record import BatchRecord
from batchwright.kube.errors import KubernetesError, NotFound, Unavailable, lacks_right

_ABOUT_THE_OBJECT: Final = re.compile(r'\S+ "[^"]*" is forbidden: ')
_DENIED: Final = re.compile(
    r'admission webhook "[^"]*" denied the request|\S+ "[^"]*" is forbidden: ValidatingAdmissionPolicy '
)
"""A webhook and a policy choose the status code of their refusal."""
_QUOTA_UNKNOWN: Final = "status unknown for quota"
"""Of a ResourceQuota that was made a moment ago, and isn't counted yet."""
_WRONG_OBJECT: Final = frozenset({HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
_PASSING: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.CONFLICT})
"""A token that is being replaced; a quota that another creation was counted in."""


class Verdict(Enum):
    """Why a BatchJob wasn't created."""

    REFUSED = auto()
    """The cluster doesn't want this BatchJob: quota, policy, webhook, schema, no such namespace."""
    NOT_SET_UP = auto()
    """An administrator has to do something: the gateway lacks the right, or the kind isn't installed as it knows it."""
    LATER = auto()
    """The API server is away, or busy: the same creation may succeed a moment later."""


def verdict_on(error: KubernetesError, record: BatchRecord) -> Verdict:
    """Of the creation of a batch's BatchJob that failed."""
    message = error.message
    if error.status == HTTPStatus.NOT_FOUND:
        missing = isinstance(error, NotFound) and f'namespaces "{record.namespace}" not found' in message
        return Verdict.REFUSED if missing else Verdict.NOT_SET_UP
    if isinstance(error, Unavailable) or _QUOTA_UNKNOWN in message:
        return Verdict.LATER
    if _DENIED.match(message) or error.status in _WRONG_OBJECT:
        return Verdict.REFUSED
    if error.status in _PASSING:
        return Verdict.LATER
    forbidden = error.status == HTTPStatus.FORBIDDEN and not lacks_right(error)
    return Verdict.REFUSED if forbidden and _ABOUT_THE_OBJECT.match(message) else Verdict.NOT_SET_UP
