"""A tool's input schema as a grammar of its arguments; `docs/arguments.md` is the map."""
