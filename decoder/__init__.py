"""A small language model that can only walk a grammar.

Owns: model definitions, integer-exact numerics, kernels, KV storage, the batch scheduler and
the walk over plain trie arrays. Never imports the router or the catalog compiler.
"""
