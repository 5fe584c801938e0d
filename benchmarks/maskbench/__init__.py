"""Real schemas with valid and invalid instances: what is accepted, at what cost, beside peers."""
