"""The service: admission, contract, catalogs in memory, shortlist, prompts, client and CLI."""
