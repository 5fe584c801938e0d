"""The engine process: its wire, its loop, and the supervisor that keeps one alive.

Nothing here imports gRPC: the engine is spawned before gRPC is, and never holds a socket.
"""
