"""The command `batchwright`."""
