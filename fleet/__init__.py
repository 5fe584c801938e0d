"""Many replicas of the router. Nothing is here yet: it comes after the single server's contract."""
