"""The `pointsman` command: one module a subcommand."""
