"""What the commands that speak to a server share: its address, and how errors are told.

Exit codes: 4 no server answers; 5 refused; 6 failed or out of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from router.client import (
    DEFAULT_ADDRESS,
    RefusedError,
    RequestError,
    ServerUnavailableError,
    UnexpectedStatusError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")

EXIT_NO_SERVER: Final = 4
EXIT_REFUSED: Final = 5
EXIT_FAILED: Final = 6


def address_options(timeout_s: float) -> Callable[[Command], Command]:
    """Add `--address` and `--timeout` to a command."""

    def decorate(command: Command) -> Command:
        command = click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0, min_open=True),
            default=timeout_s,
            show_default=True,
            help="Seconds the call may take.",
        )(command)
        return click.option(
            "--address",
            default=DEFAULT_ADDRESS,
            show_default=True,
            envvar="POINTSMAN_ADDRESS",
            show_envvar=True,
            help="Where the server listens.",
        )(command)

    return decorate


def tell_error(error: RequestError, address: str) -> NoReturn:
    """Say what went wrong, and exit with its code."""
    if isinstance(error, ServerUnavailableError):
        click.echo(
            f"No server answers at {address}. Start one with: pointsman serve --catalog tools.json",
            err=True,
        )
        raise click.exceptions.Exit(EXIT_NO_SERVER) from error
    if isinstance(error, UnexpectedStatusError):
        click.echo(f"What answers at {address} is no Pointsman server: {error}", err=True)
        raise click.exceptions.Exit(EXIT_NO_SERVER) from error
    refused = isinstance(error, RefusedError)
    click.echo(f"{'Refused' if refused else 'No answer'}: {error}", err=True)
    if isinstance(error, RefusedError) and error.retry_after_s is not None:
        click.echo(f"Try again in {error.retry_after_s:.2f} s.", err=True)
    raise click.exceptions.Exit(EXIT_REFUSED if refused else EXIT_FAILED) from error
