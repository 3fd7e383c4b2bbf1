"""The example that serves a package: a real client under load, and requests that are wrong."""

import asyncio
import importlib.util
import threading
import time
from pathlib import Path

import pytest
import torch

import minitorch2
from tests.distributed.processes import free_port

EXAMPLE = Path(__file__).parents[3] / "examples" / "serve.py"


@pytest.fixture
def url(tmp_path):
    """The address of a server of the example, in a thread."""
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("fastapi")
    spec = importlib.util.spec_from_file_location("serve", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    port = free_port()
    app = example.serve(tmp_path / "model.mt2")
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def model(tmp_path):
    """A model, whose package lies in the folder."""
    layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    model = torch.nn.Sequential(*layers)
    rows = minitorch2.Dim("rows", max=64)
    program = minitorch2.export(model, (torch.ones(4, 4),), dynamic_shapes=({0: rows},))
    minitorch2.package(program, tmp_path / "model.mt2")
    return model


def test_a_package_serves_many_clients_in_batches(model, url):
    httpx = pytest.importorskip("httpx")
    good = [torch.randn(1 + n % 3, 4) for n in range(60)]
    wrong = [torch.ones(2, 5), torch.ones(65, 4)]

    async def load():
        limits = httpx.Limits(max_connections=16)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=30) as client:
            asked = [client.post("/scores", json={"rows": x.tolist()}) for x in (*good, *wrong)]
            answers = await asyncio.gather(*asked)
            return answers, (await client.get("/load")).json()

    answers, counts = asyncio.run(load())
    for x, answer in zip(good, answers):
        found = torch.tensor(answer.json()["scores"])
        torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
    assert [answer.status_code for answer in answers[-2:]] == [422, 422]
    assert "size 5 at dimension 1" in answers[-2].json()["detail"]
    assert counts["requests"] == 60 and counts["batches"] < 40
