"""`pointsman serve` as a process of its own, over the fake engine and the fake compiler.

serve_fake.py PORT CONTROL STORE READY GRACE CATALOG...; the environment's FAKE_METRICS_PORT,
FAKE_COLLECTOR and FAKE_PROTOCOL turn on what watches it, and EXPECT holds digests that are
demanded, as JSON: {"model": ..., "catalogs": {...}}.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    from router.cli import serve  # noqa: PLC0415
    from router.service import log  # noqa: PLC0415
    from router.service.config import ServiceConfig  # noqa: PLC0415
    from router.service.observing import ObservingConfig, TracesConfig  # noqa: PLC0415
    from router.service.scrape import ScrapeConfig  # noqa: PLC0415

    assert "grpc" not in sys.modules, "gRPC is imported before the engine is spawned"
    port, control, store, ready, grace_s, *catalogs = sys.argv[1:]
    log.set_up("info")
    expected = json.loads(os.environ.get("EXPECT", "{}"))
    metrics = os.environ.get("FAKE_METRICS_PORT")
    collector = os.environ.get("FAKE_COLLECTOR")
    options = serve.ServeOptions(
        catalogs=tuple((f"c{i}", Path(path)) for i, path in enumerate(catalogs)),
        model=control,
        threads=1,
        store=Path(store),
        service=ServiceConfig(
            port=int(port),
            slots=2,
            queue=3,
            grace_s=float(grace_s),
            arguments="FAKE_NO_ARGUMENTS" not in os.environ,
        ),
        ready_file=Path(ready),
        expected_model=expected.get("model", ""),
        expected_catalogs=expected.get("catalogs", {}),
        engine_command=(sys.executable, str(HERE / "fake_engine.py")),
        compiler_command=(sys.executable, str(HERE / "fake_compiler.py")),
        observing=ObservingConfig(
            None if metrics is None else ScrapeConfig(int(metrics)),
            None
            if collector is None
            else TracesConfig(collector, os.environ.get("FAKE_PROTOCOL", "grpc")),
        ),
    )
    try:
        return asyncio.run(serve.run(options))
    except serve.CannotServeError as error:
        sys.stderr.write(f"cannot serve: {error}\n")
        return serve.EXIT_CANNOT_SERVE


if __name__ == "__main__":
    sys.exit(main())
