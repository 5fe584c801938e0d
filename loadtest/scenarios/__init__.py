"""The scenarios, each a module with its sizes and one coroutine that plays it."""
