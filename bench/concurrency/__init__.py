"""How many requests in flight: rules for it, against models of a server whose knee is known."""
