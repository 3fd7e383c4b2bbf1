"""Research code, in the style of the repositories that come with papers."""

import collections
import copy
import dataclasses
import itertools
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations

from tests.programs import T, program


@program
def diffusion_sampling(c):
    """DDPM training on a toy net, then ancestral and DDIM sampling with guidance."""

    def extract(a, t, shape):
        return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(shape) - 1)))

    class SinusoidalPosEmb(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.dim = dim

        def forward(self, t):
            half = self.dim // 2
            emb = math.log(10000) / (half - 1)
            emb = torch.exp(torch.arange(half, device=t.device) * -emb)
            emb = t[:, None] * emb[None, :]
            return torch.cat((emb.sin(), emb.cos()), dim=-1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Sequential(SinusoidalPosEmb(8), nn.Linear(8, 16), nn.SiLU())
            self.label = nn.Embedding(4, 16)
            self.inp, self.out = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 1, 3, padding=1)
            self.norm = nn.GroupNorm(4, 16)

        def forward(self, x, t, y=None):
            h = self.time(t.float())
            if y is not None:
                h = h + self.label(y)
            scale, shift = torch.chunk(h, 2, dim=-1) if False else (h, h)
            z = self.norm(self.inp(x)) * (1 + scale[..., None, None]) + shift[..., None, None]
            return self.out(F.silu(z))

    class Diffusion:
        def __init__(self, steps):
            self.steps = steps
            betas = torch.linspace(1e-4, 0.2, steps)
            self.alphas = 1 - betas
            self.bar = torch.cumprod(self.alphas, 0)
            prev = F.pad(self.bar[:-1], (1, 0), value=1.0)
            self.variance = betas * (1 - prev) / (1 - self.bar)

        def loss(self, net, x, t, noise, y):
            ab = extract(self.bar, t, x.shape)
            return F.mse_loss(net(ab.sqrt() * x + (1 - ab).sqrt() * noise, t, y), noise)

        @torch.no_grad()
        def sample(self, net, shape, y, noise, scale=2.0):
            x = noise[0]
            for i in reversed(range(self.steps)):
                t = torch.full((shape[0],), i, dtype=torch.long)
                cond, free = net(x, t, y), net(x, t)
                eps = free + scale * (cond - free)
                a, ab = extract(self.alphas, t, shape), extract(self.bar, t, shape)
                mean = (x - (1 - a) / (1 - ab).sqrt() * eps) / a.sqrt()
                x = mean + extract(self.variance, t, shape).sqrt() * noise[i + 1] if i > 0 else mean
            return x.clamp(-1, 1)

    torch.manual_seed(0)
    d, net = Diffusion(4), Net()
    opt = torch.optim.Adam(net.parameters(), 1e-3)

    def step(x, t, noise, y):
        opt.zero_grad()
        loss = d.loss(net, x, t, noise, y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss.item()

    run, out = c(step), []
    for b in (2, 3, 3):
        out.append(
            run(
                T(b, 1, 6, 6, seed=b),
                torch.arange(b) % 4,
                T(b, 1, 6, 6, seed=9),
                torch.arange(b) % 4,
            )
        )
    s = c(d.sample)(net, (2, 1, 6, 6), torch.tensor([1, 3]), T(5, 2, 1, 6, 6, seed=4))
    return out, s


@program
def replay_buffer_dqn(c):
    """A deque replay buffer, epsilon-greedy actions, a double DQN update with a target network."""
    Transition = collections.namedtuple("Transition", ("state", "action", "next_state", "reward"))

    class ReplayMemory:
        def __init__(self, capacity):
            self.memory = collections.deque([], maxlen=capacity)

        def push(self, *args):
            self.memory.append(Transition(*args))

        def sample(self, n):
            return random.sample(list(self.memory), n)

        def __len__(self):
            return len(self.memory)

    torch.manual_seed(0)
    random.seed(1)
    policy = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(policy)
    opt = torch.optim.AdamW(policy.parameters(), 1e-2, amsgrad=True)
    memory = ReplayMemory(30)

    def select_action(state, eps):
        if random.random() > eps:
            with torch.no_grad():
                return policy(state).max(1).indices.view(1, 1)
        return torch.tensor([[random.randrange(2)]], dtype=torch.long)

    def optimize_model():
        if len(memory) < 8:
            return None
        batch = Transition(*zip(*memory.sample(8)))
        mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
        following = torch.cat([s for s in batch.next_state if s is not None])
        state, action, reward = (
            torch.cat(batch.state),
            torch.cat(batch.action),
            torch.cat(batch.reward),
        )
        q = policy(state).gather(1, action)
        v = torch.zeros(8)
        with torch.no_grad():
            best = policy(following).argmax(1, keepdim=True)
            v[mask] = target(following).gather(1, best).squeeze(1)
        loss = nn.SmoothL1Loss()(q, (v * 0.9 + reward).unsqueeze(1))
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
        opt.step()
        return loss.detach()

    act, learn, losses = c(select_action), c(optimize_model), []
    state = T(1, 3, seed=0)
    for i in range(14):
        a = act(state, 0.3)
        nxt = None if i % 5 == 4 else (state * 0.9 + a.item() - 0.5).sin()
        memory.push(state, a, nxt, torch.tensor([float(i % 3)]))
        state = T(1, 3, seed=i) if nxt is None else nxt
        losses.append(learn())
        for k, v in policy.state_dict().items():
            target.state_dict()[k].mul_(0.9).add_(v, alpha=0.1)
    return losses, state, [p.detach() for p in target.parameters()]


@program
def gnn_message_passing(c):
    """GCN and GAT by scatter_add and scatter_reduce over edge lists, graphs of several sizes."""

    class MessagePassing(nn.Module):
        aggr = "add"

        def propagate(self, edge_index, **kwargs):
            src, dst = edge_index
            gathered = {}
            for key, value in kwargs.items():
                if isinstance(value, torch.Tensor) and value.dim() >= 1:
                    gathered[f"{key}_j"], gathered[f"{key}_i"] = value[src], value[dst]
            names = self.message.__code__.co_varnames[1 : self.message.__code__.co_argcount]
            msg = self.message(**{n: gathered[n] for n in names if n in gathered})
            n = kwargs["x"].size(0)
            out = torch.zeros(n, *msg.shape[1:])
            idx = dst.view(-1, *([1] * (msg.dim() - 1))).expand_as(msg)
            if self.aggr == "add":
                return out.scatter_add_(0, idx, msg)
            return out.scatter_reduce(0, idx, msg, reduce="amax", include_self=False)

    class GCN(MessagePassing):
        def __init__(self, i, o):
            super().__init__()
            self.lin = nn.Linear(i, o, bias=False)

        def forward(self, x, edge_index):
            loops = torch.arange(x.size(0)).repeat(2, 1)
            edge_index = torch.cat([edge_index, loops], 1)
            deg = torch.bincount(edge_index[1], minlength=x.size(0)).float()
            return self.propagate(edge_index, x=self.lin(x), norm=deg.pow(-0.5))

        def message(self, x_j, norm_i, norm_j):
            return (norm_i * norm_j).unsqueeze(-1) * x_j

    class GAT(MessagePassing):
        aggr = "max"

        def __init__(self, i, o):
            super().__init__()
            self.lin, self.att = nn.Linear(i, o), nn.Parameter(T(2 * o, seed=5))

        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=self.lin(x))

        def message(self, x_i, x_j):
            a = F.leaky_relu((torch.cat([x_i, x_j], -1) * self.att).sum(-1), 0.2)
            return x_j * torch.sigmoid(a)[:, None]

    torch.manual_seed(0)
    model = nn.ModuleList([GCN(3, 8), GAT(8, 4)])

    def f(x, edge_index, batch, graphs):
        x = F.elu(model[0](x, edge_index))
        x = model[1](x, edge_index)
        pooled = torch.zeros(graphs, x.size(1)).index_add_(0, batch, x)
        count = torch.zeros(graphs).index_add_(0, batch, torch.ones_like(batch, dtype=x.dtype))
        return pooled / count.clamp(min=1)[:, None]

    run, out = c(f), []
    for n, e in ((5, 9), (6, 12), (8, 10)):
        g = torch.Generator().manual_seed(n)
        edges = torch.randint(0, n, (2, e), generator=g)
        y = run(T(n, 3, seed=n), edges, torch.arange(n) // 3, (n + 2) // 3)
        y.square().sum().backward()
        out.append((y, [p.grad.clone() for p in model.parameters()]))
        model.zero_grad()
    return out


@program
def beam_search_batched(c):
    """Beam search over a GRU decoder: reordering of states, finished beams, length penalty."""
    torch.manual_seed(0)
    emb, cell, head = nn.Embedding(9, 6), nn.GRUCell(6, 8), nn.Linear(8, 9)

    @torch.inference_mode()
    def decode(h0, beams=3, steps=5, eos=2, alpha=0.7):
        B = h0.size(0)
        h = h0.repeat_interleave(beams, 0)
        seqs = torch.ones(B * beams, 1, dtype=torch.long)
        scores = torch.full((B, beams), float("-inf"))
        scores[:, 0] = 0
        finished = [[] for _ in range(B)]
        for step in range(steps):
            h = cell(emb(seqs[:, -1]), h)
            logp = head(h).log_softmax(-1).view(B, beams, -1)
            V = logp.size(-1)
            total = (scores[..., None] + logp).view(B, -1)
            top, idx = total.topk(beams, dim=-1)
            src = torch.div(idx, V, rounding_mode="floor")
            tok = idx % V
            flat = (src + torch.arange(B)[:, None] * beams).view(-1)
            h, seqs = h[flat], torch.cat([seqs[flat], tok.view(-1, 1)], 1)
            done = tok.eq(eos)
            for b, k in done.nonzero().tolist():
                finished[b].append(
                    (top[b, k].item() / (step + 1) ** alpha, seqs[b * beams + k].tolist())
                )
            scores = top.masked_fill(done, float("-inf"))
            if all(len(x) >= beams for x in finished):
                break
        return seqs, scores, [sorted(x, reverse=True)[:2] for x in finished]

    run = c(decode)
    return [run(T(b, 8, seed=b) * 2) for b in (2, 3, 4)]


@program
def mixture_of_experts(c):
    """Top-2 routing with capacity, a load-balancing loss, index_add back into the tokens."""

    class Expert(nn.Sequential):
        def __init__(self, d):
            super().__init__(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    class MoE(nn.Module):
        def __init__(self, d, n, k=2):
            super().__init__()
            self.gate, self.experts, self.k = (
                nn.Linear(d, n, bias=False),
                nn.ModuleList(Expert(d) for _ in range(n)),
                k,
            )
            self.aux = None

        def forward(self, x):
            shape = x.shape
            x = x.view(-1, shape[-1])
            logits = self.gate(x)
            weights, chosen = logits.softmax(-1).topk(self.k, -1)
            weights = weights / weights.sum(-1, keepdim=True)
            out = torch.zeros_like(x)
            mask = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
            for i, expert in enumerate(self.experts):
                k, row = torch.where(mask[i])
                if row.numel() == 0:
                    continue
                out.index_add_(0, row, expert(x[row]) * weights[row, k, None])
            frac = mask.float().mean((1, 2))
            self.aux = len(self.experts) * (frac * logits.softmax(-1).mean(0)).sum()
            return out.view(shape)

    torch.manual_seed(0)
    m = MoE(4, 4)
    opt = torch.optim.SGD(m.parameters(), 0.1)

    def step(x, y):
        loss = F.mse_loss(m(x), y) + 0.01 * m.aux
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach(), m.aux.detach()

    run = c(step)
    return [run(T(2, n, 4, seed=n), T(2, n, 4, seed=1)) for n in (5, 6, 7)], [
        p.detach() for p in m.parameters()
    ]


@program
def distill_mixup_cutmix(c):
    """Knowledge distillation, mixup and cutmix with numpy's beta, EMA through a deepcopy."""

    def rand_bbox(size, lam):
        W, H = size[2], size[3]
        cut = np.sqrt(1.0 - lam)
        w, h = int(W * cut), int(H * cut)
        cx, cy = np.random.randint(W), np.random.randint(H)
        return (
            np.clip(cx - w // 2, 0, W),
            np.clip(cy - h // 2, 0, H),
            np.clip(cx + w // 2, 0, W),
            np.clip(cy + h // 2, 0, H),
        )

    torch.manual_seed(0)
    np.random.seed(0)

    def net():
        return nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 3),
        )

    student, teacher = net(), net().eval()
    ema = copy.deepcopy(student).eval()
    opt = torch.optim.SGD(
        student.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4
    )

    def kd(s, t, T_=4.0):
        return (
            F.kl_div(F.log_softmax(s / T_, 1), F.softmax(t / T_, 1), reduction="batchmean")
            * T_
            * T_
        )

    def step(x, y, how):
        lam = np.random.beta(1.0, 1.0)
        index = torch.randperm(x.size(0))
        if how == "mixup":
            x = lam * x + (1 - lam) * x[index]
        else:
            x1, y1, x2, y2 = rand_bbox(x.size(), lam)
            x = x.clone()
            x[:, :, x1:x2, y1:y2] = x[index, :, x1:x2, y1:y2]
            lam = 1 - (x2 - x1) * (y2 - y1) / (x.size(-1) * x.size(-2))
        with torch.no_grad():
            t = teacher(x)
        s = student(x)
        loss = (
            lam * F.cross_entropy(s, y)
            + (1 - lam) * F.cross_entropy(s, y[index], label_smoothing=0.1)
            + 0.5 * kd(s, t)
        )
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        with torch.no_grad():
            for e, m in zip(ema.state_dict().values(), student.state_dict().values()):
                if e.dtype.is_floating_point:
                    e.mul_(0.9).add_(m, alpha=0.1)
                else:
                    e.copy_(m)
        return float(loss)

    run = c(step)
    out = [
        run(T(4, 1, 8, 8, seed=i), torch.tensor([0, 1, 2, i % 3]), ("mixup", "cutmix")[i % 2])
        for i in range(5)
    ]
    return out, list(ema.state_dict().values())


@program
def lora_injection(c):
    """LoRA layers replace nn.Linear by name in a Transformer; merged, unmerged, only adapters trained."""

    class LoRALinear(nn.Module):
        def __init__(self, base, r=2, alpha=4):
            super().__init__()
            self.base, self.scaling, self.merged = base, alpha / r, False
            self.A = nn.Parameter(T(r, base.in_features, seed=3) * 0.1)
            self.B = nn.Parameter(T(base.out_features, r, seed=4) * 0.1)
            self.drop = nn.Dropout(0.0)

        @property
        def weight(self):
            return self.base.weight

        @property
        def bias(self):
            return self.base.bias

        def delta(self):
            return (self.B @ self.A) * self.scaling

        def merge(self):
            if not self.merged:
                self.base.weight.data += self.delta()
                self.merged = True

        def forward(self, x):
            if self.merged:
                return self.base(x)
            return self.base(x) + (self.drop(x) @ self.A.T @ self.B.T) * self.scaling

    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d, d) for _ in range(4))
            self.norm = nn.LayerNorm(d)

        def forward(self, x):
            h = self.norm(x)
            q, k, v = (
                p(h).unflatten(-1, (2, -1)).transpose(1, 2)
                for p in (self.q_proj, self.k_proj, self.v_proj)
            )
            return x + self.o_proj(
                F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            )

    def inject(model, targets):
        for name, module in list(model.named_modules()):
            if isinstance(module, nn.Linear) and any(name.endswith(t) for t in targets):
                parent, _, leaf = name.rpartition(".")
                setattr(model.get_submodule(parent), leaf, LoRALinear(module))
        for n, p in model.named_parameters():
            p.requires_grad = n.rpartition(".")[2] in ("A", "B")
        return model

    torch.manual_seed(0)
    model = inject(nn.Sequential(Block(8), Block(8)), ("q_proj", "v_proj"))
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    run = c(step)
    losses = [run(T(2, n, 8, seed=n)).detach() for n in (4, 5, 6)]
    fwd = c(model)
    before = fwd(T(2, 5, 8)).detach()
    for m in model.modules():
        if isinstance(m, LoRALinear):
            m.merge()
    return (
        losses,
        before,
        fwd(T(2, 5, 8)).detach(),
        {n: p.detach() for n, p in model.named_parameters() if p.requires_grad},
    )


@program
def norms_and_penalty(c):
    """Weight norm, spectral norm with power iteration in train and eval, WGAN-GP with create_graph."""
    torch.manual_seed(0)
    critic = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(4, 8)),
        nn.LeakyReLU(0.2),
        parametrizations.weight_norm(nn.Linear(8, 1)),
    )
    opt = torch.optim.RMSprop(critic.parameters(), 1e-2)

    def penalty(real, fake, eps):
        x = (eps * real + (1 - eps) * fake).requires_grad_(True)
        score = critic(x)
        (g,) = torch.autograd.grad(
            outputs=score,
            inputs=x,
            grad_outputs=torch.ones_like(score),
            create_graph=True,
            retain_graph=True,
            only_inputs=True,
        )
        return ((g.view(g.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()

    def step(real, fake, eps):
        opt.zero_grad()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake, eps)
        loss.backward()
        opt.step()
        return loss.item()

    run = c(step)
    out = [run(T(n, 4, seed=n), T(n, 4, seed=8), T(n, 1, seed=9).sigmoid()) for n in (3, 4, 5)]
    critic.eval()
    ev = c(critic)
    return out, ev(T(3, 4)).detach(), list(critic.state_dict().values())


@program
def maml_inner_loop(c):
    """MAML: functional_call, second-order inner gradients, a task loop, first-order as a flag."""
    from torch.func import functional_call

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters(), 1e-2)

    def adapt(params, x, y, lr, steps, first_order):
        for _ in range(steps):
            loss = F.mse_loss(functional_call(net, params, (x,)), y)
            grads = torch.autograd.grad(loss, list(params.values()), create_graph=not first_order)
            params = {k: p - lr * g for (k, p), g in zip(params.items(), grads)}
        return params

    def meta_step(tasks, first_order):
        outer = 0.0
        for xs, ys, xq, yq in tasks:
            fast = adapt(dict(net.named_parameters()), xs, ys, 0.1, 2, first_order)
            outer = outer + F.mse_loss(functional_call(net, fast, (xq,)), yq)
        opt.zero_grad()
        (outer / len(tasks)).backward()
        opt.step()
        return outer.detach()

    run, out = c(meta_step), []
    for i in range(4):
        tasks = []
        for k in range(2):
            x = T(5 + i // 2, 1, seed=i * 2 + k)
            tasks.append((x, x.sin() * (k + 1), x + 1, (x + 1).sin() * (k + 1)))
        out.append(run(tasks, i == 3))
    return out, [p.detach() for p in net.parameters()]


@program
def moco_queue(c):
    """MoCo: a momentum encoder, a buffer that is a queue with a pointer, InfoNCE."""

    class MoCo(nn.Module):
        def __init__(self, dim=4, K=12, m=0.9, temp=0.2):
            super().__init__()
            self.K, self.m, self.temp = K, m, temp
            self.q, self.k = nn.Linear(6, dim), nn.Linear(6, dim)
            for a, b in zip(self.q.parameters(), self.k.parameters()):
                b.data.copy_(a.data)
                b.requires_grad = False
            self.register_buffer("queue", F.normalize(T(dim, K, seed=3), dim=0))
            self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

        @torch.no_grad()
        def _momentum(self):
            for a, b in zip(self.q.parameters(), self.k.parameters()):
                b.data = b.data * self.m + a.data * (1.0 - self.m)

        @torch.no_grad()
        def _enqueue(self, keys):
            n, p = keys.shape[0], int(self.ptr)
            assert self.K % n == 0
            self.queue[:, p : p + n] = keys.T
            self.ptr[0] = (p + n) % self.K

        def forward(self, a, b):
            q = F.normalize(self.q(a), dim=1)
            with torch.no_grad():
                self._momentum()
                k = F.normalize(self.k(b), dim=1)
            pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
            neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
            logits = torch.cat([pos, neg], 1) / self.temp
            self._enqueue(k)
            return logits, torch.zeros(logits.shape[0], dtype=torch.long)

    torch.manual_seed(0)
    m = MoCo()
    opt = torch.optim.SGD(m.q.parameters(), 0.1)
    run, out = c(m), []
    for i in range(5):
        logits, labels = run(T(4, 6, seed=i), T(4, 6, seed=i + 20))
        loss = F.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        out.append(loss.detach())
    return out, m.queue, m.ptr, m.k.weight.detach()


@program
def crf_and_viterbi(c):
    """Linear-chain CRF: score, forward algorithm with masks, Viterbi back pointers as lists."""

    class CRF(nn.Module):
        def __init__(self, tags):
            super().__init__()
            self.start, self.end, self.trans = (
                nn.Parameter(T(*s, seed=i)) for i, s in enumerate(((tags,), (tags,), (tags, tags)))
            )

        def forward(self, em, tags, mask):
            return (self._score(em, tags, mask) - self._normalizer(em, mask)).mean()

        def _score(self, em, tags, mask):
            L, B = tags.shape
            mask = mask.float()
            score = self.start[tags[0]] + em[0, torch.arange(B), tags[0]]
            for i in range(1, L):
                score = score + self.trans[tags[i - 1], tags[i]] * mask[i]
                score = score + em[i, torch.arange(B), tags[i]] * mask[i]
            last = mask.long().sum(0) - 1
            return score + self.end[tags[last, torch.arange(B)]]

        def _normalizer(self, em, mask):
            score = self.start + em[0]
            for i in range(1, em.size(0)):
                nxt = torch.logsumexp(score.unsqueeze(2) + self.trans + em[i].unsqueeze(1), dim=1)
                score = torch.where(mask[i].unsqueeze(1), nxt, score)
            return torch.logsumexp(score + self.end, dim=1)

        @torch.no_grad()
        def decode(self, em, mask):
            score, history = self.start + em[0], []
            for i in range(1, em.size(0)):
                nxt, idx = (score.unsqueeze(2) + self.trans + em[i].unsqueeze(1)).max(dim=1)
                score = torch.where(mask[i].unsqueeze(1), nxt, score)
                history.append(idx)
            score = score + self.end
            ends, best = mask.long().sum(0) - 1, []
            for b in range(em.size(1)):
                _, last = score[b].max(dim=0)
                tags = [last.item()]
                for hist in reversed(history[: ends[b]]):
                    tags.append(hist[b][tags[-1]].item())
                tags.reverse()
                best.append(tags)
            return best

    crf = CRF(3)
    run, dec, out = c(crf), c(crf.decode), []
    for L in (4, 5, 6):
        em = T(L, 2, 3, seed=L, grad=True)
        tags = (torch.arange(L * 2).view(L, 2) * 7) % 3
        mask = torch.ones(L, 2, dtype=torch.bool)
        mask[-1, 1] = False
        loss = -run(em, tags, mask)
        loss.backward()
        out.append((loss.detach(), em.grad, dec(em.detach(), mask)))
    return out, crf.trans.grad


@program
def ctc_greedy_and_loss(c):
    """CTC: loss with targets concatenated, greedy decode by unique_consecutive and groupby, edit distance."""
    torch.manual_seed(0)
    net = nn.GRU(4, 6, bidirectional=True)
    head = nn.Linear(12, 5)

    def loss(x, targets, lengths, target_lengths):
        y, _ = net(x)
        return F.ctc_loss(
            head(y).log_softmax(2), targets, lengths, target_lengths, blank=0, zero_infinity=True
        )

    def greedy(x):
        y, _ = net(x)
        best = head(y).argmax(-1).T
        a = [[k for k, _ in itertools.groupby(row.tolist()) if k != 0] for row in best]
        b = [torch.unique_consecutive(row) for row in best]
        return a, [row[row != 0] for row in b]

    def edit(a, b):
        d = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            prev, d[0] = d[0], i
            for j, y in enumerate(b, 1):
                prev, d[j] = d[j], min(d[j] + 1, d[j - 1] + 1, prev + (x != y))
        return d[-1]

    run, dec, out = c(loss), c(greedy), []
    for n in (6, 7, 8):
        x = T(n, 2, 4, seed=n)
        l = run(x, torch.tensor([1, 2, 3, 1, 4]), torch.tensor([n, n - 1]), torch.tensor([3, 2]))
        l.backward()
        a, b = dec(x)
        out.append((l.detach(), a, b, edit(a[0], a[1]), head.weight.grad.clone()))
    return out


@program
def nerf_ray_marching(c):
    """NeRF: positional encoding, stratified samples, alpha compositing, hierarchical sampling by a CDF."""
    torch.manual_seed(0)

    class Encode:
        def __init__(self, L):
            self.fns = [lambda x: x]
            for f in 2.0 ** torch.linspace(0, L - 1, L):
                for p in (torch.sin, torch.cos):
                    self.fns.append(lambda x, p=p, f=f: p(x * f))

        def __call__(self, x):
            return torch.cat([fn(x) for fn in self.fns], -1)

    enc = Encode(2)
    net = nn.Sequential(nn.Linear(15, 16), nn.ReLU(), nn.Linear(16, 4))

    def composite(raw, z, d, white=True):
        dists = z[..., 1:] - z[..., :-1]
        dists = torch.cat([dists, torch.tensor([1e10]).expand(dists[..., :1].shape)], -1)
        dists = dists * torch.norm(d[..., None, :], dim=-1)
        alpha = 1.0 - torch.exp(-F.relu(raw[..., 3]) * dists)
        w = (
            alpha
            * torch.cumprod(
                torch.cat([torch.ones((alpha.shape[0], 1)), 1.0 - alpha + 1e-10], -1), -1
            )[:, :-1]
        )
        rgb = torch.sum(w[..., None] * torch.sigmoid(raw[..., :3]), -2)
        if white:
            rgb = rgb + (1.0 - w.sum(-1)[..., None])
        return rgb, torch.sum(w * z, -1), w

    def sample_pdf(bins, weights, n):
        pdf = (weights + 1e-5) / torch.sum(weights + 1e-5, -1, keepdim=True)
        cdf = torch.cat([torch.zeros_like(pdf[..., :1]), torch.cumsum(pdf, -1)], -1)
        u = torch.linspace(0.0, 1.0, steps=n).expand(list(cdf.shape[:-1]) + [n]).contiguous()
        inds = torch.searchsorted(cdf.detach(), u, right=True)
        below, above = (
            torch.max(torch.zeros_like(inds - 1), inds - 1),
            torch.min((cdf.shape[-1] - 1) * torch.ones_like(inds), inds),
        )
        g = torch.stack([below, above], -1)
        shape = [g.shape[0], g.shape[1], cdf.shape[-1]]
        cg = torch.gather(cdf.unsqueeze(1).expand(shape), 2, g)
        bg = torch.gather(bins.unsqueeze(1).expand(shape), 2, g)
        denom = cg[..., 1] - cg[..., 0]
        denom = torch.where(denom < 1e-5, torch.ones_like(denom), denom)
        return bg[..., 0] + (u - cg[..., 0]) / denom * (bg[..., 1] - bg[..., 0])

    def render(o, d, n=6, near=1.0, far=3.0):
        t = torch.linspace(0.0, 1.0, n)
        z = (near * (1.0 - t) + far * t).expand(o.shape[0], n)
        raw = net(enc(o[:, None] + d[:, None] * z[..., None]))
        rgb0, _, w = composite(raw, z, d)
        mid = 0.5 * (z[..., 1:] + z[..., :-1])
        extra = sample_pdf(mid, w[..., 1:-1], 4).detach()
        z, _ = torch.sort(torch.cat([z, extra], -1), -1)
        rgb, depth, _ = composite(net(enc(o[:, None] + d[:, None] * z[..., None])), z, d)
        return {"rgb": rgb, "rgb0": rgb0, "depth": depth}

    run, out = c(render), []
    for n in (3, 4, 5):
        r = run(T(n, 3, seed=n), F.normalize(T(n, 3, seed=7), dim=-1))
        (r["rgb"].mean() + r["rgb0"].mean()).backward()
        out.append({k: v.detach() for k, v in r.items()})
    return out, [p.grad for p in net.parameters()]


@program
def kalman_and_particles(c):
    """A Kalman filter with a Cholesky solve, and a particle filter with systematic resampling."""

    @dataclasses.dataclass
    class Gaussian:
        mean: torch.Tensor
        cov: torch.Tensor

        def predict(self, A, Q):
            return dataclasses.replace(self, mean=A @ self.mean, cov=A @ self.cov @ A.T + Q)

        def update(self, z, H, R):
            S = H @ self.cov @ H.T + R
            K = torch.cholesky_solve(H @ self.cov, torch.linalg.cholesky(S)).T
            r = z - H @ self.mean
            ll = torch.distributions.MultivariateNormal(torch.zeros_like(r), S).log_prob(r)
            return Gaussian(self.mean + K @ r, (torch.eye(len(self.mean)) - K @ H) @ self.cov), ll

    def kalman(zs, A, H, q):
        state, total = Gaussian(torch.zeros(2), torch.eye(2)), 0.0
        means = []
        for z in zs:
            state, ll = state.predict(A, torch.eye(2) * q.exp()).update(z, H, torch.eye(1) * 0.1)
            total = total + ll
            means.append(state.mean)
        return total, torch.stack(means)

    def particle(zs, particles, u):
        w = torch.full((particles.shape[0],), 1.0 / particles.shape[0])
        ess = []
        for t, z in enumerate(zs.unbind()):
            particles = 0.9 * particles + 0.1 * particles.sin()
            w = w * torch.exp(-0.5 * (z - particles).square().squeeze(-1))
            w = w / w.sum()
            e = 1.0 / w.square().sum()
            ess.append(float(e))
            if e < 0.7 * particles.shape[0]:
                n = particles.shape[0]
                pos = (torch.arange(n) + u[t]) / n
                idx = torch.searchsorted(torch.cumsum(w, 0).clamp(max=1.0), pos).clamp(max=n - 1)
                particles, w = particles[idx], torch.full_like(w, 1.0 / n)
        return (particles.squeeze(-1) * w).sum(), ess

    run, out = c(kalman), []
    A, H = torch.tensor([[1.0, 0.5], [0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
    for n in (3, 4, 5):
        q = torch.tensor(-1.0, requires_grad=True)
        ll, m = run(T(n, 1, seed=n), A, H, q)
        ll.backward()
        out.append((ll.detach(), m.detach(), q.grad))
    pf = c(particle)
    return out, [
        pf(T(n, 1, seed=n) * 2, T(10 + n, 1, seed=1), T(n, seed=2).sigmoid()) for n in (3, 4, 5)
    ]


@program
def neural_ode_rk4(c):
    """A neural ODE by RK4 with an adjoint autograd.Function, and by plain back-propagation."""
    torch.manual_seed(0)

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
            self.nfe = 0

        def forward(self, t, y):
            self.nfe += 1
            return self.net(y**3) * torch.cos(t)

    def rk4_step(f, t, dt, y):
        k1 = f(t, y)
        k2 = f(t + dt / 2, y + dt * k1 / 2)
        k3 = f(t + dt / 2, y + dt * k2 / 2)
        k4 = f(t + dt, y + dt * k3)
        return y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6

    def odeint(f, y, ts):
        ys = [y]
        for t0, t1 in zip(ts[:-1], ts[1:]):
            y = rk4_step(f, t0, t1 - t0, y)
            ys.append(y)
        return torch.stack(ys)

    class Adjoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, ts, f, *params):
            ctx.f = f
            with torch.no_grad():
                ys = odeint(f, y, ts)
            ctx.save_for_backward(ts, ys, *params)
            return ys

        @staticmethod
        def backward(ctx, g):
            ts, ys, *params = ctx.saved_tensors
            adj, gp = g[-1], [torch.zeros_like(p) for p in params]
            for i in range(len(ts) - 1, 0, -1):
                with torch.enable_grad():
                    y = ys[i - 1].detach().requires_grad_(True)
                    out = rk4_step(ctx.f, ts[i - 1], ts[i] - ts[i - 1], y)
                    grads = torch.autograd.grad(out, (y, *params), adj, allow_unused=True)
                adj = grads[0] + g[i - 1]
                gp = [a + b for a, b in zip(gp, grads[1:])]
            return (adj, None, None, *gp)

    f = Field()

    def plain(y, ts):
        return odeint(f, y, ts)

    def adjoint(y, ts):
        return Adjoint.apply(y, ts, f, *f.parameters())

    out = []
    for g in (plain, adjoint):
        run = c(g)
        for n in (3, 4, 4):
            y = T(n, 2, seed=n, grad=True)
            ys = run(y, torch.linspace(0, 1, n))
            ys[-1].square().sum().backward()
            out.append((ys.detach(), y.grad, [p.grad.clone() for p in f.parameters()], f.nfe))
            f.zero_grad()
    return out


@program
def fft_convolution_and_spectrogram(c):
    """FFT long convolution (S4/Hyena), a Fourier neural operator layer, STFT magnitudes and a mel filter."""

    class SpectralConv1d(nn.Module):
        def __init__(self, i, o, modes):
            super().__init__()
            self.modes = modes
            self.w = nn.Parameter(torch.complex(T(i, o, modes, seed=1), T(i, o, modes, seed=2)))

        def forward(self, x):
            ft = torch.fft.rfft(x)
            out = torch.zeros(x.size(0), self.w.size(1), x.size(-1) // 2 + 1, dtype=torch.cfloat)
            out[:, :, : self.modes] = torch.einsum("bix,iox->box", ft[:, :, : self.modes], self.w)
            return torch.fft.irfft(out, n=x.size(-1))

    def long_conv(u, k, D):
        n = u.shape[-1]
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * n) * torch.fft.rfft(k, n=2 * n), n=2 * n)[
            ..., :n
        ]
        return F.gelu(y + u * D)

    m = SpectralConv1d(2, 2, 3)

    def f(u, k, D, window):
        y = m(long_conv(u, k, D))
        s = torch.stft(
            y.reshape(-1, y.shape[-1]),
            8,
            hop_length=4,
            window=window,
            return_complex=True,
            center=True,
        )
        power = s.abs().pow(2).clamp(min=1e-2)
        return y, (power.log10() * 10).mean((1, 2))

    run, out = c(f), []
    for n in (16, 20, 24):
        k = T(2, n, seed=3, grad=True)
        y, p = run(T(3, 2, n, seed=n), k, torch.ones(2, 1), torch.hann_window(8))
        (y.sum() + p.sum()).backward()
        out.append((y.detach(), p.detach(), k.grad, m.w.grad.clone()))
        m.zero_grad()
    return out


@program
def fake_quant_ste(c):
    """Quantization-aware training: STE by detach and by a Function, LSQ step sizes, observers with min and max."""

    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.round(x)

        @staticmethod
        def backward(ctx, g):
            return g

    class Observer(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("lo", torch.tensor(float("inf")))
            self.register_buffer("hi", torch.tensor(float("-inf")))
            self.enabled = True

        def forward(self, x):
            if self.enabled and self.training:
                self.lo.copy_(torch.min(self.lo, x.detach().min()))
                self.hi.copy_(torch.max(self.hi, x.detach().max()))
            scale = (self.hi - self.lo).clamp(min=1e-8) / 255
            zero = torch.round(-self.lo / scale).clamp(0, 255)
            q = torch.clamp(Round.apply(x / scale) + zero, 0, 255)
            return (q - zero) * scale

    class QLinear(nn.Linear):
        def __init__(self, *a, bits=4, **k):
            super().__init__(*a, **k)
            self.step = nn.Parameter(
                self.weight.detach().abs().mean() * 2 / math.sqrt(2 ** (bits - 1) - 1)
            )
            self.q = 2 ** (bits - 1) - 1
            self.obs = Observer()

        def forward(self, x):
            g = 1.0 / math.sqrt(self.weight.numel() * self.q)
            s = (self.step - self.step * g).detach() + self.step * g
            w = (self.weight / s).clamp(-self.q - 1, self.q)
            w = ((w.round() - w).detach() + w) * s
            return F.linear(self.obs(x), w, self.bias)

    torch.manual_seed(0)
    m = nn.Sequential(QLinear(4, 8), nn.ReLU(), QLinear(8, 2, bits=3))
    opt = torch.optim.Adam(m.parameters(), 1e-2)
    run, out = c(m), []
    for i in range(5):
        if i == 3:
            m.apply(lambda s: setattr(s, "enabled", False) if isinstance(s, Observer) else None)
        loss = run(T(4 + i % 2, 4, seed=i)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        out.append(loss.detach())
    m.eval()
    return out, run(T(4, 4)).detach(), dict(m.state_dict())


@program
def kmeans_sinkhorn_mcmc(c):
    """k-means++ until nothing changes, Sinkhorn in the log domain with early exit, Langevin and Metropolis steps."""

    def kmeans(x, k, iters=20):
        centers = x[:1]
        for _ in range(1, k):
            d = torch.cdist(x, centers).min(1).values
            centers = torch.cat([centers, x[d.argmax()][None]])
        old = None
        for it in range(iters):
            assign = torch.cdist(x, centers).argmin(1)
            if old is not None and torch.equal(assign, old):
                break
            old = assign
            for j in range(k):
                if (assign == j).any():
                    centers[j] = x[assign == j].mean(0)
        return centers, assign, it

    def sinkhorn(C, eps=0.1, tol=1e-3):
        n, m = C.shape
        mu, nu = torch.full((n,), 1 / n), torch.full((m,), 1 / m)
        u, v = torch.zeros_like(mu), torch.zeros_like(nu)
        M = lambda: (-C + u.unsqueeze(1) + v.unsqueeze(0)) / eps
        for i in range(30):
            u1 = u
            u = eps * (torch.log(mu + 1e-8) - torch.logsumexp(M(), dim=1)) + u
            v = eps * (torch.log(nu + 1e-8) - torch.logsumexp(M().transpose(0, 1), dim=1)) + v
            if (u - u1).abs().sum().item() < tol:
                break
        return (torch.exp(M()) * C).sum(), i

    def metropolis(x, noise, us, logp):
        accepted, chain = 0, []
        for n, u in zip(noise, us):
            proposal = x + 0.5 * n
            if torch.log(u) < logp(proposal) - logp(x):
                x, accepted = proposal, accepted + 1
            chain.append(x)
        return torch.stack(chain), accepted

    def langevin(x, noise, energy, step=0.1):
        for n in noise:
            x = x.detach().requires_grad_(True)
            g = torch.autograd.grad(energy(x).sum(), x)[0]
            x = x - step * g + (2 * step) ** 0.5 * n
        return x.detach()

    out = []
    km, sk, me, la = c(kmeans), c(sinkhorn), c(metropolis), c(langevin)
    energy = lambda x: (x.square().sum(-1) - 1).square()
    for n in (8, 9, 10):
        out.append(km(T(n, 2, seed=n), 3))
        C = torch.cdist(T(n, 2, seed=1), T(5, 2, seed=2)).requires_grad_(True)
        cost, i = sk(C)
        cost.backward()
        out.append((cost.detach(), i, C.grad))
        out.append(
            me(torch.zeros(2), T(n, 2, seed=n), T(n, seed=5).sigmoid(), lambda x: -x.square().sum())
        )
        out.append(la(T(3, 2, seed=n), T(n - 5, 3, 2, seed=4), energy))
    return out


@program
def ppo_gae_update(c):
    """PPO: GAE backwards, minibatches by randperm, clipped loss, entropy, early stop by KL, two heads."""
    torch.manual_seed(0)

    class ActorCritic(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
            self.pi, self.v = nn.Linear(16, 2), nn.Linear(16, 1)
            self.log_std = nn.Parameter(torch.zeros(2))
            for m in self.modules():
                if isinstance(m, nn.Linear):
                    nn.init.orthogonal_(m.weight, 2**0.5)
                    nn.init.zeros_(m.bias)

        def forward(self, s):
            h = self.body(s)
            return torch.distributions.Normal(
                self.pi(h), self.log_std.exp().expand_as(self.pi(h))
            ), self.v(h).squeeze(-1)

    ac = ActorCritic()
    opt = torch.optim.Adam(ac.parameters(), 3e-3, eps=1e-5)

    def gae(r, v, done, last, gamma=0.99, lam=0.95):
        adv, acc = torch.zeros_like(r), 0
        for t in reversed(range(len(r))):
            nv = last if t == len(r) - 1 else v[t + 1]
            delta = r[t] + gamma * nv * (1 - done[t]) - v[t]
            adv[t] = acc = delta + gamma * lam * (1 - done[t]) * acc
        return adv, adv + v

    def update(s, a, logp, adv, ret, epochs=2, mb=4, clip=0.2, target_kl=0.05):
        stats = collections.defaultdict(list)
        for epoch in range(epochs):
            for idx in torch.randperm(len(s)).split(mb):
                dist, v = ac(s[idx])
                lp = dist.log_prob(a[idx]).sum(-1)
                ratio = (lp - logp[idx]).exp()
                A = (adv[idx] - adv[idx].mean()) / (adv[idx].std() + 1e-8)
                pg = -torch.min(ratio * A, ratio.clamp(1 - clip, 1 + clip) * A).mean()
                vl = 0.5 * (v - ret[idx]).pow(2).mean()
                loss = pg + 0.5 * vl - 0.01 * dist.entropy().sum(-1).mean()
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
                opt.step()
                with torch.no_grad():
                    kl = ((ratio - 1) - ratio.log()).mean().item()
                stats["loss"].append(loss.item())
                stats["kl"].append(kl)
            if kl > target_kl:
                break
        return {k: sum(v) / len(v) for k, v in stats.items()}

    g, u, out = c(gae), c(update), []
    for i in range(3):
        s = T(8, 3, seed=i)
        with torch.no_grad():
            d, v = ac(s)
            a = d.sample()
            lp = d.log_prob(a).sum(-1)
        adv, ret = g(T(8, seed=i + 3), v, (torch.arange(8) % 4 == 3).float(), v[-1])
        out.append((adv, u(s, a, lp, adv, ret)))
    return out


@program
def vqvae_gumbel(c):
    """VQ-VAE with EMA code book in buffers, perplexity, dead codes replaced, Gumbel softmax hard."""

    class VQ(nn.Module):
        def __init__(self, n, d, decay=0.9):
            super().__init__()
            self.decay, self.n = decay, n
            e = T(n, d, seed=2)
            self.register_buffer("embed", e)
            self.register_buffer("size", torch.ones(n))
            self.register_buffer("avg", e.clone())

        def forward(self, z):
            flat = z.permute(0, 2, 3, 1).reshape(-1, z.size(1))
            dist = (
                flat.pow(2).sum(1, keepdim=True)
                - 2 * flat @ self.embed.t()
                + self.embed.pow(2).sum(1)[None]
            )
            idx = dist.argmin(1)
            onehot = F.one_hot(idx, self.n).type(z.dtype)
            q = (
                F.embedding(idx, self.embed)
                .view(z.size(0), *z.shape[2:], z.size(1))
                .permute(0, 3, 1, 2)
            )
            if self.training:
                with torch.no_grad():
                    self.size.data.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
                    self.avg.data.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
                    n = self.size.sum()
                    size = (self.size + 1e-5) / (n + self.n * 1e-5) * n
                    self.embed.data.copy_(self.avg / size.unsqueeze(1))
                    dead = self.size < 0.5
                    if dead.any():
                        self.embed[dead] = flat[: int(dead.sum())].detach()
            loss = F.mse_loss(q.detach(), z)
            q = z + (q - z).detach()
            p = onehot.mean(0)
            return q, loss, torch.exp(-torch.sum(p * torch.log(p + 1e-10)))

    torch.manual_seed(0)
    enc, vq, dec = nn.Conv2d(1, 4, 2, 2), VQ(5, 4), nn.ConvTranspose2d(4, 1, 2, 2)
    opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-2)

    def step(x):
        q, loss, perp = vq(enc(x))
        rec = dec(q)
        total = F.mse_loss(rec, x) + 0.25 * loss
        opt.zero_grad()
        total.backward()
        opt.step()
        return total.item(), perp.item()

    run = c(step)
    out = [run(T(2, 1, n, n, seed=n)) for n in (6, 8, 8, 10)]
    vq.eval()
    gum = c(lambda l: F.gumbel_softmax(l, tau=0.5, hard=True))
    torch.manual_seed(1)
    return out, run(T(2, 1, 6, 6)), vq.embed, gum(T(4, 5)).argmax(-1).shape
