"""What every route of the page works with."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import Request

from batchwright.gateway.context import Gateway
from batchwright.gateway.errors import ApiError
from batchwright.gateway.http.dependencies import admit
from batchwright.gateway.page.assets import Assets
from batchwright.gateway.page.batch_list import Views
from batchwright.gateway.page.page_route import SignInNeeded
from batchwright.gateway.page.run_records import RunRecords
from batchwright.gateway.page.session import Session, session_of
from batchwright.gateway.page.templating import Templates
from batchwright.gateway.principal import Principal, Verb


@dataclass(frozen=True)
class Page:
    """What every route of the page works with. What it keeps is what never changes."""

    gateway: Gateway
    assets: Assets
    templates: Templates
    views: Views
    runs: RunRecords

    def asking(self, verb: Verb) -> Callable[[Request], Principal]:
        """A dependency that gives who asks, as the API's does from headers. Raises SignInNeeded and ApiError."""

        def principal(request: Request) -> Principal:
            session = session_of(request)
            if session is None:
                raise SignInNeeded
            return admit(self.gateway, request, self.identify(session), verb)

        return principal

    def identify(self, session: Session) -> Principal:
        """Who has a session. Raises SignInNeeded for a key that is not known, ApiError."""
        try:
            return self.gateway.authenticator.authenticate(session.headers)
        except ApiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise SignInNeeded from error
            raise
