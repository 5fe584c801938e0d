"""What the commands that speak to a server share: how it is reached, and how errors are told.

Exit codes: 2 wrong usage; 4 no server answers; 5 refused; 6 failed or out of time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from router.client import (
    DEFAULT_ADDRESS,
    Client,
    ClientConfig,
    ClientTls,
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
TOKEN_VARIABLE: Final = "POINTSMAN_TOKEN"  # noqa: S105  (a variable's name)

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def address_options(timeout_s: float) -> Callable[[Command], Command]:
    """Add what says how a server is reached; the command hands all of it to `connect`."""

    def decorate(command: Command) -> Command:
        for option in (
            click.option(
                "--token-file", type=_FILE,
                help=f"File that holds this client's token.  [default: ${TOKEN_VARIABLE}]",
            ),
            click.option("--key", type=_FILE, help="This client's private key (mTLS)."),
            click.option("--cert", type=_FILE, help="This client's certificate (mTLS)."),
            click.option("--ca", type=_FILE, help="Roots of the server's certificate (TLS)."),
            click.option("--tls", is_flag=True, help="Call by TLS, with the system's roots."),
            click.option(
                "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True),
                default=timeout_s, show_default=True, help="Seconds the call may take.",
            ),
            click.option(
                "--address", default=DEFAULT_ADDRESS, show_default=True,
                envvar="POINTSMAN_ADDRESS", show_envvar=True,
                help="Where the server listens: HOST:PORT or unix:PATH.",
            ),
        ):  # fmt: skip
            command = option(command)
        return command

    return decorate


def connect(
    address: str,
    *,
    tls: bool,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    token_file: Path | None,
) -> Client:
    """Return a client for the options of `address_options`; raises click.UsageError."""
    config = client_config(tls=tls, ca=ca, cert=cert, key=key, token_file=token_file)
    try:
        return Client(address, config)
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def client_config(
    *,
    tls: bool,
    ca: Path | None,
    cert: Path | None,
    key: Path | None,
    token_file: Path | None,
) -> ClientConfig:
    """Return how a server is reached by the options of `address_options`.

    Raises:
        click.UsageError: they contradict one another, or a file can't be read.

    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    try:
        if token_file is not None:
            token = token_file.read_text(encoding="utf-8")
        return ClientConfig(
            token=token.strip(),
            tls=ClientTls(ca, cert, key) if tls or ca or cert or key else None,
        )
    except (OSError, ValueError) as error:
        hint = " (--cert with --key)" if "certificate and key" in str(error) else ""
        raise click.UsageError(f"{error}{hint}") from error


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
