"""Models: which server serves one, and the list of them."""
