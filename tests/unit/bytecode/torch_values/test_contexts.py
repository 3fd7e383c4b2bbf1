"""Modes of PyTorch: as contexts, decorators and functions, and across a graph break."""

import torch

from tests.unit.bytecode.torch_values.programs import check_row, table


@torch.no_grad()
def without_grad(x):
    return x * 2


@torch.inference_mode()
def in_inference(x):
    return x * 2


@torch.set_grad_enabled(False)
def grad_disabled(x):
    return x * 2


@torch.autocast("cpu", torch.bfloat16)
def cast(x, y):
    return x @ y


MORE = {
    "without_grad": without_grad,
    "in_inference": in_inference,
    "grad_disabled": grad_disabled,
    "cast": cast,
    "mode": torch.no_grad(),
    "casting": torch.autocast("cpu", torch.bfloat16),
    "record_function": torch.profiler.record_function,
    "SDPBackend": torch.nn.attention.SDPBackend,
    "sdpa_kernel": torch.nn.attention.sdpa_kernel,
    "saved_tensors_hooks": torch.autograd.graph.saved_tensors_hooks,
}

CAPTURED = [
    "t = w * 2\nwith torch.random.fork_rng():\n    u = torch.rand(2)\nt, u, torch.rand(2)",
    "with torch.no_grad():\n    t = w * 2\nt, w * 3",
    "with torch.no_grad():\n    with torch.enable_grad():\n        t = w * 2\n    u = w * 4\nt, u",
    "with torch.set_grad_enabled(False):\n    t = w * 2\nt, w * 3",
    "with torch.set_grad_enabled(x.ndim == 2):\n    t = w * 2\nt",
    "torch.set_grad_enabled(False)\nw * 2",
    "torch.set_grad_enabled(False)\nt = w * 2\ntorch.set_grad_enabled(True)\nt, w * 3",
    "torch._C._set_grad_enabled(False)\nw * 2",
    "without_grad(w), w * 2",
    "in_inference(x) + 1",
    "grad_disabled(w), w * 3",
    "f_ = torch.no_grad()(lambda t: t * 2)\nf_(w)",
    "f_ = torch.no_grad(lambda t: t * 2)\nf_(w)",
    "with mode:\n    t = w * 2\nt",
    "with torch.inference_mode():\n    t = x * 2\nt.is_inference(), t",
    "with torch.inference_mode(False):\n    t = w * 2\nt",
    "with torch.inference_mode():\n    t = w * 2\nt.requires_grad, t, w * 2",
    "with torch.inference_mode():\n    t = w * 2\n    with torch.inference_mode(False):\n        u = w * 2\nt, u, w * 2",
    "with torch.inference_mode():\n    with torch.enable_grad():\n        t = w * 2\nt, torch.is_grad_enabled(), w * 2",
    "with torch.inference_mode():\n    t = x.view(-1)\n    u = t * 2\nt.is_inference(), t, u, w * t.sum()",
    "with torch.inference_mode():\n    x.add_(1)\nx * w",
    "inference = torch.inference_mode()\nwith inference:\n    t = w * 2\nwith inference:\n    u = t * 2\nt, u",
    "try:\n    with torch.inference_mode():\n        t = w * 2\n        raise ValueError\nexcept ValueError:\n    u = w * 3\nt, u",
    "torch.is_grad_enabled(), x + 1",
    "with torch.no_grad():\n    t = torch.is_grad_enabled()\nt, x + 1",
    "with torch.autocast('cpu'):\n    t = x @ q\nt, x @ q",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    t = w @ q\nt",
    "with torch.autocast(device_type='cpu', dtype=torch.float16, enabled=False):\n    t = x @ q\nt",
    "with torch.autocast('cpu', enabled=x.ndim == 2):\n    t = x @ q\nt",
    "with torch.amp.autocast('cpu'):\n    t = x @ q\nt",
    "with torch.cpu.amp.autocast():\n    t = x @ q\nt",
    "with torch.autocast('cpu'):\n    with torch.autocast('cpu', enabled=False):\n        t = x @ q\n    u = x @ q\nt, u",
    "cast(x, q)",
    "with casting:\n    t = x @ q\nt",
    "with torch.autocast('cuda', enabled=False):\n    t = x @ q\nt",
    "with record_function('name'):\n    t = x + 1\nt",
    "with torch.autograd.profiler.record_function('name'):\n    t = x + 1\nt",
    "with torch.device('cpu'):\n    t = torch.ones(2)\nt",
    "t = w * 2\nwith torch.device('meta'):\n    u = torch.ones(2)\n    v = torch.ones(2, device='cpu')\nt + v, u",
    "with sdpa_kernel(SDPBackend.MATH):\n    t = F.scaled_dot_product_attention(b, b, b)\nt",
    "with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):\n    t = F.scaled_dot_product_attention(b, b, b)\nt",
    "with torch.autograd.set_detect_anomaly(False):\n    t = x + 1\nt",
    "with torch.autograd.grad_mode.set_multithreading_enabled(False):\n    t = w + 1\nt",
    "import contextlib\nwith contextlib.nullcontext():\n    t = x + 1\nt",
    "import contextlib\nwith (torch.no_grad() if x.ndim == 3 else contextlib.nullcontext()):\n    t = w + 1\nt",
    "import contextlib\nwith contextlib.ExitStack() as stack:\n    stack.enter_context(torch.no_grad())\n    t = w + 1\nt, w * 2",
    "with torch.no_grad(), torch.autocast('cpu'):\n    t = w @ q\nt",
    "try:\n    with torch.no_grad():\n        t = w * 2\n        raise ValueError\nexcept ValueError:\n    t = t + w\nt",
    "with torch.no_grad():\n    w.add_(1)\nw * 2",
    "g = torch.no_grad()\ng.__enter__()\nt = w * 2\ng.__exit__(None, None, None)\nt, w * 3",
    "torch.set_default_dtype(torch.float32)\ntorch.zeros(2) + x.sum()",
    "t = w * 2\ntorch.set_default_dtype(torch.float64)\nu = torch.zeros(2)\ntorch.set_default_dtype(torch.float32)\nt, u",
]

ACROSS_BREAKS = [
    (
        "with torch.no_grad():\n    t = w * 2\n    print(end='')\n    u = w * 3\nt, u, w * 4",
        "builtin",
    ),
    (
        "with torch.set_grad_enabled(False):\n    t = w * 2\n    print(end='')\n    u = w * 3\nt, u, w * 4",
        "builtin",
    ),
    (
        "with torch.set_grad_enabled(True):\n    t = w * 2\n    print(end='')\n    u = w * 3\nt, u, w * 4",
        "builtin",
    ),
    ("torch.set_grad_enabled(False)\nt = w * 2\nprint(end='')\nt, w * 3", "builtin"),
    (
        "with torch.enable_grad():\n    t = w * 2\n    print(end='')\n    u = w * 3\nt, u, w * 4",
        "builtin",
    ),
    (
        "with torch.inference_mode():\n    t = x * 2\n    print(end='')\n    u = x * 3\nt, u, w * 4",
        "builtin",
        "descriptor",
    ),
    (
        "with torch.autocast('cpu'):\n    t = x @ q\n    print(end='')\n    u = x @ q\nt, u, x @ q",
        "builtin",
        "c-function",
    ),
    (
        "with torch.autocast('cpu'):\n    with torch.no_grad():\n        t = w @ q\n        print(end='')\n        u = w @ q\nt, u, w @ q",
        "builtin",
        "c-function",
    ),
    (
        "with record_function('a'):\n    t = x + 1\n    print(end='')\n    u = x * 2\nt, u",
        "builtin",
    ),
    (
        "with sdpa_kernel(SDPBackend.MATH):\n    t = F.scaled_dot_product_attention(b, b, b)\n    print(end='')\nt + 1",
        "builtin",
        "builtin-method",
    ),
    (
        "with torch.device('cpu'):\n    t = torch.ones(2)\n    print(end='')\n    u = torch.zeros(2)\nt + u",
        "builtin",
    ),
    (
        "for n_ in range(3):\n    with torch.no_grad():\n        w = w * 2\n        if w.sum() > 5:\n            w = w - 1\nw",
        "data-dependent-branch",
        "data-dependent-branch",
        "data-dependent-branch",
    ),
    (
        "with torch.no_grad():\n    t = w * 2\n    if t.sum() > 1000:\n        t = t * 2\nt + w",
        "data-dependent-branch",
    ),
]

BREAKS = [
    (
        "t = w * 2\nwith saved_tensors_hooks(lambda t: t, lambda t: t):\n    u = w * w\nt, u",
        "torch-context",
        "torch-context",
    ),
]


@table(CAPTURED)
def test_captured(row):
    check_row(row, **MORE)


@table(ACROSS_BREAKS)
def test_across_breaks(row):
    check_row(row, **MORE)


@table(BREAKS)
def test_breaks(row):
    check_row(row, **MORE)
