"""Every diagnostic there is: its code, severity, and the way to mend it.

Owns the registry, so that `docs/diagnostics.md` and the code can't drift apart. Never looks at a
tool.
"""

from __future__ import annotations

from dataclasses import dataclass

from catalog_compiler.model import Diagnostic, Severity

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO


@dataclass(frozen=True, slots=True)
class Finding:
    """A kind of diagnostic.

    Attributes:
        code: stable identifier.
        severity: ERROR sets the tool or source aside.
        about: what it means, for the documentation.
        mend: what the catalog's owner can do.

    """

    code: str
    severity: Severity
    about: str
    mend: str

    def at(
        self,
        source: str,
        pointer: str,
        message: str,
        *,
        tool: str = "",
        related: tuple[str, ...] = (),
    ) -> Diagnostic:
        """Return the diagnostic of this kind at a place."""
        return Diagnostic(
            severity=self.severity,
            code=self.code,
            message=message,
            mend=self.mend,
            source=source,
            pointer=pointer,
            tool=tool,
            related=related,
        )


REGISTRY: dict[str, Finding] = {}


def _new(code: str, severity: Severity, about: str, mend: str) -> Finding:
    finding = Finding(code, severity, about, mend)
    REGISTRY[code] = finding
    return finding


SOURCE_UNREADABLE = _new(
    "source-unreadable", _E, "A file could not be read or is no known tool list.",
    "Check the path, the file's syntax and its format.",
)  # fmt: skip
SERVER_UNREACHABLE = _new(
    "server-unreachable", _E, "A live server did not start, answer or list its tools in time.",
    "Run its command or open its URL by hand, and raise --timeout if it is slow.",
)  # fmt: skip
CURSOR_STUCK = _new(
    "cursor-stuck", _E, "A live server's list does not advance from page to page.",
    "Mend the server's pagination: each nextCursor must be new, and the last page has none.",
)  # fmt: skip
SERVER_DISABLED = _new(
    "server-disabled", _I, "A server is switched off in the configuration.",
    'Remove its "disabled" to have it read.',
)  # fmt: skip
TOO_MANY_TOOLS = _new(
    "too-many-tools", _E, "A source lists more tools than are read.",
    "Split the source; the tools past the bound are not in the catalog.",
)  # fmt: skip
DUPLICATE_KEY = _new(
    "duplicate-key", _W, "An object has the same key twice; the last value is used.",
    "Keep one of the two.",
)  # fmt: skip
NOT_A_NUMBER = _new(
    "not-a-number", _W, "NaN, Infinity or a number beyond binary64, which JSON does not have; "
    "it is read as null.",
    "Write a finite number, or leave the key out.",
)  # fmt: skip
LONE_SURROGATE = _new(
    "lone-surrogate", _W, "Text holds half of a surrogate pair; it is read as U+FFFD.",
    "Write the character itself, or both halves.",
)  # fmt: skip
TOO_DEEP = _new(
    "too-deep", _W, "A value is nested too deeply; it is read as null.",
    "Flatten the value.",
)  # fmt: skip
BAD_LINE = _new(
    "bad-line", _E, "A line of a JSON Lines file is no JSON object.",
    "Mend or remove the line.",
)  # fmt: skip
NOT_A_TOOL = _new(
    "not-a-tool", _E, "An entry is no tool of a known format.",
    "Give it a name and, in the format's own key, a schema.",
)  # fmt: skip
HOSTED_TOOL = _new(
    "hosted-tool", _W, "An entry is a tool that its provider runs itself; it has no name to route.",
    "Nothing to mend: such a tool is switched on at the provider, not called by name.",
)  # fmt: skip
BAD_NAME = _new(
    "bad-name", _E, "A name is missing, empty, too long, not text, or holds control characters.",
    "Give the tool a printable name.",
)  # fmt: skip
UNUSUAL_NAME = _new(
    "unusual-name", _I, "A name has characters outside A-Z a-z 0-9 _ . - or is over 128 long.",
    "Nothing breaks here; some model providers refuse such names.",
)  # fmt: skip
HIDDEN_IN_NAME = _new(
    "hidden-in-name", _W, "A name holds invisible or direction-changing characters.",
    "Remove them: the name can't be told from one without them.",
)  # fmt: skip
RENAMED = _new(
    "name-collision", _W, "Several servers offer a tool of this name; each got its server's name "
    "in front.",
    "Call it by its new name, or rename it at its source.",
)  # fmt: skip
DUPLICATE_TOOL = _new(
    "duplicate-tool", _W, "The same tool is listed twice; it is kept once.",
    "Remove one of the two.",
)  # fmt: skip
CONFLICTING_TOOL = _new(
    "conflicting-tool", _W, "One server lists two different tools under one name; both are kept, "
    "told apart by a digest.",
    "Rename one of the two at its source.",
)  # fmt: skip
HARD_TO_TELL = _new(
    "hard-to-tell-apart", _I, "Two tools are so alike in name and first sentence that requests "
    "for one are easily taken for the other (`catalog lint --deep`).",
    "Begin each description with what only this tool does, in words that a request would use.",
)  # fmt: skip
LOOK_ALIKE = _new(
    "look-alike-names", _W, "Names differ only by case or by characters that look alike.",
    "Rename one, so that people and models can tell them apart.",
)  # fmt: skip
BAD_ALIAS = _new(
    "bad-alias", _W, "An alias leads nowhere, to two tools or to its own name; it is left out.",
    "Give each alias one existing tool and a name of its own.",
)  # fmt: skip
NO_DESCRIPTION = _new(
    "empty-description", _W, "A tool has no description; it is found by its name alone.",
    "Say in a sentence what it does and when to use it.",
)  # fmt: skip
DUPLICATE_DESCRIPTION = _new(
    "duplicate-description", _W, "Several tools have the same description.",
    "Say in each what sets it apart.",
)  # fmt: skip
INDISTINGUISHABLE = _new(
    "indistinguishable", _W, "Tools have nearly the same name, description and arguments: a "
    "request for one is a coin flip.",
    "Remove one, or write what sets it apart into its description.",
)  # fmt: skip
LONG_DESCRIPTION = _new(
    "long-description", _I, "A description is so long that routing reads only its beginning.",
    "Put what the tool is for into the first sentences.",
)  # fmt: skip
OVERSIZED_DESCRIPTION = _new(
    "oversized-description", _W, "A description is over the bound; what is past it is left out.",
    "Shorten it.",
)  # fmt: skip
HIDDEN_IN_TEXT = _new(
    "hidden-characters", _W, "A text holds control, invisible or direction-changing characters; "
    "they are kept as data and not shown to a model.",
    "Remove them.",
)  # fmt: skip
FOREIGN_TYPE = _new(
    "foreign-type", _I, "A schema uses type names of another dialect (dict, float, any ...); "
    "they were translated.",
    "Use JSON Schema's type names.",
)  # fmt: skip
SCHEMA_NOT_OBJECT = _new(
    "schema-not-object", _W, "An input schema is no JSON Schema for an object; the tool is routed, "
    "and its arguments are unchecked.",
    'Give an object schema: {"type": "object", "properties": {...}}.',
)  # fmt: skip
SCHEMA_TOO_LARGE = _new(
    "schema-too-large", _W, "An input schema is over the bound and was left out; the tool is "
    "routed, and its arguments are unchecked.",
    "Split the tool, or move large enums out of the schema.",
)  # fmt: skip
SCHEMA_INVALID = _new(
    "schema-invalid", _W, "A part of a schema contradicts JSON Schema or itself.",
    "Mend the part that the pointer names.",
)  # fmt: skip
REF_UNRESOLVED = _new(
    "unresolved-ref", _W, "A $ref leads nowhere, or outside the document.",
    "Put what it refers to under $defs of the same schema.",
)  # fmt: skip
REF_CYCLE = _new(
    "recursive-schema", _I, "A schema refers to itself.",
    "Nothing to mend: it is followed to a bounded depth.",
)  # fmt: skip
UNSUPPORTED_KEYWORD = _new(
    "unsupported-keyword", _I, "A schema uses a keyword that is kept as data and not enforced.",
    "Nothing to mend for routing.",
)  # fmt: skip
ARGUMENTS_REFUSED = _new(
    "arguments-refused", _W, "A tool's arguments can't be decoded under its input schema; the tool "
    "is routed, and asking for its arguments is answered with this reason.",
    "Mend the schema as the message says, or let the agent write this tool's arguments.",
)  # fmt: skip
CHECKED_AFTER = _new(
    "arguments-checked-after", _I, "A part of an input schema is not enforced while arguments are "
    "decoded; they are validated afterwards, and what fails is never given out.",
    "Nothing to mend; a schema that says it in simpler keywords is never answered in vain.",
)  # fmt: skip
NOT_ENFORCED = _new(
    "arguments-not-enforced", _I, "A part of an input schema constrains nothing: a format that is "
    "not known, a keyword of another dialect.",
    "Say it in JSON Schema's keywords, for instance as a pattern.",
)  # fmt: skip
NO_OPERATION_ID = _new(
    "no-operation-id", _I, "An OpenAPI operation has no operationId; a name was made from method "
    "and path.",
    "Give it an operationId, so that its name stays if the path changes.",
)  # fmt: skip
UNUSED_PART = _new(
    "unused-part", _I, "A part of an OpenAPI operation can't be an argument (a cookie, a body that "
    "is not JSON).",
    "Nothing to mend for routing; the agent has to supply that part itself.",
)  # fmt: skip
