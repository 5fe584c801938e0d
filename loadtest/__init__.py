"""Load scenarios that audit the server's ledger. Nothing is here yet beyond the import rule."""
