"""A LangChain chain as a batch, by langasync: submit, poll, answers through the parser; and one that is cancelled.

langchain_client.py BASE_URL KEY MODEL FOLDER
"""

import asyncio
import json
import sys
from typing import Any

from langasync import BatchPoller, batch_chain
from langasync.settings import LangasyncSettings
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

WORDS = ["one", "two", "three"]
PATIENCE_SECONDS = 240


async def main(base_url: str, key: str, model: str, folder: str) -> dict[str, Any]:
    settings = LangasyncSettings(
        openai_api_key=key, openai_base_url=base_url, batch_poll_interval=1, base_storage_path=folder
    )
    chain = _chain(model, key)
    ended = await _results(await batch_chain(chain, settings).submit([{"word": word} for word in WORDS]), settings)
    slow = _chain(model, key, metadata={"stub": "delay=60"})
    handle = await batch_chain(slow, settings).submit([{"word": word} for word in WORDS])
    return {
        "id": ended.job_id,
        "status": ended.status_info.status.value,
        "counts": {name: getattr(ended.status_info, name) for name in ("total", "completed", "failed")},
        "answers": dict(zip(WORDS, map(str, ended.results or ()), strict=False)),
        "cancelled": await handle.cancel(),
    }


def _chain(model: str, key: str, **body: Any) -> Any:
    language_model = ChatOpenAI(model=model, api_key=key).bind(**body)
    return ChatPromptTemplate.from_template("say {word}") | language_model | StrOutputParser()


async def _results(handle: Any, settings: LangasyncSettings) -> Any:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for ended in BatchPoller(settings).wait_all():
            if ended.job_id == handle.job_id:
                return ended
    raise RuntimeError(f"{handle.job_id} is not among what was submitted")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
