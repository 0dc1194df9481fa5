"""A process that asks a scripted model as a worker does, until it is told to stop.

    python -m tests.system.hammer REDIS_URL MODEL_URL SETTINGS

SETTINGS: JSON with `callers`, `seconds` and the limits. Prints how many calls were answered.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from redis.asyncio import Redis

from app.domain import Prompt
from app.errors import AppError
from app.llm.chat import ChatModel
from app.llm.gate import Gate
from app.llm.http import Endpoint, ModelClient, open_http
from app.llm.limits import Limits, Rates
from app.llm.shared import RedisBook
from app.llm.tokens import TiktokenTokenizer

TEXT = "Marie Curie was a physicist in Paris, and Niels Bohr met her there in the year 19{}. "


async def main(redis_url: str, model_url: str, told: dict[str, Any]) -> None:
    limits = Limits(told["concurrency"], Rates(told["requests"], told["tokens"], told["period_s"]))
    endpoint = Endpoint(model_url, limits=limits)
    until = time.monotonic() + told["seconds"]
    answered, failed = 0, 0
    async with Redis.from_url(redis_url) as redis, open_http() as http:
        gate = Gate(RedisBook(redis, model_url, limits), endpoint.host)
        model = ChatModel(ModelClient(http, endpoint, gate=gate), "scripted", TiktokenTokenizer())

        async def call(n: int) -> None:
            nonlocal answered, failed
            while time.monotonic() < until:
                prompt = Prompt("# Other", TEXT.format(n) * (1 + n % 5), max_tokens=40)
                try:
                    await model.complete(prompt)
                    answered += 1
                except AppError as error:
                    failed += 1
                    await asyncio.sleep(error.retry_after or 0.1)
                n += 1

        callers = [asyncio.create_task(call(n)) for n in range(told["callers"])]
        await asyncio.wait(callers, timeout=told["seconds"] + told["period_s"])
        for caller in callers:
            caller.cancel()
        await asyncio.wait(callers)
        await gate.aclose()
    print(json.dumps({"answered": answered, "failed": failed}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
