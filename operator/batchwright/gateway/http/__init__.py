"""The web application: routes put together, errors in OpenAI's form, request ids, metrics, probes."""
