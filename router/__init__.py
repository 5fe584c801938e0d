"""The service: admission, contract, catalogs in memory, shortlist, prompts, client and CLI."""

import decoder  # noqa: F401 (first: it says how threads wait, which NumPy reads when it is loaded)
