"""Tool schemas in, one content-addressed artifact out.

Owns: reading (MCP, OpenAI, Anthropic, OpenAPI), the normal form, diagnostics, the name grammar
and the artifact. Never imports the decoder or the router; a tokenizer is handed to it.
"""
