"""A package behind HTTP. Requests that arrive together are computed as one batch.

    pip install fastapi uvicorn
    MODEL=ranker.mt2 uvicorn examples.serve:app

`POST /scores` takes {"rows": [[...], ...]} and gives {"scores": [[...], ...]}; `GET /load` counts.
The process imports no compiler: the package has its kernels.
"""

import asyncio
import os
from collections import Counter, deque
from contextlib import asynccontextmanager

import torch
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import minitorch2
from minitorch2.errors import ExportError

LARGEST, WAIT = 64, 0.002
"""The rows of a full batch, and the seconds that the first request waits for others."""


class Rows(BaseModel):
    """What a client sends."""

    rows: list[list[float]]


class Batcher:
    """A queue of requests, and a task that computes those which are there as one batch.

    A request of a wrong size fails alone: it is in no batch with others that are right.
    """

    def __init__(self, program):
        self.program, self.counts = program, Counter()
        self.waiting, self.arrived = deque(), asyncio.Event()

    async def ask(self, rows):
        """Return the program's result for some rows."""
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((rows, answer))
        self.arrived.set()
        return await answer

    async def run(self):
        """Compute batches until the task is cancelled."""
        while True:
            await self.arrived.wait()
            await asyncio.sleep(WAIT)
            await self.compute(self.next_batch())
            if not self.waiting:
                self.arrived.clear()

    def next_batch(self):
        """Take the first request, and those behind it that fit: of its length, not too many."""
        batch = [self.waiting.popleft()]
        count, length = batch[0][0].shape
        while self.waiting and self.waiting[0][0].shape[1] == length:
            count += len(self.waiting[0][0])
            if count > LARGEST:
                break
            batch.append(self.waiting.popleft())
        return batch

    async def compute(self, batch):
        """Compute a batch in a thread, so that requests are taken meanwhile; answer each."""
        rows = torch.cat([rows for rows, _ in batch])
        padded = rows if len(rows) > 1 else rows.repeat(2, 1)  # sizes of a `Dim` begin at 2
        try:
            scores = await asyncio.to_thread(self.program, padded)
        except ExportError as error:
            for _, answer in batch:
                answer.set_exception(error)
            return
        self.counts.update(requests=len(batch), batches=1)
        parts = scores[: len(rows)].split([len(rows) for rows, _ in batch])
        for part, (_, answer) in zip(parts, batch):
            answer.set_result(part.tolist())


def serve(path):
    """Return the application that serves a package of one argument, rows of float32."""

    @asynccontextmanager
    async def lifespan(app):
        app.state.batcher = Batcher(minitorch2.load(path))
        task = asyncio.create_task(app.state.batcher.run())
        yield
        task.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/scores")
    async def scores(asked: Rows):
        lengths = {len(row) for row in asked.rows}
        if len(lengths) != 1:
            raise HTTPException(422, "rows must be there, and have one length")
        try:
            return {"scores": await app.state.batcher.ask(torch.tensor(asked.rows))}
        except ExportError as error:
            raise HTTPException(422, str(error)) from error

    @app.get("/load")
    async def load():
        return app.state.batcher.counts

    return app


if "MODEL" in os.environ:
    app = serve(os.environ["MODEL"])
