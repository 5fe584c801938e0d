"""A compiler process for the service's tests: keeps the words of the content as tool names."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import time
from pathlib import Path

from router.engine import wire
from router.engine.compiler import Compiled, CompileRequest, Finding
from router.engine.process import claim_stdout


def main() -> int:
    replies = claim_stdout()
    message = wire.read_message(sys.stdin.buffer)
    assert message is not None
    request = CompileRequest(**message["request"])
    content = Path(request.folder, request.source).read_bytes()
    if content == b"crash":
        return 1
    while content == b"never":
        time.sleep(0.01)
    if content == b"refused":
        reply = {"op": "refused", "message": "it holds no tool"}
    else:
        digest = hashlib.sha256(content).hexdigest()
        path = Path(request.store) / f"{digest}.catalog"
        path.write_bytes(content)
        finding = Finding("warning", "no-text", "It says nothing.", "Write.", "s", "/0", "a", ())
        error = dataclasses.replace(finding, severity="error", code="bad-tool")
        compiled = Compiled(digest, str(path), len(content.split()), 9, False, (finding, error))
        reply = {"op": "compiled", "compiled": dataclasses.asdict(compiled)}
    for one in ({"op": "stage", "stage": "reading"}, reply):
        replies.write(wire.encode(one))
    replies.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
