"""The options by which `pointsman serve` is watched, and what they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from router.service import log
from router.service.observing import GRPC, PROTOCOLS, ObservingConfig, TracesConfig
from router.service.scrape import DEFAULT_HOST, ScrapeConfig

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")


def observing_options(command: Command) -> Command:
    """Add the options to a command, which gets `log_format` and `observing`'s four arguments."""
    for option in reversed(
        (
            click.option(
                "--log-format",
                type=click.Choice(log.FORMATS),
                default=log.AUTO,
                show_default=True,
                help="`auto` is text on a terminal, else one JSON object a line.",
            ),
            click.option(
                "--metrics-port",
                type=click.IntRange(0, 65535),
                help="Hand out Prometheus metrics at /metrics on this port; off by default.",
            ),
            click.option("--metrics-host", default=DEFAULT_HOST, show_default=True),
            click.option(
                "--otlp-endpoint",
                metavar="URL",
                help="Send OpenTelemetry traces to this collector; off by default.",
            ),
            click.option(
                "--otlp-protocol", type=click.Choice(PROTOCOLS), default=GRPC, show_default=True
            ),
        )
    ):
        command = option(command)
    return command


def observing(
    metrics_port: int | None, metrics_host: str, otlp_endpoint: str | None, otlp_protocol: str
) -> ObservingConfig:
    """Return what is asked for; raises click.UsageError for what can't work."""
    try:
        return ObservingConfig(
            metrics=None if metrics_port is None else ScrapeConfig(metrics_port, metrics_host),
            traces=None if otlp_endpoint is None else TracesConfig(otlp_endpoint, otlp_protocol),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
