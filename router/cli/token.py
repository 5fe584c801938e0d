"""`pointsman token`: a new token and what a clients file holds of it."""

from __future__ import annotations

import json
import re
from typing import Final

import click

from router.service.policies import ClientsFileError, check_client_name, new_token

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@click.command("token")
@click.argument("name", default="NAME")
def token(name: str) -> None:
    """Make a token for client NAME: 256 random bits, printed once and kept nowhere.

    The clients file of `pointsman serve --clients FILE` holds its SHA-256 alone.
    """
    try:
        check_client_name(name)
    except ClientsFileError as error:
        raise click.UsageError(ascii(str(error))[1:-1]) from error
    key = name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    made, digest = new_token()
    click.echo(f"token, for the client (shown only now): {made}")
    click.echo(f'\nfor the clients file:\n\n[clients.{key}]\ntoken_sha256 = "{digest}"')
