"""nginx with one canned chat completion: a server that costs next to nothing.

Without latency it shows what a client can do at most; with latency (Debian's echo module) it is a model
server that is never the bottleneck.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.process import free_port, running

INSTALL = "apt-get install nginx-light libnginx-mod-http-echo"
ECHO_MODULE = Path("/usr/lib/nginx/modules/ngx_http_echo_module.so")

# As large as a short answer of vLLM.
COMPLETION = (
    '{"id":"chatcmpl-8f14e45fceea167a5a36dedd4bea2543","object":"chat.completion","created":1767225600,'
    '"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":"Water boils at a lower '
    'temperature on a mountain, because the pressure of the air is lower there.","refusal":null,'
    '"tool_calls":[]},"logprobs":null,"finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":42,'
    '"total_tokens":61,"completion_tokens":19,"prompt_tokens_details":{"cached_tokens":0}}}'
)
MODELS = '{"object":"list","data":[{"id":"bench","object":"model","created":1767225600,"owned_by":"bench"}]}'

CONFIG = """
{modules}
daemon off;
master_process off;
error_log stderr crit;
pid {folder}/nginx.pid;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  default_type application/json;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  client_body_buffer_size 1m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location /health {{ return 200 '{{}}'; }}
    location = /v1/models {{ return 200 '{models}'; }}
    location @completion {{ return 200 '{completion}'; }}
    location /v1/ {{ {answer} }}
  }}
}}
"""


def missing(*, latency: bool) -> str | None:
    """What must be installed first, if anything."""
    if shutil.which("nginx") is None or (latency and not ECHO_MODULE.exists()):
        return INSTALL
    return None


@contextmanager
def nginx(*, core: int | None, latency_seconds: float = 0.0) -> Iterator[str]:
    """Run nginx until the block ends; gives its base URL."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bench-nginx-") as folder:
        config = Path(folder) / "nginx.conf"
        config.write_text(
            CONFIG.format(
                folder=folder,
                port=port,
                models=MODELS,
                completion=COMPLETION,
                modules=f"load_module {ECHO_MODULE};" if latency_seconds else "",
                answer=_answer(latency_seconds),
            )
        )
        with running(["nginx", "-p", folder, "-c", str(config)], port, core) as url:
            yield url


def _answer(latency_seconds: float) -> str:
    if latency_seconds:
        return f"echo_sleep {latency_seconds}; echo_exec @completion;"
    return f"return 200 '{COMPLETION}';"
