"""The decoder beside other ways of constraining a model, on the same prompts in one run."""
