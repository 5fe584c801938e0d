"""Finding the few tools of a catalog that a request may mean, without the language model.

Owns words and terms, the lexical (BM25) index, the sentence-embedding index, exact names and the
shortlist. Every score is exact (integers) or summed in a stated order, so that a subset, a batch
or a thread count never changes a bit. Never ranks the final answer: that is `router.scoring`.
"""
