"""Clients of the router: typed answers, typed errors, deadlines and honest retries.

    with Client("127.0.0.1:50551") as client:
        answer = client.route("What's the weather in Lisbon?", k=3)
        print(answer.tool, answer.probability)

`AsyncClient` is the same for asyncio.
"""

from router.client.aio import AsyncClient
from router.client.arguments import Arguments
from router.client.blocking import Client
from router.client.config import DEFAULT_ADDRESS, ClientConfig
from router.client.connection import ClientTls, ExposedTokenError
from router.client.errors import (
    ExpiredError,
    FailedError,
    PointsmanError,
    RefusedError,
    RequestError,
    ServerUnavailableError,
    UnexpectedStatusError,
)
from router.client.results import (
    Accounts,
    Candidate,
    CatalogInfo,
    CatalogPage,
    ClientCounts,
    CompiledCatalog,
    Diagnostic,
    RouteAnswer,
    RouteQuery,
    ServerStats,
    Timings,
    ToolSummary,
    Usage,
)

__all__ = [
    "DEFAULT_ADDRESS",
    "Accounts",
    "Arguments",
    "AsyncClient",
    "Candidate",
    "CatalogInfo",
    "CatalogPage",
    "Client",
    "ClientConfig",
    "ClientCounts",
    "ClientTls",
    "CompiledCatalog",
    "Diagnostic",
    "ExpiredError",
    "ExposedTokenError",
    "FailedError",
    "PointsmanError",
    "RefusedError",
    "RequestError",
    "RouteAnswer",
    "RouteQuery",
    "ServerStats",
    "ServerUnavailableError",
    "Timings",
    "ToolSummary",
    "UnexpectedStatusError",
    "Usage",
]
