"""`pointsman serve` over the slow engine: serve_slow.py FOLDER CATALOG SLOTS QUEUE."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAKES = HERE.parent / "router" / "serving"


def main() -> int:
    from router.cli import serve  # noqa: PLC0415  (the engine is spawned before gRPC comes in)
    from router.service import log  # noqa: PLC0415
    from router.service.config import ServiceConfig  # noqa: PLC0415

    folder, catalog, slots, queue = sys.argv[1:]
    log.set_up("info")
    options = serve.ServeOptions(
        catalogs=(("default", Path(catalog)),),
        model=str(Path(folder) / "control"),
        threads=1,
        store=Path(folder) / "store",
        service=ServiceConfig(port=0, slots=int(slots), queue=int(queue)),
        ready_file=Path(folder) / "ready.json",
        engine_command=(sys.executable, str(HERE / "slow_engine.py")),
        compiler_command=(sys.executable, str(FAKES / "fake_compiler.py")),
    )
    return asyncio.run(serve.run(options))


if __name__ == "__main__":
    sys.exit(main())
