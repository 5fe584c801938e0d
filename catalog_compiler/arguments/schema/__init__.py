"""JSON Schema to the grammar of arguments, and what the grammar leaves out.

Owns the reading of a tool's input schema as far as arguments go. Never spells tokens, and never
says less than the schema does without a note.
"""

from catalog_compiler.arguments.schema.compiling import compile_schema
from catalog_compiler.arguments.schema.result import CompiledSchema, Note, SchemaLimits
from catalog_compiler.arguments.schema.validate import validator

__all__ = ["CompiledSchema", "Note", "SchemaLimits", "compile_schema", "validator"]
