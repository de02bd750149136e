"""A real vLLM on the CPU, with tiny random models, for the tests and the demo."""
