"""What the benchmarks' commands have alike: where the development data lies, and the closing line.

Owns two options and what is done with them. Never measures.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

DATA_VARIABLE = "POINTSMAN_SHARED_DATA"


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Offer --data, by default what the environment names, else beside the repository."""
    default = Path(os.environ.get(DATA_VARIABLE, "../shared/data"))
    parser.add_argument("--data", type=Path, default=default, help="development data")


def data_path(parser: argparse.ArgumentParser, data: Path, *parts: str) -> Path:
    """Return a file (its name has a suffix) or folder of the data; end the command without it."""
    path = data.joinpath(*parts)
    if not (path.is_file() if path.suffix else path.is_dir()):
        parser.error(f"no {path}; set {DATA_VARIABLE} to the development data")
    return path


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Offer --json, the file that `publish` writes."""
    parser.add_argument("--json", type=Path, help="also write the JSON line here")


def publish(result: dict[str, Any], file: Path | None) -> None:
    """Print a result as one line of JSON, and keep it in the file where one is named."""
    line = json.dumps(result)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(line + "\n")
    print(line)
