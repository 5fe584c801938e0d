"""`python -m catalog_compiler`: print docs/diagnostics.md from the registry."""

from __future__ import annotations

import sys

from catalog_compiler.findings import REGISTRY


def page() -> str:
    """Return the documentation of every diagnostic, as Markdown."""
    head = (
        "# Diagnostics\n\nMade by `python -m catalog_compiler > docs/diagnostics.md`; a test keeps "
        "it so. An **error** sets the tool or the\nsource aside (with `--strict` it fails the "
        "compilation); the others keep it.\nWhat only compiling can find (names that a tokenizer "
        "can't spell) is in [cli.md](cli.md).\n\n| code | severity | what it means | the mend |\n"
        "|---|---|---|---|\n"
    )
    return head + "".join(
        f"| `{f.code}` | {f.severity} | {f.about} | {f.mend} |\n"
        for f in sorted(REGISTRY.values(), key=lambda f: f.code)
    )


if __name__ == "__main__":
    sys.stdout.write(page())
