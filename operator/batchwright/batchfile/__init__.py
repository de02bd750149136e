"""OpenAI's batch file format and the records of a run. No I/O."""
