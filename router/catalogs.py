"""Compiled catalogs made ready for routing.

Owns what a catalog needs beside its file once it is in the engine process: indices, the prompt
writer, the way between tools and leaves, and who is allowed what. Never compiles and never routes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from catalog_compiler.artifact import open_artifact
from decoder.trie import Trie
from router.jobs import NothingAllowedError, NothingVisibleError
from router.prompt import PromptWriter
from router.retrieval.extras import extras_key
from router.retrieval.shortlist import Retriever

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from catalog_compiler.artifact import CompiledCatalog
    from catalog_compiler.model import Tool
    from decoder.tokenizer import LoadedTokenizer
    from router.jobs import AllowRule
    from router.prompt import PromptConfig
    from router.retrieval.semantic import Embedder


VISIBLE_KEPT = 256
"""Most clients' rules whose masks a catalog keeps."""


class CatalogMismatchError(ValueError):
    """A compiled catalog does not belong to the model, or contradicts itself."""


@dataclass(frozen=True, slots=True)
class LoadedCatalog:
    """One catalog, ready for routing. Immutable; many routes may hold it at once.

    Attributes:
        digest: of the compiled file; what jobs name it by.
        tools: sorted by routed name.
        retriever: its indices.
        trie: the name grammar as the decoder takes it.
        leaf_tool: (leaves,) int32, the tool of every leaf; -1 is "no tool fits".
        tool_leaf: (tools,) int32, the leaf of every tool.
        none_leaf: the leaf of "no tool fits".
        writer: writes prompts for this catalog's placement.
        named: routed name or alias -> tool indices, (n,) int64 like the next two.
        spaces: namespace -> tool indices.
        tagged: tag -> tool indices.
        visible_masks: what `allowed_mask` has made of clients' rules, the latest of them.

    """

    digest: str
    tools: tuple[Tool, ...]
    retriever: Retriever
    trie: Trie
    leaf_tool: npt.NDArray[np.int32]
    tool_leaf: npt.NDArray[np.int32]
    none_leaf: int
    writer: PromptWriter
    named: Mapping[str, npt.NDArray[np.int64]]
    spaces: Mapping[str, npt.NDArray[np.int64]]
    tagged: Mapping[str, npt.NDArray[np.int64]]
    visible_masks: dict[AllowRule, npt.NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        path: Path,
        tokenizer: LoadedTokenizer,
        embedder: Embedder,
        encoder_digest: str,
        config: PromptConfig | None = None,
    ) -> LoadedCatalog:
        """Open a compiled file and make it ready (see `from_compiled`).

        Raises:
            ArtifactError: the file is foreign, truncated, altered or newer than this program.
            CatalogMismatchError: it was compiled for another tokenizer.

        """
        return cls.from_compiled(
            open_artifact(path), tokenizer, embedder, encoder_digest, config=config
        )

    @classmethod
    def from_compiled(
        cls,
        compiled: CompiledCatalog,
        tokenizer: LoadedTokenizer,
        embedder: Embedder,
        encoder_digest: str,
        *,
        config: PromptConfig | None = None,
    ) -> LoadedCatalog:
        """Make a compiled catalog ready for routing.

        The indices it carries are used where this encoder made them, else they are built here.

        Raises:
            CatalogMismatchError: it was compiled for another tokenizer, or its indices are broken.
            PromptError: the model's chat template cannot be used.

        """
        if compiled.tokenizer_digest != tokenizer.digest:
            raise CatalogMismatchError(
                f"catalog {compiled.digest} was compiled for tokenizer "
                f"{compiled.tokenizer_digest}, and the model has {tokenizer.digest}; "
                "compile it anew for this model"
            )
        try:
            if compiled.extras_key == extras_key(encoder_digest):
                retriever = Retriever.from_arrays(compiled.tools, compiled.extras)
            else:
                retriever = Retriever.build(compiled.tools, embedder)
        except ValueError as error:
            raise CatalogMismatchError(
                f"catalog {compiled.digest}: {error}; compile it anew"
            ) from error
        arrays = compiled.trie.to_arrays()
        leaf_tool = arrays.pop("leaf_tool")
        return cls.assemble(
            digest=compiled.digest,
            tools=compiled.tools,
            retriever=retriever,
            trie=Trie(**arrays),
            leaf_tool=leaf_tool,
            writer=PromptWriter(
                tokenizer.tokenizer,
                tokenizer.chat_template,
                answer_prefix=compiled.placement.prefix,
                none_text=compiled.placement.none_text,
                bos=tokenizer.bos,
                config=config,
            ),
        )

    @classmethod
    def assemble(
        cls,
        *,
        digest: str,
        tools: tuple[Tool, ...],
        retriever: Retriever,
        trie: Trie,
        leaf_tool: npt.NDArray[np.int32],
        writer: PromptWriter,
    ) -> LoadedCatalog:
        """Join the parts and index what routing looks up.

        Raises:
            CatalogMismatchError: the leaves are not the tools and one "no tool fits", each once.

        """
        leaves = leaf_tool.tolist()
        if sorted(leaves) != [-1, *range(len(tools))] or trie.leaves != len(leaves):
            raise CatalogMismatchError(
                f"catalog {digest}: its name grammar has {len(leaves)} leaves that are not its "
                f'{len(tools)} tools and "no tool fits", each once; compile it anew'
            )
        tool_leaf = np.empty(len(tools), dtype=np.int32)
        for leaf, tool in enumerate(leaves):
            if tool >= 0:
                tool_leaf[tool] = leaf
        return cls(
            digest=digest,
            tools=tools,
            retriever=retriever,
            trie=trie,
            leaf_tool=leaf_tool,
            tool_leaf=tool_leaf,
            none_leaf=leaves.index(-1),
            writer=writer,
            named=_grouped([(tool.name, *tool.aliases) for tool in tools]),
            spaces=_grouped([(tool.namespace,) for tool in tools]),
            tagged=_grouped([tool.tags for tool in tools]),
        )

    def allowed_mask(
        self, rule: AllowRule | None, visible: AllowRule | None = None
    ) -> npt.NDArray[np.bool_] | None:
        """Return (tools,) bool of what both rules leave, or None for everything.

        Args:
            rule: what the caller wants.
            visible: what it may be answered with at all.

        Raises:
            NothingAllowedError: `rule` leaves no tool.
            NothingVisibleError: of what it leaves, `visible` leaves none.

        """
        asked = self._mask(rule)
        if asked is not None and not asked.any():
            raise NothingAllowedError(
                f"the allowed subset leaves none of the {len(self.tools)} tools of catalog "
                f"{self.digest}{self._strangers(rule)}; name at least one of them, or send no "
                "subset"
            )
        seen = self._visible_mask(visible)
        if seen is None:
            return asked
        both = seen if asked is None else asked & seen
        if not both.any():
            raise NothingVisibleError(
                f"this client may see none of the tools asked for in catalog {self.digest}; ask "
                "the server's owner"
            )
        return both

    def visible_tools(self, visible: AllowRule | None) -> npt.NDArray[np.int64]:
        """Return the indices of the tools that a rule shows, ascending."""
        mask = self._visible_mask(visible)
        return np.arange(len(self.tools)) if mask is None else np.flatnonzero(mask)

    def _visible_mask(self, visible: AllowRule | None) -> npt.NDArray[np.bool_] | None:
        """Return the mask of a rule that many requests share; (tools,) bool, never to be changed.

        Kept, since there are as many such rules as clients and each holds for all its requests.
        """
        if visible is None or not visible.restricts:
            return None
        kept = self.visible_masks.get(visible)
        if kept is None:
            while len(self.visible_masks) >= VISIBLE_KEPT:
                del self.visible_masks[next(iter(self.visible_masks))]
            kept = self._mask(visible)
            assert kept is not None
            self.visible_masks[visible] = kept
        return kept

    def _mask(self, rule: AllowRule | None) -> npt.NDArray[np.bool_] | None:
        if rule is None or not rule.restricts:
            return None
        mask = np.ones(len(self.tools), dtype=bool)
        for entries, table in self._tables(rule):
            if entries:
                passing = np.zeros(len(self.tools), dtype=bool)
                for entry in set(entries):
                    found = table.get(entry)
                    if found is not None:
                        passing[found] = True
                mask &= passing
        return mask

    def _tables(
        self, rule: AllowRule
    ) -> tuple[tuple[tuple[str, ...], Mapping[str, npt.NDArray[np.int64]]], ...]:
        return (
            (rule.names, self.named),
            (rule.namespaces, self.spaces),
            (rule.tags, self.tagged),
        )

    def _strangers(self, rule: AllowRule | None) -> str:
        """Name some entries that match nothing here, which is mostly why nothing is left."""
        if rule is None:
            return ""
        unknown = [e for entries, table in self._tables(rule) for e in entries if e not in table]
        if not unknown:
            return ", since no tool passes all its lists"
        shown = ", ".join(repr(entry[:80]) for entry in unknown[:3])
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        return f", which knows no {shown}{more}"

    def leaf_mask(self, tools: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return (leaves,) bool: the leaves of these tools and of "no tool fits"."""
        mask = np.zeros(len(self.leaf_tool), dtype=bool)
        mask[self.tool_leaf[tools]] = True
        mask[self.none_leaf] = True
        return mask


def _grouped(labels: list[tuple[str, ...]]) -> dict[str, npt.NDArray[np.int64]]:
    groups: dict[str, list[int]] = {}
    for index, tool_labels in enumerate(labels):
        for label in dict.fromkeys(tool_labels):
            groups.setdefault(label, []).append(index)
    return {label: np.array(indices, np.int64) for label, indices in groups.items()}
