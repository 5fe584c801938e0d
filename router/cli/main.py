"""`pointsman`: the command and its subcommands.

Owns the list of subcommands, each imported only when it is used, so that `--help` is at once.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Final

import click

COMMANDS: Final[dict[str, tuple[str, str, str]]] = {
    "catalog": ("router.cli.catalog", "catalog", "Compile, show, compare and check catalogs."),
    "serve": ("router.cli.serve", "serve", "Serve catalogs over gRPC."),
    "route": ("router.cli.route", "route", "Ask a server which tool a request means."),
    "token": ("router.cli.token", "token", "Make a token for a client."),
    "stats": ("router.cli.stats", "stats", "Show a server's counters."),
    "top": ("router.cli.top", "top", "Watch a server."),
    "eval": ("router.cli.evaluate", "evaluate", "Measure how often the right tool is chosen."),
}
"""Name -> module, attribute, short help."""


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of a first use."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(importlib.metadata.version("pointsman"), prog_name="pointsman")
def pointsman() -> None:
    """Pointsman: the right tool out of thousands, for AI agents.

    A new user's way: `pointsman serve --catalog tools.json` in one terminal, and
    `pointsman route "what I want done"` in another.
    """


def main() -> None:
    """Run the command line."""
    pointsman(prog_name="pointsman")


if __name__ == "__main__":
    main()
