"""Load on a running server, and an audit of what became of every single request.

Owns scenarios, the client's own ledger, and the verdicts over it. Sees the server from outside
alone: through its gRPC interface, its log, its exit code and its memory.
"""
