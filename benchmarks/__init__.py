"""Measurements: each prints its floor first, then what was reached, then one line of JSON."""

import decoder  # noqa: F401 (first: it says how threads wait, which NumPy reads when it is loaded)
