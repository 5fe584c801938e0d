"""A small language model that can only walk a grammar.

Owns: model definitions, integer-exact numerics, kernels, KV storage, the batch scheduler and
the walk over plain trie arrays. Never imports the router or the catalog compiler.
"""

import os

# Threads that wait by spinning hold the cores that the others need as soon as anything else runs
# on the machine: a pass then takes a hundred times as long. The OpenMP runtime reads this once,
# when it is loaded, so it is set before any module of this package can load it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Not spinning at all costs as much where nothing else runs: waking a thread takes longer than most
# of the regions it is woken for. A short spin, some tens of microseconds, then sleep.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")
# NumPy's own threads spin for some tens of milliseconds after each product, on the core that the
# next pass needs: a route then takes twice as long. Nothing here gains from them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
