"""The grammar of random programs for deferred execution, as data.

Grammar::

    expression ::= a form of EXPRESSIONS[kind], its slots filled in
    statement  ::= a form of STATEMENTS, its slots filled in
    slot       ::= $M | $V | $W | $S | $K | $C | $R   an expression: a matrix of the program's
                                                      size, a vector as long as its rows, a vector
                                                      of any length, a number in a tensor, an
                                                      integer, a condition, a number
                 | $m | $v | $m2 | ...                a variable of that kind
                 | $newM | $newV2 | ...               a new variable
                 | $block                             a nested block

Some forms are wrong for some sizes: then eager mode says what is wrong with them.
"""

from __future__ import annotations

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "M": (
        "$m", "$m", "($M + $M)", "($M * $R)", "($M - $V)", "torch.where($m > $m2, $M, $M)",
        "($M @ $m.t() @ $m / 9)", "$M.sin()", "torch.relu($M)", "$m.clone()", "$M.clamp(-2, 2)",
        "F.softmax($M, -1)", "F.layer_norm($M, ($m.shape[-1],))", "$m.flip(0)", "$M.cumsum(1)",
        "torch.cat([$m[:1], $m[1:]])", "torch.stack([$M, $m]).mean(0)", "$m.expand_as($m2)",
        "$V.expand($m.shape)", "$m.t().contiguous().t()", "$m.double().float()",
        "$m.new_zeros($m.shape)", "F.dropout($M, 0.5)", "torch.rand_like($m)",
        "torch.randn($m.shape)", "torch.bernoulli($M.sigmoid())", "torch.full($m.shape, $R)",
        "$m.masked_fill($m > 0, $R)", "$M.sort(1)[0]", "$m.roll($K, 1)",
        "torch.zeros_like($m).index_copy(0, torch.tensor([0]), $m[:1])", "($m.long() % 3)",
        "torch.empty_like($m).copy_($M)", "$M.reshape($m.shape)", "$m.detach()", "$M.pow(2)",
        "F.linear($M, torch.eye($m.shape[-1]))", "torch.addmm($M, $m[:, :1], $m[:1])",
        "$m.tril()", "$m.gather(1, $m.argsort(1))", "($m > $R)", "($M / ($m2.abs() + 1))",
        "torch.nn.functional.gelu($M)", "$M.softmax(0)",
        "$m.scatter_add(0, torch.zeros_like($m, dtype=torch.long), $m)",
    ),
    "V": (
        "$v", "$v", "$m[0]", "$M.sum(0)", "$m[-1]", "($V * $R)", "($V + $v)", "$m.mean(0)",
        "$m.max(0).values", "torch.arange(float($m.shape[1]))", "$m.select(0, $k - 1)",
        "$m.unbind()[0]", "$v.clone()", "torch.rand($m.shape[1])", "$V.exp().clamp(max=9)",
        "$m.t()[:, 0]", "$v.neg()", "torch.ones($v.shape[0])", "$m[$k % $m.shape[0]]",
        "torch.einsum('ij->j', $M)", "$m.amax(0)", "torch.linspace(0, 1, $m.shape[1])",
        "$v.detach()", "$m.var(0, correction=0)",
    ),
    "W": (
        "$w", "$w", "$v", "$m.view(-1)", "$m.reshape(-1)", "$m.flatten()", "$w[1:]", "$w[::2]",
        "$m.diagonal()", "$m[:, 0]", "$w.flip(0)", "torch.cat([$w, $V])", "($w * $R)",
        "$w[$w > 0]", "$w.unique()", "$w.topk(2)[0]", "$w.repeat(2)", "$w.narrow(0, 0, 2)",
        "$w.split(2)[0]", "$w.nonzero().flatten()", "torch.randperm($w.numel())",
        "$w.sort().indices", "$w.as_strided((2,), (1,), 1)", "$M.sum(1)", "$w.unfold(0, 2, 1)[0]",
        "$w.chunk(2)[-1]", "torch.multinomial($w.abs() + 1, 2)", "$M.argmax(1)",
        "$w.contiguous()", "$w.to(torch.float64)", "$w[torch.tensor([0, 1, 0])]", "$w.squeeze()",
        "$m.T.ravel()", "torch.tensor([1.0, $S, $R])",
    ),
    "S": (
        "$s", "$s", "$w.sum()", "$M.mean()", "$m[0, 0]", "$v[$k - 1]", "($S + $S)", "($S * $R)",
        "torch.tensor($R)", "$m.norm()", "$w.max()", "$v.dot($v2)", "$w[0]", "$S.sin()",
        "$m.std()", "$w.prod().clamp(-9, 9)", "torch.rand(())", "$s.clone()",
        "$m.count_nonzero()", "F.mse_loss($M, $m)",
    ),
    "K": (
        "$k", "1", "2", "($k + 1)", "$m.shape[0]", "$w.numel()", "$m.dim()", "int($s > 0)",
        "$v.shape[0] // 2",
    ),
    "R": (
        "0.5", "2", "-1.5", "$k", "float($k)", "0", "1", "$s", "($k / 4)", "1.25", "3",
    ),
    "C": (
        "$s > 0", "$k > 1", "$w.sum() > $R", "($m > 0).any()", "$m is $m2", "$m.shape[0] > 2",
        "$s.item() < $R", "bool($S)", "torch.equal($m, $m2)", "$m.is_contiguous()",
        "$w.numel() > 5", "torch.allclose($V, $v)", "$m._version > 1", "$m._is_view()",
        "$w.storage_offset() == 0", "$m._base is $m2",
    ),
}  # fmt: skip

STATEMENTS: tuple[str, ...] = (
    # Names
    "$newM = $M", "$newM = $M", "$newV = $V", "$newW = $W", "$newS = $S", "$newK = $K", "$m = $M",
    "$v = $V", "$w = $W", "$s = $S", "$newM = $m", "$newM, $newV = $M, $V",
    # Views
    "$newV = $m[0]", "$newW = $m.view(-1)", "$newM = $m.view($m.shape)", "$newW = $w[1:]",
    "$newS = $w[0]", "$newM = $m.t().t()", "$newW = $m.diagonal()", "$newW, $newW2 = $w.chunk(2)",
    "$newM = $m.detach()", "$newW = $m[:, -1]", "$newM = $m.data", "$newV = $m.unbind()[-1]",
    "$newM = $v.expand($m.shape)", "$newW = $w.as_strided(($k,), (2,), 1)", "$newM = $m[:, :]",
    "$newM = $m.view_as($m2)", "$newS = $m[0, $k - 1]", "$newW = $m.view(torch.int32).view(-1)",
    "$newM = $m[None].squeeze(0)", "$newW = $w.view(-1, 1).squeeze(1)",
    "$newM = torch.as_strided($w, $m.shape, $m.stride())",
    "$newW = $w.unflatten(0, (-1, 1))[:, 0]",
    # Writes
    "$m.add_($M)", "$m.mul_($R)", "$m += $V", "$m[0] = $V", "$m[:, 0] += $R", "$w.zero_()",
    "$w.copy_($W)", "$w[$w > 0] = $R", "$m.clamp_(-1, 1)", "$w.fill_($S)", "$v.sub_($V)",
    "$v *= 2", "$w[0] = $S", "$w[1:].add_($w[:-1])", "$m.t_()\n$m.t_()", "$s.add_(1)", "$s += $S",
    "$m[$k - 1] = $v", "$w.unsqueeze_(0)\n$w.squeeze_(0)", "torch.add($m.clone(), 1, out=$m2)",
    "torch.sin($w, out=$w)", "$m.copy_($V)", "$newM = $m.add_(1)\nprint($newM is $m)",
    "$m.diagonal().mul_($R)", "$w[::2] -= $R", "$m.index_add_(0, torch.tensor([0]), $M[:1])",
    "$w.masked_fill_($w < 0, $R)", "$m.view(-1)[1] = $R", "$m.exp_().clamp_(max=3)",
    "$m.addcmul_($M, $M, value=0.5)", "$m.lerp_($M, 0.25)",
    "$w.sort(out=(torch.empty(0), torch.empty(0).long()))",
    "$newM, $newV = $m.clone(), $v.clone()\n$newM[0].copy_($newV)", "$m.data = $M",
    "$w.resize_(1)", "$m.set_($M)", "$w.put_(torch.tensor([0]), $w[-1:].clone())",
    "$m.swap = 1\nprint($m.swap)", "torch._foreach_add_([$m, $v], 1)",
    "torch._foreach_mul_([$m, $s], [2.0, 0.5])",
    "$newM, $newV = torch._foreach_add([$m, $v], $R)",
    # Random numbers
    "$m.normal_()", "$m.bernoulli_(0.5)", "torch.manual_seed($k)", "$w.uniform_()",
    "print(torch.rand(2))", "$newM = F.dropout($M, 0.25)",
    "$newV = torch.randint(9, $v.shape).float()", "print(torch.get_rng_state().sum())",
    "$newS = torch.normal($s, 1.0)", "with torch.random.fork_rng():\n    $v.exponential_()",
    # Looks
    "print($w)", "print($m.shape, $m.dtype, $m.stride())", "log.append($S.item())",
    "print($m._version, $w._version)", "print($m is $m2, $m.data_ptr() == $w.data_ptr())",
    "print($w.storage_offset(), $w.is_contiguous())", "log.append($m.tolist())",
    "print(f'{$s:.3f}', float($S) > 1, len($w))", "print($m)", "log.append($w.clone())",
    "log.append($m)", "print($w.numpy().sum() > 0)", "print($m._base is None, $m._is_view())",
    "log.append($m.numel() + $w.dim())", "print([round(float(e), 3) for e in $w[:2]])",
    "print($s > 0, $m.eq($m2).all())", "print($m in [$m2])", "print(repr($w.int()))",
    "print($m.untyped_storage().nbytes())", "print($v.numpy() is None, $m.element_size())",
    "print(hash($m) == hash($m2), id($m) == id($m2))",
    # Steps
    "barrier()", "barrier()", "barrier()\n$w.add_(1)\nbarrier()", "del $m\n$m = $M",
    "$newM = $M\nbarrier()\n$newM.mul_(2)",
    # Control flow
    "if $C:\n    $block", "if $C:\n    $block\nelse:\n    $block",
    "for i in range(2):\n    $block", "for i in range($k):\n    $block\n    barrier()",
    "for $newV in $m:\n    $newV += 1",
    "while $s.abs() < 3:\n    $s = $s.abs() * 2 + 1\n    $block",
    "with torch.no_grad():\n    $block",
    "with torch.inference_mode():\n    $newM = $M\n$newM = $newM + 0",
    "h = lambda t, k=$k: t * k + $s\n$newM = h($m)",
    "def g(t):\n    t.mul_($R)\n    return t[0]\n$newV = g($m)",
    "torch.set_default_dtype(torch.float64)\n$newV = torch.ones($v.shape[0])\n"
    "torch.set_default_dtype(torch.float32)",
    # Errors
    "try:\n    $block\n    $m + torch.ones(7, 7)\nexcept RuntimeError as error:\n"
    "    print(error, error.__traceback__.tb_lineno)",
    "try:\n    $v.add_(torch.ones(2, 9))\nexcept RuntimeError as error:\n    print(error)",
    "try:\n    $m.view(7)\nexcept RuntimeError as error:\n    print(error)",
    "try:\n    $block\n    $w[99]\nexcept IndexError as error:\n    print(error)\n"
    "finally:\n    $block",
    "$m @ $m", "$w[$k + 3]", "$m.sum($k)", "$v.expand(2, $k).add_(1)",
    "try:\n    $m.long().add_(0.5)\nexcept RuntimeError as error:\n"
    "    print(type(error), error)",
    "try:\n    bool($m)\nexcept Exception as error:\n    print(error)",
    "try:\n    torch.cat([$m, $v])\nexcept RuntimeError as error:\n    print(error)",
    "if $C:\n    raise ValueError($m.shape, $s.item() > 0)",
)  # fmt: skip

GRADIENTS: tuple[str, ...] = (
    "print($m.requires_grad, $m.is_leaf, $m.grad_fn is None)",
    "$newM = $m.detach().requires_grad_()",
    "$newM = $m.detach().clone().requires_grad_()\n($newM * $M).sum().backward()\n"
    "log.append($newM.grad)",
    "$newV = torch.autograd.grad($S * $m.sum(), $m, allow_unused=True)[0]\n"
    "$newV = $v if $newV is None else $newV.sum(0)",
    "if $m.requires_grad:\n    $m.retain_grad()\n    log.append($m)",
    "if $m.requires_grad:\n    $m.register_hook(lambda g: g * 2)",
    "if $m.requires_grad:\n    $m.register_hook(lambda g: print('hook', g.shape))", "print($m)",
    "print($s)", "with torch.no_grad():\n    $m.add_(1)",
    "with torch.enable_grad():\n    $newM = $M * 2",
    "$newM = torch.utils.checkpoint.checkpoint(lambda t: t.sin() * $R, $m, use_reentrant=False)",
    "$newM = torch.nn.Parameter($M.detach().float())\n"
    "($newM.sin() * $m).sum().backward(retain_graph=True)\nlog.append($newM.grad)\n"
    "with torch.no_grad():\n    $newM -= 0.1 * $newM.grad\n$newM.grad = None",
    "layer = torch.nn.Linear($m.shape[1], 2)\n"
    "opt = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9)\nfor _ in range(3):\n"
    "    opt.zero_grad()\n    layer($m.detach().float()).square().mean().backward()\n"
    "    opt.step()\n    barrier()\nlog += [*layer.parameters()]",
    "$newM = $m.detach().clone().requires_grad_()\nopt = torch.optim.AdamW([$newM], 0.1)\n"
    "for _ in range(2):\n    ($newM * $m.detach()).sin().sum().backward()\n    opt.step()\n"
    "log.append($newM.grad)",
    "try:\n    y = $m.exp()\n    y.add_(1)\n    y.sum().backward()\n"
    "except RuntimeError as error:\n    print(str(error)[:60])",
    "$newM = $m.clone().requires_grad_()\n"
    "g, = torch.autograd.grad(($newM ** 3).sum(), $newM, create_graph=True)\n"
    "log.append(torch.autograd.grad(g.sum(), $newM)[0])",
    "try:\n    $m.backward()\nexcept RuntimeError as error:\n    print(error)",
    "log.append(torch.func.grad(lambda t: (t * t).sum())($v.detach().float()))",
)  # fmt: skip
