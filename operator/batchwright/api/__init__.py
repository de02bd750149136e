"""The contract: the BatchJob resource, its conditions, names and labels, and what pods tell the operator. No I/O."""
