"""Probes and metrics: the routes that nobody needs a key for."""

import asyncio

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from batchwright.gateway.context import Gateway
from batchwright.gateway.readiness import check_ready
from batchwright.kube.errors import KubernetesError
from batchwright.storage.errors import StorageError

_READY_SECONDS = 4.0


def router(gateway: Gateway) -> APIRouter:
    """/healthz, /readyz, /metrics."""
    routes = APIRouter(tags=["operations"])

    @routes.get("/healthz", response_class=PlainTextResponse, summary="Whether the process works")
    async def healthz() -> str:
        return "ok"

    @routes.get(
        "/readyz",
        response_class=PlainTextResponse,
        summary="Whether storage and cluster can be reached",
        responses={503: {"description": "One of them can't be reached; the body says which.", "content": {}}},
    )
    async def readyz() -> Response:
        try:
            problem = await asyncio.wait_for(asyncio.to_thread(_problem, gateway), _READY_SECONDS)
        except TimeoutError:
            problem = "storage or cluster did not answer in time"
        return PlainTextResponse(problem or "ok", 503 if problem else 200)

    @routes.get("/metrics", response_class=PlainTextResponse, summary="Metrics for Prometheus")
    def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return routes


def _problem(gateway: Gateway) -> str | None:
    """What is out of reach. Nothing of it is told in detail: anybody may ask."""
    try:
        check_ready(gateway)
    except StorageError:
        return "the storage can't be reached or used"
    try:
        gateway.authenticator.check()
    except KubernetesError:
        return "the Kubernetes API can't be reached or used"
    return None
