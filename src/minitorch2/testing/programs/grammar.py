"""The grammar of random programs, as data.

Grammar::

    expression ::= a form of EXPRESSIONS[kind], its slots filled in
    statement  ::= a form of STATEMENTS, its slots filled in
    slot       ::= $T | $N | $C | $L | $S | $O     an expression: tensor of shape (3,), integer,
                                                   condition, list of integers, string, object
                 | $D                              a condition on the data of a tensor
                 | $t | $n | $l | $o | $t2 | ...   a variable of that kind
                 | $newT | $newT2 | ...            a new variable, known behind the statement
                 | $tmpN | ...                     a new variable, known in the statement's blocks
                 | $block                          a nested block, indented as the slot is

Each expression slot is filled on its own; a variable slot stands for one variable throughout its
form, and $t2, $n2 for another. A new kind of program is one more line here.
"""

from __future__ import annotations

VARIABLES = {"T": ["x", "y"], "N": ["n"], "L": ["items"], "O": ["box", "table"]}
"""The variables that every program starts with, by kind: the parameters of its function."""

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "T": (
        "$t", "$t", "($T + $T)", "($T - $t)", "($T * 0.5)", "($T + $N)", "($N - $T)", "-$T",
        "torch.sin($T)", "$T.abs()", "torch.where($t > $t2, $T, $T)", "torch.relu($T)",
        "torch.stack([$T, $T]).sum(0)", "torch.cat([$T, $t])[:3]", "($T if $C else $T)",
        "box.scaled($N)", "box.double", "table['b']", "$t.clone()", "(lambda t: t + $t)($T)",
        "sum([$T, $t])", "[$T, $T][$n % 2]", "$t[[2, 1, 0]]", "box($T)", "(box + $T).value",
        "($T + box).value", "Box.of($T).double", "Crate.half($T)", "Crate($T).scaled($N)",
        "layer($T)", "layer($t, part=$n)", "functools.reduce(operator.add, [$T, $t, $t])",
        "Point($T, $N).x", "Pair($T).first", "(lambda *a, k=$N: a[0] * k)($T, $t)",
        "shifted($T, by=$N)", "functools.partial(shifted, by=$N)($T)", "$t.view(3, 1).sum(1)",
        "max([$T, $T], key=lambda t: t.ndim)", "next(iter([$T, $t]))",
        "$t.to(torch.float64).float()",
        "torch.nn.functional.softmax($T, -1)", "double_all($T, p=$t)[-1]",
        "[t for t in ($T, $t) if t is not None][0]", "{$n: $T}.popitem()[1]", "$t.detach()",
        "torch.tensor([$n, 1.0, $n])", "torch.full((3,), float($n))", "$t.expand(2, 3)[$n % 2]",
        "dict(k=$T).get('k')", "getattr(box, 'value')", "$t[..., None].squeeze(-1)", "$t.flip(0)",
        "(Mode.LOW.value * $T)", "torch.arange(3) + $T", "$t.new_zeros(3)",
        "operator.itemgetter(0)([$T])",
        "list(map(torch.neg, [$T]))[0]", "vars(box)['value']", "(lambda: $T)()",
        "$t.masked_fill($t > 0, $n)",
        "($T).reshape(1, 3)[0]", "$t.unbind()[$n % 3] + $T", "$t.chunk(3)[$n % 3].expand(3)",
        "measured($T)", "chosen($T)", "told($T)", "guarded($T)", "merged($T, *[$t], w=$t, k=$n)",
        "torch.stack([t * w for t, w in zip([$T, $t], (1, $n))]).sum(0)",
        "Slotted($T, $n).scaled()",
        "next(t for t in ($T, $t) if t.dim())", "sum((t for t in [$T, $t] if $C), $t)",
        "[f(t) for f in [lambda t, i=i: t * i for i in range(2)] for t in [$t]][1]",
    ),
    "N": (
        "$n", "$n", "1", "2", "($N + $N) % 7", "($N * $n) % 5", "$N - $n", "len($L) % 5",
        "$t.shape[0]", "len($t)", "$t.ndim", "($L + [0])[0] % 3", "counter % 4", "max($N, $n)",
        "len(box)", "box.seen % 3", "int($C)", "abs($N)", "sum(v for v in positives([$N, $n]))",
        "len($S) % 6", "table.get('z', $N) % 4", "sum([i * $n for i in range(3)]) % 5",
        "{'p': $N}['p']", "bump($n) % 3", "remember($n) % 4", "factorial($n % 4) % 5",
        "divmod($N, 3)[1]", "Point(None, $N).moved(2).y % 6", "(lambda p=$N: p)()", "$n // 2",
        "len(set($L)) % 4", "sorted($L + [$n], key=lambda v: -v)[0] % 4", "Mode.HIGH.value",
        "min($n, $n2, key=abs)", "len({*$L}) % 3", "len(dict(a=1, **{'b': $n}))", "$n % 2 or 3",
        "functools.reduce(lambda p, q: (p + q) % 5, $L, $n)",
        "next((v for v in $L if v > $n), 4) % 5",
        "collections.Counter($L)[$n]", "len(list(itertools.chain($L, [1]))) % 4", "Box.total % 3",
        "sum(map(lambda v: v % 2, $L)) % 4", "list(zip($L + [1], [$n]))[0][1]", "hash($n) % 5",
        "len(list(itertools.takewhile(lambda v: v > 0, $L)))", "operator.add($n, $n2) % 6",
        "len([v for v in $L for w in range(2) if v != w]) % 5", "round($N / 2)", "(-$n) % 4",
        "($n if $C else $N)", "pow(2, $n % 3)", "int(f'{$n}' or 1) % 4", "len(box.__dict__) % 4",
        "int($t.abs().sum().item() > 2)", "ord('a') % 5", "$n & 3", "1 << ($n % 3)", "$t.size(0)",
        "Pair($n).second", "getattr(box, 'extra', $n) % 3", "[*$L, 1].index(1)",
        "len((*$L, $n)) % 4",
        "next(itertools.islice(itertools.count($n), 1, None)) % 4", "bool($L) + $n",
        "cached($n) % 5", "cached.cache_info().hits * 0", "len(table.keys() & {'a', 'b', 'z'})",
        "len(set(table.items() if $n < 0 else []) | {$n})", "sum(1 for v in $L if v > $n) % 4",
        "only(p=$n)", "only(q=$N, p=$n) % 5", "max($L, default=$n) % 5",
        "{v: v for v in $L}.get($n, 1)", "$S.find('-')",
        "sum([v * w for v in [1, $n] for w in [v, 2] if v != w]) % 5", "$S.count('a')",
        "layer.calls.dim()", "int('low'.isalpha()) + $n", "bisect.bisect_left(sorted($L), $n) % 4",
    ),
    "C": (
        "$N < $n", "$n == $N", "'a' in table", "$n in $L", "not $L", "$n > 1",
        "isinstance($o, Box)",
        "$t is x", "box.seen > $n", "$n and $N", "$n or $L", "counter % 2", "$n <= $n < 4",
        "hasattr(box, 'extra')", "$t.dim() == 1", "any(v > $n for v in $L)", "all(v for v in $L)",
        "$o is box", "$o is not None", "type($n) is int", "callable($o)", "$S == 'low'",
        "$l == [1, $n]", "$L < [2]", "{1, $n} <= {1, 2, 3}", "$n in {1: 2, 3: 4}",
        "$n not in (1, 2)",
        "issubclass(Crate, Box)", "Mode($n % 2 + 1) is Mode.LOW", "$S.startswith('c')",
        "torch.is_grad_enabled()", "$t.requires_grad", "box == Box(None)", "bool(history)",
    ),
    "L": (
        "$l", "$l", "[$n, $n]", "($l + [$N])", "$l[1:]", "$l[::-1]", "list(range($n % 4))",
        "[v for v in $L if v % 2]", "sorted($L)", "list(positives($L))", "[v * $n for v in $l][:4]",
        "list({v: 1 for v in $l})", "[*$l, $N]", "list(filter(None, $L))", "$l.copy()",
        "[v for v, w in zip($L, $l)]", "list(reversed($l))",
        "list(collections.deque($L, maxlen=2))",
        "list(itertools.accumulate($l))[:3]", "[len(k) for k in table]", "list(dict.fromkeys($L))",
        "[i + v for i, v in enumerate($L)]", "([$n] * 2)", "list(map(abs, $L))",
        "(lambda *a: list(a))(*$l)",
    ),
    "S": (
        "'low'", "f'c{$n}'", "str($N)", "f'{$n:>3}|{$n!r}'", "'-'.join(map(str, $L))", "repr($L)",
        "('%d of %s' % ($n, $L))", "'{} {k}'.format($n, k=$N)", "type($o).__name__", "'Ab'.lower()",
        "$S.upper()", "$S.replace('c', 'k')", "$S.strip('c')", "$S[::-1]", "$S[$n:]", "$S.title()",
        "'|'.join(sorted({$S, 'b'}))", "$S.partition('-')[0]", "format($S, '*^9')", "$S.zfill(4)",
        "' '.join(f'{k}={v}' for k, v in {'k': $n, 'j': $N}.items())",
        "Mode.LOW.name", "'a,b'.split(',')[$n % 2]", "box.__class__.__qualname__", "'x' * ($n % 3)",
    ),
    "O": (
        "$o", "box", "table", "None", "$n", "($n, $S)", "Crate($T)", "Pair($T, $n)", "{'k': $T}",
        "Point($T, $N, $L)", "{'t': $T, 'l': $l}", "(lambda v: v)($o)", "Mode.HIGH", "{$n, 9}",
        "collections.OrderedDict(k=$T)", "collections.deque([$T, $n])", "frozenset($L)", "$l",
    ),
    "D": ("$t.sum() > 0", "($t > 0).any()", "($t.abs() < 2).all().item()", "$t[0] > $t[1]"),
}  # fmt: skip

STATEMENTS: tuple[str, ...] = (
    # Names
    "$newT = $T",
    "$newT = $T",
    "$t = $T",
    "$newN = $N",
    "$newL = $L",
    "$newO = $O",
    "$newT, $newN = $T, $N",
    "$newT = (kept := $T) + kept",
    "$newN, $newT = ($N, $T)",
    "($newT, *_), $newN = ($T, 1, 2), $N",
    "$newN, *$newL = [$N, *$L]",
    "$newT = $newT2 = $T",
    "if 'gone' in table: del table['gone']",
    # Writes
    "$t = $t * 1\n$t += $T",
    "$n += $N",
    "x.add_($n)",
    "y.mul_(0.5)",
    "$t = $t.clone()\n$t[$n % 3] = $n",
    "x[:2] = $T[1:]",
    "x[0] += y[1]",
    "bump($N)",
    "counter += $n",
    "counter += $n\ncounter %= 5",
    "counter = counter * 2 + $N\ncounter = bump(counter % 3)",
    "box.seen += $n",
    "box.value = $T",
    "box.extra = $N",
    "box.double = $T",
    "box.items = $l",
    "setattr(box, 'extra', $n)",
    "Box.total = $N",
    "box.value = box.value + 0\nbox.value.add_(1)",
    "$l.append($N)",
    "$l.insert(0, $n)",
    "$l.extend($L[:4])",
    "$l.reverse()",
    "$l.sort(key=lambda v: (v % 3, v))",
    "$l[:1] = [$N]",
    "$l += [$n]",
    "$l = $l + [$n]",
    "$l.clear()",
    "if $l: $l.pop()",
    "del $l[1:]",
    "table['z'] = $N",
    "table['b'] = $T",
    "table['a'] = $N",
    "table.update(w=$N)",
    "table.pop('w', None)",
    "table.setdefault('q', []).append($N)",
    "table |= {'r': $n}",
    "history.append($N)",
    "history[-1:] = [$n]",
    "layer.count = $N",
    "$newO = collections.defaultdict(list)\n$newO[$n].append($T)\n$newO['b']",
    "$newO = {$n, 1}\n$newO.add($N)\n$newO.discard(2)",
    "$newO = collections.deque($L, maxlen=3)\n$newO.appendleft($N)",
    "$newO = Point($T, $N)\n$newO.tags.append($n)",
    "$newO = Watched()\n$newN = $newO.spy + $newO.spy",
    "$newO = [[$n]] * 2\n$newO[0].append($N)",
    "$newO = Crate($T)\n$newN = $newO.free_width\n$newO.again = $newO",
    "layer.calls.add_($n)",
    "layer.weight.data.mul_(0.5)",
    "$newT = $t.clone()\n$newT.data = $t.detach() * $n",
    "layer.extra = $T",
    "layer.register_buffer('seen', torch.zeros(3) + $n)",
    "$newT = $t.clone()\n$newT2 = $newT[1:]\n$newT2.add_($n)\n$newT[0] = $newT2[0]",
    "$newT = y.clone()\n$newT.view(3, 1)[:, 0].mul_($n)\n$newT.unsqueeze(0).sub_(1)",
    "$newT = $t.clone()\n$newT[$newT > 0] = $n",
    "$newO = Slotted($T, $n)\n$newO.size = $N\n$newN = $newO.size + len($newO.log) % 3",
    "$newO = table.keys()\ntable['k'] = $n\n$newN = len($newO) % 4",
    "$l.sort(reverse=$n > 1)",
    "history.extend(sorted($L, key=abs, reverse=True)[:2])",
    "mark = $n\n$newN = mark\ndel mark",
    "$newL = [v for v in $L if not v % 2 or v > $n]",
    # Output and calls
    "$newT = measured($t) + told($t)",
    "$newN = cached($N) % 7",
    "print($N)",
    "print(f'{$n:>3} {$n!r}', $L)",
    "print('sum', $t.sum().item())",
    "print($t.shape, $l, sep='/')",
    "speak($N)",
    "torch.nn.functional.relu($t, inplace=$n > 5)",
    # What may raise
    "assert $C, f'assertion {$n}'",
    "$l[$N]",
    "table['missing'] if $C else None",
    "$n // $n2",
    "box.absent if $C else None",
    "if $C: raise ValueError($n)",
    "if $C: raise Complaint($n)",
    "$t + torch.ones(4) if $C else None",
    "$newN, $newN2 = $L[:2]",
    # Ways out
    "if $C: return ($T, $N)",
    "if $D: return [$t, $l]",
    # Blocks
    "if $C:\n    $block",
    "if $C:\n    $block\nelse:\n    $block",
    "if $C:\n    $block\nelif $C:\n    $block\nelse:\n    $block",
    "if $D:\n    $block",
    "if $D:\n    $block\nelse:\n    $block",
    "for $tmpN in range($n % 4):\n    $block",
    "for $tmpN in $L[:3]:\n    $block\n    if $C: break\nelse:\n    $block",
    "for $tmpN in reversed([*$L, $n]):\n    $block",
    "$newL = []\nfor $tmpN in x.argsort().tolist():\n    $newL.append($tmpN + $n)\n    $block\n"
    "for $tmpN in $newL:\n    $block\n    if len($newL) < 5: $newL.append($tmpN - 9)",
    "for $tmpN, _ in enumerate(x):\n    $block\n    if $C: continue\n    $block",
    "for $tmpN in positives([$n, 0, 2]):\n    $block",
    "for $tmpN, _ in zip(range(3), table):\n    $block",
    "for _, $tmpN in sorted({'k': $n, 'j': 1}.items()):\n    $block",
    "$neww = 0\nwhile $neww < 3:\n    $neww += 1\n    $block",
    "for $tmpT in x:\n    $newT = $tmpT + y\n    break",
    "for $tmpT in (x, $T):\n    $block",
    "try:\n    $block\nexcept (ValueError, LookupError, ZeroDivisionError) as $tmpO:\n"
    "    print(type($tmpO).__name__, $tmpO)\n    $block",
    "try:\n    $block\n    raise Complaint($n)\nexcept Complaint as $tmpO:\n"
    "    history.append($tmpO.amount)\n    $block\nelse:\n    $block\nfinally:\n    $block",
    "try:\n    $block\n    $l[99]\nexcept IndexError:\n    $block",
    "try:\n    try:\n        $block\n        1 // 0\n    finally:\n        $block\n"
    "except ZeroDivisionError as $tmpO:\n    print($tmpO.__context__, $tmpO)",
    "try:\n    try:\n        raise KeyError($n)\n    except KeyError as $tmpO:\n"
    "        raise ValueError($n) from $tmpO\nexcept ValueError as $tmpO2:\n"
    "    print(repr($tmpO2.__cause__))\n    $block",
    "with torch.no_grad():\n    $block",
    "with noting('n') as $tmpO:\n    $block",
    "with Swallow(ValueError, ZeroDivisionError):\n    $block\n    $n // ($n % 2)\n    $block",
    "with Crate($T) as $tmpO, Swallow(LookupError):\n    $block\n    table['nothing']",
    "with contextlib.suppress(LookupError):\n    $block\n    $l[77]",
    "with contextlib.ExitStack() as $tmpO:\n    $tmpO.enter_context(noting('stack'))\n"
    "    $tmpO.callback(history.append, $n)\n    $block",
    "with torch.enable_grad():\n    $block",
    "with torch.inference_mode():\n    $block",
    "with Swallow(ValueError):\n    with noting('inner'):\n        $block\n"
    "        raise Complaint($n)",
    "try:\n    $block\n    guarded($t)\n    print($n // ($n % 2))\nexcept ZeroDivisionError:\n"
    "    $block\n    try:\n        raise\n    except ZeroDivisionError as $tmpO:\n"
    "        print('again', $tmpO)",
    "match $n:\n    case 0:\n        $block\n    case 1 | 2:\n        $block\n"
    "    case _:\n        $block",
    "match ($n, $l):\n    case (1, [first, *_]):\n        history.append(first)\n        $block\n"
    "    case (_, []):\n        $block",
    "match $O:\n    case Point(x=found, y=1):\n        history.append('point')\n"
    "    case {'k': found}:\n        history.append('mapping')\n"
    "    case Box(value=found):\n        $block",
    # Functions and classes
    "def $newf(p, q=$N, *rest, k=1):\n    product = p * q\n    return product + len(rest) * k\n"
    "$newT = $newf($T, $n, 5, k=$N)",
    "$newN = $N\ndef $newf(p):\n    nonlocal $newN\n    $newN += 1\n    return p + $newN\n"
    "$newT = $newf($T) + $newf($t)",
    "def $newf(p):\n    print('in', $n)\n    return p - $T\n$newT = $newf($T)",
    "def $newf(p):\n    for v in range(2):\n        got = yield p + v\n"
    "        history.append(got)\n    return $n\n$newT = sum($newf($T))",
    "$newO = running()\nnext($newO)\n$newO.send($n)\n$newN = $newO.send($N) % 9\n$newO.close()",
    "def $newf(p, depth):\n    return p if depth == 0 else $newf(p + depth, depth - 1)\n"
    "$newT = $newf($T, $n % 3)",
    "@logged\ndef $newf(p):\n    return p * $n\n$newT = $newf($T)",
    "class $newK(Box):\n    extra = $n\n    def scaled(self, factor):\n"
    "        return super().scaled(factor) - self.extra\n$newT = $newK($T).scaled($N)",
    "$newN = $N\ndef $newf():\n    nonlocal $newN\n    del $newN\n$newf()\n$newN = $n",
    "def $newf(p, *, scale=$n, **named):\n    return p * scale + sum(named.values())\n"
    "$newT = $newf($T, **{'u': $N, 'v': $t})",
    "def $newf(p):\n    def inner(q):\n        if q.sum() > 0:\n            return q - 1\n"
    "        return q + $n\n    return inner(p) + inner(-p)\n$newT = $newf($T)",
    "$newO = (lambda v: (v, $t))\n$newT = $newO($T)[0]",
    "$newO = [lambda v=v: v + $n for v in range(2)]\n$newN = $newO[1]() % 8",
    "$newO = iter($L)\n$newN = next($newO, $n) + next($newO, 1)",
    # Ways out of blocks that clean up, and breaks inside of them
    "for $tmpN in $L[:3]:\n    try:\n        $block\n        if $C: continue\n        $block\n"
    "    finally:\n        history.append($tmpN)",
    "for $tmpN in range(3):\n    try:\n        $block\n        if $C: break\n    finally:\n"
    "        print('left', $tmpN)",
    "try:\n    $block\n    if $C: return ($T, $l)\nfinally:\n    $block",
    "try:\n    $block\nfinally:\n    if $C: return $n",
    "with noting('out'):\n    $block\n    if $C: return $T\n    $block",
    "for $tmpN in range(2):\n    with Swallow(LookupError), noting('loop'):\n        $block\n"
    "        if $C: continue\n        $l[88]",
    "@contextlib.contextmanager\ndef $newf(p):\n    print('open')\n    try:\n        yield p + 1\n"
    "    except ValueError:\n        print('caught')\n    finally:\n"
    "        history.append('close')\nwith $newf($T) as $tmpT:\n    $block\n"
    "    if $C: raise ValueError",
    "try:\n    $block\n    raise Complaint($n)\nexcept Complaint as $tmpO:\n    try:\n"
    "        $l[50]\n    except IndexError as inner:\n"
    "        print(type(inner.__context__).__name__)\n"
    "        $block\n        if $C: raise ValueError('again') from inner",
    # Generators, half way at a break
    "for $tmpN in positives($L[:4]):\n    print('half', $tmpN)\n    $block\n    if $C: break",
    "$newO = positives([$n, 1, 2])\n$newN = next($newO, 3)\nprint('between')\n"
    "$newN = ($newN + sum($newO)) % 4",
    "$newO = (v * $n for v in $L)\nprint(next($newO, None))\n$newL = list($newO)[:4]",
    "def $newf():\n    try:\n        yield $n\n        yield 2\n    finally:\n"
    "        history.append('closed')\nfor $tmpN in $newf():\n    $block\n    if $C: break",
    "def $newf(p):\n    got = yield from positives([$n, 1])\n    print(got)\n    yield p.shape[0]\n"
    "$newN = sum($newf($T)) % 5",
    "async def $newf(p):\n    print('async')\n    return p + $n\n$newT = $t\ntry:\n"
    "    $newf($T).send(None)\nexcept StopIteration as stop:\n    $newT = stop.value",
    # Variables of loops, comprehensions and patterns
    "$newO = []\nfor v in range(3): $newO.append(lambda: v * $n)\nprint('late')\n"
    "$newN = sum(g() for g in $newO) % 7",
    "$newL = [kept for v in $L if (kept := v + $n) > 0]",
    "$neww = 0\nwhile (kept := $neww) < 2:\n    $neww += 1\n    $block\n    history.append(kept)",
    "$newO = {v: [w * $n for w in range(v % 3)] for v in $L}\n$newN = len($newO) % 4",
    "$newL = [w for row in [[v, $n] for v in $L[:2]] for w in row if w]",
    "for first, *others in [[$n, 1, 2], [3]]:\n    print(others)\n    $block",
    "match $l:\n    case [first, second, *rest] if first > $n:\n        print(rest)\n"
    "        $block\n    case [] | [_]:\n        $block\n    case whole:\n"
    "        history.append(len(whole))",
    "match {'kind': $n, 'at': ($n, $N)}:\n    case {'kind': 1, **others}:\n"
    "        print(sorted(others))\n    case {'at': (int(first), _)} if first:\n        $block",
    # Containers and objects that change around a break
    "for $tmpS in list(table):\n    print($tmpS)\n    table[$tmpS + '_'] = $n\n"
    "    if len(table) > 6: break",
    "$newO = {$n, 5}\nfor $tmpN in [1, 2]:\n    $newO.add($tmpN)\n    print(sorted($newO))\n"
    "    $newO.discard($n)",
    "$newO = {'p': $T}\nprint(list($newO))\n$newO.update(q=$n)\nprint($newO.pop('q'))\n"
    "$newT = $newO['p']",
    "try:\n    for key in table:\n        print(key)\n        table[key + str(len(table))] = $n\n"
    "except RuntimeError as $tmpO:\n    print($tmpO)",
    "for index, $tmpN in enumerate(list($l)):\n    $l[index] = $tmpN + $n\n    $block",
    "class $newK:\n    made = []\n    def __init__(self, p):\n        print('make')\n"
    "        self.made.append($n)\n        self.p = p\n    @property\n    def q(self):\n"
    "        print('get')\n        return self.p * len(self.made)\n$newT = $newK($T).q",
    "def $newf(*a, **k):\n    print(len(a), sorted(k))\n    return sum(a) + sum(k.values())\n"
    "$newT = $newf(*[$T, $t], *($n,), **{'u': $N}, w=$T)",
    "def $newf(p, d):\n    if d == 0: return p\n    print('down', d)\n"
    "    return $newf(p * 2, d - 1) + d\n$newT = $newf($T, $n % 3)",
    "$newT = $t * random.random() + random.randint(-$n, $n * $n)",
    "if random.random() < 0.5:\n    $block\nelse:\n    random.shuffle($l)",
)
"""Several lines are one statement; every one ends, and does nothing outside of its module."""
