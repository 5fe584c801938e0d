"""The name grammar: which token strings are an answer.

Owns the spelling of names in a model's tokens and the radix trie over them. Never runs a model:
the trie is plain arrays that the decoder walks.
"""

from catalog_compiler.grammar.build import NameGrammar, build_name_grammar, build_name_trie
from catalog_compiler.grammar.placement import NONE_TEXTS, Placement, chat_placement
from catalog_compiler.grammar.spelling import Refusal, Speller, Spelling
from catalog_compiler.grammar.trie import NONE_LEAF, TRIE_ARRAYS, NameTrie, trie_from_sequences

__all__ = [
    "NONE_LEAF",
    "NONE_TEXTS",
    "TRIE_ARRAYS",
    "NameGrammar",
    "NameTrie",
    "Placement",
    "Refusal",
    "Speller",
    "Spelling",
    "build_name_grammar",
    "build_name_trie",
    "chat_placement",
    "trie_from_sequences",
]
