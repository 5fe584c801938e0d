"""`pointsman token`: a new token and what a clients file holds of it."""

from __future__ import annotations

import click

from router.service.policies import new_token


@click.command("token")
@click.argument("name", default="NAME")
def token(name: str) -> None:
    """Make a token for client NAME: 256 random bits, printed once and kept nowhere.

    The clients file of `pointsman serve --clients FILE` holds its SHA-256 alone.
    """
    made, digest = new_token()
    click.echo(f"token, for the client (shown only now): {made}")
    click.echo(f'\nfor the clients file:\n\n[clients.{name}]\ntoken_sha256 = "{digest}"')
