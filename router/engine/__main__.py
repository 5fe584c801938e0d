"""`python -m router.engine`: the engine process that is served."""

from __future__ import annotations

import sys

from router.engine.pipeline_backend import make_pipeline_backend
from router.engine.process import run_engine

if __name__ == "__main__":
    sys.exit(run_engine(make_pipeline_backend))
