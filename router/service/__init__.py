"""The service process: admission, ledger, health, servicer, shutdown. It never computes."""
