"""A small OpenAI-compatible model server that stands for vLLM in tests, demo and benches.

It answers every inference endpoint at once with a text derived from the request, and it fails on
command: for all requests through `/stub/switches`, for one through the body's `metadata.stub`.
The shapes of answers, errors, headers and metrics are those of vLLM 0.32. `README.md` lists the switches.
"""
