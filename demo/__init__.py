"""The demo: real servers and real functions compiled, served and asked; run by `make demo`."""
