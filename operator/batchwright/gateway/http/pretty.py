"""JSON as OpenAI writes it: one field a line."""

import json
from typing import Any

from fastapi.responses import JSONResponse


class PrettyJSON(JSONResponse):
    """Scripts cut a field out of its line, with grep and cut: so each has one."""

    def render(self, content: Any) -> bytes:
        """Encode."""
        return f"{json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)}\n".encode(
            errors="backslashreplace"
        )
