"""`batchwright-gateway`: `serve` (also without a word) runs the gateway, `keys` makes and revokes API keys."""

import os
import sys
from collections.abc import Sequence

EXIT_USAGE = 2
HELP = """\
usage: batchwright-gateway [serve]
       batchwright-gateway keys create|revoke|list   (keys --help says more)

Serves OpenAI's Files and Batches API over BatchJobs, as the settings file says, or manages its API keys.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit code 2 for settings or arguments that can't be used, 1 where it can't start."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["keys"]:  # on an administrator's machine, which has no server to load
        from batchwright.gateway.identity import key_commands  # noqa: PLC0415

        return key_commands.main(words[1:])
    if words in ([], ["serve"]):
        from batchwright.gateway.serving import serve  # noqa: PLC0415

        return serve(os.environ)
    asked = words in (["-h"], ["--help"])
    (sys.stdout if asked else sys.stderr).write(HELP)
    return 0 if asked else EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
