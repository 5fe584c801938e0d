"""Reading model files: GGUF and safetensors directories, both under Hugging Face tensor names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decoder.errors import ModelError
from decoder.loading.checkpoint import Checkpoint
from decoder.loading.gguf_file import read_gguf
from decoder.loading.safetensors_dir import read_safetensors_dir

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Checkpoint", "read_checkpoint"]


def read_checkpoint(path: Path) -> Checkpoint:
    """Open a model: a `.gguf` file, or a directory with config.json and safetensors.

    Raises:
        ModelError: nothing there, or not a model; UnsupportedModelError for what isn't computed.

    """
    if path.is_dir():
        return read_safetensors_dir(path)
    if path.is_file():
        return read_gguf(path)
    raise ModelError(
        f"{path} does not exist; give a directory with config.json and *.safetensors, or a .gguf "
        "file"
    )
