"""Random small programs with random partial annotations, as HLO text. Same seed, same text."""
import random

SIZES = [1, 2, 4, 6, 8, 8, 12, 16, 16, 32]
MESHES = [(8,), (2, 4), (4, 2), (2, 2, 2), (2, 2, 4), (4, 4), (3, 2), (6,)]
UNARY = ["negate", "sine", "tanh", "exponential", "abs", "floor"]
BINARY = ["add", "multiply", "subtract", "maximum", "power"]


def shape(dims, dtype="f32"):
    return f"{dtype}[{','.join(map(str, dims))}]"


class Value:
    def __init__(self, name, dims, dtype="f32"):
        self.name, self.dims, self.dtype = name, tuple(dims), dtype

    def text(self):
        return shape(self.dims, self.dtype)


def random_sharding(rng, dims, mesh, allow_special=True):
    """The inside of sharding={..} for an array."""
    total = 1
    for m in mesh:
        total *= m
    kind = rng.random()
    if allow_special and kind < 0.12 or not dims:
        return "replicated"
    if allow_special and kind < 0.13:
        return f"maximal device={rng.randrange(total)}"
    axes = list(range(len(mesh)))
    rng.shuffle(axes)
    used = axes[:rng.randint(1, len(axes))]
    per_dim = [[] for _ in dims]
    for a in used:
        per_dim[rng.randrange(len(dims))].append(a)
    counts = []
    for axis_list in per_dim:
        count = 1
        for a in axis_list:
            count *= mesh[a]
        counts.append(count)
    # Mostly tilings that divide.
    if any(n % c for n, c in zip(dims, counts)) and rng.random() < 0.8:
        return random_sharding(rng, dims, mesh, allow_special) if rng.random() < 0.9 else "replicated"
    order = [a for axis_list in per_dim for a in axis_list]
    rest = [a for a in range(len(mesh)) if a not in order]
    spare = 1
    for a in rest:
        spare *= mesh[a]
    order += rest
    text = "devices=[" + ",".join(map(str, counts + ([spare] if spare > 1 else []))) + "]<=["
    text += ",".join(map(str, mesh)) + "]"
    if len(mesh) > 1:
        text += "T(" + ",".join(map(str, order)) + ")"
    return text + (" last_tile_dim_replicate" if spare > 1 else "")


class Graph:
    def __init__(self, seed, size=14, depth=2, ops=None):
        self.rng = random.Random(seed)
        self.mesh = self.rng.choice(MESHES)
        self.size, self.depth, self.only = size, depth, ops
        self.computations, self.counter = [], 0
        self.annotate = True  # may values get an annotation of their own
        self.devices = 1
        for m in self.mesh:
            self.devices *= m

    def fresh(self, base):
        self.counter += 1
        return f"{base}.{self.counter}"

    def scalar_computation(self, op, dtype="f32"):
        name = self.fresh("scalar")
        self.computations.append(
            f"{name} {{\n  {name}.a = {dtype}[] parameter(0)\n  {name}.b = {dtype}[] parameter(1)\n"
            f"  ROOT {name}.r = {dtype}[] {op}({name}.a, {name}.b)\n}}\n")
        return name

    def text(self):
        rng = self.rng
        lines, values = [], []
        for k in range(rng.randint(2, 4)):
            dims = [rng.choice(SIZES) for _ in range(rng.choice([1, 2, 2, 3, 3, 4]))]
            v = Value(self.fresh("p"), dims)
            mark = ""
            if rng.random() < 0.5:
                mark = ", sharding={" + random_sharding(rng, dims, self.mesh) + "}"
            lines.append(f"  {v.name} = {v.text()} parameter({k}){mark}")
            values.append(v)
        parameters = len(values)
        self.body(lines, values, self.size, self.depth)
        results = rng.sample(values, min(len(values), rng.randint(1, 4)))
        if values[-1] not in results:
            results.append(values[-1])
        mark = ""
        if rng.random() < 0.2:
            mark = ", sharding={" + ", ".join(
                "{" + random_sharding(rng, v.dims, self.mesh) + "}" for v in results) + "}"
        lines.append(f"  ROOT result = ({', '.join(v.text() for v in results)}) "
                     f"tuple({', '.join(v.name for v in results)}){mark}")
        header = f"HloModule random, num_partitions={self.devices}"
        flag = lambda: rng.choice(["true", "false"])
        kind = rng.random()
        if kind < 0.3:
            header += ", allow_spmd_sharding_propagation_to_parameters={true}"
        elif kind < 0.5:
            header += (", allow_spmd_sharding_propagation_to_parameters={"
                       + ",".join(flag() for _ in range(parameters)) + "}")
        kind = rng.random()
        if kind < 0.5:
            header += ", allow_spmd_sharding_propagation_to_output={true}"
        elif kind < 0.7:
            header += (", allow_spmd_sharding_propagation_to_output={"
                       + ",".join(flag() for _ in results) + "}")
        return header + "\n\n" + "\n".join(self.computations) + "\nENTRY main {\n" + "\n".join(lines) + "\n}\n"

    def body(self, lines, values, size, depth):
        rng = self.rng
        made = 0
        while made < size:
            names = self.only or OPS
            op = rng.choice(names)
            if op in ("loop", "branch") and depth == 0:
                continue
            arrays = [v for v in values if v.dtype == "f32"]
            x = rng.choice(arrays[-6:]) if rng.random() < 0.7 else rng.choice(arrays)
            v = getattr(self, op)(lines, values, x, depth)
            if v is None:
                made += 0.1
                continue
            made += 1
            values.append(v)
            if rng.random() < 0.1 and v.dims and v.dtype == "f32":
                values.append(self.constraint(lines, v))

    def constraint(self, lines, v):
        rng = self.rng
        w = Value(self.fresh("sharded"), v.dims)
        s = random_sharding(rng, v.dims, self.mesh)
        config = ""
        if rng.random() < 0.3 and s.startswith("devices"):
            open_dims = sorted(rng.sample(range(len(v.dims)), rng.randint(1, len(v.dims))))
            config = f', backend_config="unspecified_dims=[{",".join(map(str, open_dims))}]"'
        lines.append(f'  {w.name} = {w.text()} custom-call({v.name}), custom_call_target="Sharding", '
                     f'sharding={{{s}}}{config}')
        return w

    def emit(self, lines, base, dims, expression, dtype="f32", annotate=True):
        v = Value(self.fresh(base), dims, dtype)
        mark = ""
        if annotate and self.annotate and dims and self.rng.random() < 0.08:
            mark = ", sharding={" + random_sharding(self.rng, dims, self.mesh) + "}"
        lines.append(f"  {v.name} = {v.text()} {expression}{mark}")
        return v

    def zero(self, lines, dtype="f32"):
        return self.emit(lines, "zero", (), "constant(0)", dtype)

    # --- one method an op: returns the new value, or None where it does not fit
    def unary(self, lines, values, x, depth):
        op = self.rng.choice(UNARY)
        return self.emit(lines, op, x.dims, f"{op}({x.name})")

    def binary(self, lines, values, x, depth):
        same = [v for v in values if v.dims == x.dims and v.dtype == "f32"]
        op = self.rng.choice(BINARY)
        y = self.rng.choice(same)
        if y is x and op in ("subtract", "maximum"):
            return None
        return self.emit(lines, op, x.dims, f"{op}({x.name}, {y.name})")

    def select(self, lines, values, x, depth):
        same = [v for v in values if v.dims == x.dims and v.dtype == "f32"]
        y = self.rng.choice(same)
        p = self.emit(lines, "compare", x.dims, f"compare({x.name}, {y.name}), direction=LT", "pred")
        z = self.emit(lines, "cosine", x.dims, f"cosine({y.name})")
        return self.emit(lines, "select", x.dims, f"select({p.name}, {x.name}, {z.name})")

    def clamp(self, lines, values, x, depth):
        lo = self.zero(lines)
        hi = self.emit(lines, "hi", (), "constant(3)")
        return self.emit(lines, "clamp", x.dims, f"clamp({lo.name}, {x.name}, {hi.name})")

    def broadcast(self, lines, values, x, depth):
        dims, mapping = [], []
        if len(x.dims) > 3:
            return None
        for d in x.dims:
            if self.rng.random() < 0.4 and len(dims) < 4:
                dims.append(self.rng.choice(SIZES))
            mapping.append(len(dims))
            dims.append(d)
        if len(dims) == len(x.dims):
            dims.append(self.rng.choice(SIZES))
        return self.emit(lines, "broadcast", dims,
                         f"broadcast({x.name}), dimensions={{{','.join(map(str, mapping))}}}")

    def reshape(self, lines, values, x, depth):
        factors = []
        for d in x.dims:
            while d > 1:
                p = next(q for q in (2, 3, 5, 7, d) if d % q == 0)
                factors.append(p)
                d //= p
        if not factors:
            return None
        dims = [1]
        for f in factors:
            if self.rng.random() < 0.45 and len(dims) < 4:
                dims.append(f)
            else:
                dims[-1] *= f
        if self.rng.random() < 0.2 and len(dims) < 5:
            dims.insert(self.rng.randrange(len(dims) + 1), 1)
        if tuple(dims) == x.dims:
            return None
        return self.emit(lines, "reshape", dims, f"reshape({x.name})")

    def transpose(self, lines, values, x, depth):
        order = list(range(len(x.dims)))
        self.rng.shuffle(order)
        if order == sorted(order):
            return None
        return self.emit(lines, "transpose", [x.dims[i] for i in order],
                         f"transpose({x.name}), dimensions={{{','.join(map(str, order))}}}")

    def slice(self, lines, values, x, depth):
        dims, spec = [], []
        for d in x.dims:
            size = d if self.rng.random() < 0.6 else max(1, d // 2)
            start = self.rng.randint(0, d - size)
            spec.append(f"[{start}:{start + size}]")
            dims.append(size)
        if tuple(dims) == x.dims:
            return None
        return self.emit(lines, "slice", dims, f"slice({x.name}), slice={{{', '.join(spec)}}}")

    def pad(self, lines, values, x, depth):
        z = self.zero(lines)
        lo = [self.rng.choice([0, 0, 1, 2]) for _ in x.dims]
        if not any(lo):
            return None
        return self.emit(lines, "pad", [d + k for d, k in zip(x.dims, lo)],
                         f"pad({x.name}, {z.name}), padding={'x'.join(f'{k}_0' for k in lo)}")

    def concatenate(self, lines, values, x, depth):
        if not x.dims:
            return None
        same = [v for v in values if v.dims == x.dims and v.dtype == "f32"]
        parts = [x] + [self.rng.choice(same) for _ in range(self.rng.randint(1, 2))]
        d = self.rng.randrange(len(x.dims))
        dims = list(x.dims)
        dims[d] *= len(parts)
        return self.emit(lines, "concatenate", dims,
                         f"concatenate({', '.join(v.name for v in parts)}), dimensions={{{d}}}")

    def reverse(self, lines, values, x, depth):
        big = [i for i, d in enumerate(x.dims) if d > 1]
        if not big:
            return None
        dims = sorted(self.rng.sample(big, self.rng.randint(1, len(big))))
        return self.emit(lines, "reverse", x.dims, f"reverse({x.name}), dimensions={{{','.join(map(str, dims))}}}")

    def index(self, lines):
        v = Value(self.fresh("index"), (), "s32")
        lines.append(f"  {v.name} = s32[] constant(1)")
        return v

    def dynamic_slice(self, lines, values, x, depth):
        sizes = [d if self.rng.random() < 0.5 else max(1, d // 2) for d in x.dims]
        if not sizes:
            return None
        at = [self.index(lines).name for _ in sizes]
        return self.emit(lines, "dslice", sizes,
                         f"dynamic-slice({x.name}, {', '.join(at)}), "
                         f"dynamic_slice_sizes={{{','.join(map(str, sizes))}}}")

    def dynamic_update_slice(self, lines, values, x, depth):
        fits = [v for v in values if v.dtype == "f32" and len(v.dims) == len(x.dims) and v is not x
                and all(a <= b for a, b in zip(v.dims, x.dims))]
        if not fits or not x.dims:
            return None
        u = self.rng.choice(fits)
        at = [self.index(lines).name for _ in x.dims]
        return self.emit(lines, "dus", x.dims, f"dynamic-update-slice({x.name}, {u.name}, {', '.join(at)})")

    def dot(self, lines, values, x, depth):
        rng = self.rng
        y = rng.choice([v for v in values if v.dtype == "f32"])
        pairs = [(i, j) for i, a in enumerate(x.dims) for j, b in enumerate(y.dims) if a == b]
        rng.shuffle(pairs)
        batch, contract, used_x, used_y = [], [], set(), set()
        for i, j in pairs:
            if i in used_x or j in used_y or rng.random() < 0.3:
                continue
            (batch if rng.random() < 0.4 else contract).append((i, j))
            used_x.add(i)
            used_y.add(j)
        if not contract:
            return None
        batch.sort()
        dims = [x.dims[i] for i, _ in batch] + [d for i, d in enumerate(x.dims) if i not in used_x] \
            + [d for j, d in enumerate(y.dims) if j not in used_y]
        if len(dims) > 5:
            return None
        text = f"dot({x.name}, {y.name})"
        if batch:
            text += f", lhs_batch_dims={{{','.join(str(i) for i, _ in batch)}}}"
        text += f", lhs_contracting_dims={{{','.join(str(i) for i, _ in contract)}}}"
        if batch:
            text += f", rhs_batch_dims={{{','.join(str(j) for _, j in batch)}}}"
        text += f", rhs_contracting_dims={{{','.join(str(j) for _, j in contract)}}}"
        return self.emit(lines, "dot", dims, text)

    def reduce(self, lines, values, x, depth):
        if not x.dims:
            return None
        dims = sorted(self.rng.sample(range(len(x.dims)), self.rng.randint(1, len(x.dims))))
        z = self.zero(lines)
        f = self.scalar_computation("add")
        return self.emit(lines, "reduce", [d for i, d in enumerate(x.dims) if i not in dims],
                         f"reduce({x.name}, {z.name}), dimensions={{{','.join(map(str, dims))}}}, to_apply={f}")

    def reduce_pair(self, lines, values, x, depth):
        same = [v for v in values if v.dims == x.dims and v.dtype == "f32"]
        y = self.rng.choice(same)
        if not x.dims:
            return None
        d = self.rng.randrange(len(x.dims))
        dims = [n for i, n in enumerate(x.dims) if i != d]
        z = self.zero(lines)
        f = self.fresh("pair")
        self.computations.append(
            f"{f} {{\n" + "".join(f"  {f}.{i} = f32[] parameter({i})\n" for i in range(4)) +
            f"  {f}.m = f32[] maximum({f}.0, {f}.2)\n  {f}.n = f32[] add({f}.1, {f}.3)\n"
            f"  ROOT {f}.t = (f32[], f32[]) tuple({f}.m, {f}.n)\n}}\n")
        r = self.fresh("reduce")
        lines.append(f"  {r} = ({shape(dims)}, {shape(dims)}) reduce({x.name}, {y.name}, {z.name}, {z.name}), "
                     f"dimensions={{{d}}}, to_apply={f}")
        values.append(self.emit(lines, "gte", dims, f"get-tuple-element({r}), index=0"))
        return self.emit(lines, "gte", dims, f"get-tuple-element({r}), index=1")

    def reduce_window(self, lines, values, x, depth):
        if not x.dims:
            return None
        z = self.zero(lines)
        sizes = [1 if self.rng.random() < 0.5 else min(2, d) for d in x.dims]
        if max(sizes) == 1:
            return None
        f = self.scalar_computation("maximum")
        return self.emit(lines, "window", [d - s + 1 for d, s in zip(x.dims, sizes)],
                         f"reduce-window({x.name}, {z.name}), window={{size={'x'.join(map(str, sizes))}}}, to_apply={f}")

    def sort(self, lines, values, x, depth):
        if not x.dims:
            return None
        f = self.fresh("less")
        self.computations.append(f"{f} {{\n  {f}.a = f32[] parameter(0)\n  {f}.b = f32[] parameter(1)\n"
                                 f"  ROOT {f}.r = pred[] compare({f}.a, {f}.b), direction=LT\n}}\n")
        return self.emit(lines, "sort", x.dims,
                         f"sort({x.name}), dimensions={{{self.rng.randrange(len(x.dims))}}}, to_apply={f}")

    def sort_pair(self, lines, values, x, depth):
        same = [v for v in values if v.dims == x.dims and v.dtype == "f32"]
        y = self.rng.choice(same)
        if not x.dims:
            return None
        f = self.fresh("less")
        self.computations.append(f"{f} {{\n" + "".join(f"  {f}.{i} = f32[] parameter({i})\n" for i in range(4)) +
                                 f"  ROOT {f}.r = pred[] compare({f}.0, {f}.1), direction=LT\n}}\n")
        r = self.fresh("sort")
        lines.append(f"  {r} = ({x.text()}, {x.text()}) sort({x.name}, {y.name}), "
                     f"dimensions={{{self.rng.randrange(len(x.dims))}}}, to_apply={f}")
        values.append(self.emit(lines, "gte", x.dims, f"get-tuple-element({r}), index=0"))
        return self.emit(lines, "gte", x.dims, f"get-tuple-element({r}), index=1")

    def iota(self, lines, values, x, depth):
        if not x.dims:
            return None
        return self.emit(lines, "iota", x.dims, f"iota(), iota_dimension={self.rng.randrange(len(x.dims))}")

    def barrier(self, lines, values, x, depth):
        y = self.rng.choice([v for v in values if v.dtype == "f32"])
        t, b = self.fresh("tuple"), self.fresh("barrier")
        pair = f"({x.text()}, {y.text()})"
        lines.append(f"  {t} = {pair} tuple({x.name}, {y.name})")
        lines.append(f"  {b} = {pair} opt-barrier({t})")
        values.append(self.emit(lines, "gte", x.dims, f"get-tuple-element({b}), index=0"))
        return self.emit(lines, "gte", y.dims, f"get-tuple-element({b}), index=1")

    def gather(self, lines, values, x, depth):
        rng = self.rng
        if not x.dims or len(x.dims) > 3:
            return None
        d = rng.randrange(len(x.dims))
        n = rng.choice([4, 8, 16])
        source = rng.random()
        if source < 0.35 and x.dims[d] > 1:
            n = x.dims[d]
            ids = Value(self.fresh("ids"), (n, 1), "s32")
            lines.append(f"  {ids.name} = s32[{n},1] iota(), iota_dimension=0")
        else:
            f = self.emit(lines, "ids_f", (n, 1), "iota(), iota_dimension=0") if source < 0.6 else None
            if f is None:
                ids = Value(self.fresh("ids"), (n, 1), "s32")
                mark = ""
                if rng.random() < 0.5:
                    mark = ", sharding={" + random_sharding(rng, ids.dims, self.mesh) + "}"
                lines.append(f"  {ids.name}.c = s32[] constant(1)")
                lines.append(f"  {ids.name} = s32[{n},1] broadcast({ids.name}.c), dimensions={{}}{mark}")
            else:
                ids = self.emit(lines, "ids", (n, 1), f"convert({f.name})", "s32")
        sizes = [1 if i == d else (k if rng.random() < 0.8 else max(1, k // 2)) for i, k in enumerate(x.dims)]
        window = [s for i, s in enumerate(sizes) if i != d]
        at = rng.randint(0, len(window))
        dims = window[:at] + [n] + window[at:]
        offset = [i for i in range(len(dims)) if i != at]
        return self.emit(lines, "gather", dims,
                         f"gather({x.name}, {ids.name}), offset_dims={{{','.join(map(str, offset))}}}, "
                         f"collapsed_slice_dims={{{d}}}, start_index_map={{{d}}}, index_vector_dim=1, "
                         f"slice_sizes={{{','.join(map(str, sizes))}}}")

    def batch_gather(self, lines, values, x, depth):
        rng = self.rng
        if len(x.dims) < 2 or len(x.dims) > 3:
            return None
        n, k = x.dims[0], rng.choice([2, 4])
        if n == 1:
            return None
        i = Value(self.fresh("row"), (n, k, 1), "s32")
        j = Value(self.fresh("column"), (n, k, 1), "s32")
        both = Value(self.fresh("ids"), (n, k, 2), "s32")
        lines.append(f"  {i.name} = {i.text()} iota(), iota_dimension=0")
        lines.append(f"  {j.name}.c = s32[] constant(1)")
        lines.append(f"  {j.name} = {j.text()} broadcast({j.name}.c), dimensions={{}}")
        mark = ""
        if rng.random() < 0.3:
            mark = ", sharding={" + random_sharding(rng, both.dims, self.mesh) + "}"
        lines.append(f"  {both.name} = {both.text()} concatenate({i.name}, {j.name}), dimensions={{2}}{mark}")
        sizes = [1, 1] + list(x.dims[2:])
        return self.emit(lines, "gather", [n, k] + list(x.dims[2:]),
                         f"gather({x.name}, {both.name}), offset_dims={{{','.join(str(2 + q) for q in range(len(x.dims) - 2))}}}, "
                         f"collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=2, "
                         f"slice_sizes={{{','.join(map(str, sizes))}}}")

    def explicit_gather(self, lines, values, x, depth):
        rng = self.rng
        if len(x.dims) < 2 or len(x.dims) > 3:
            return None
        n, k = x.dims[0], rng.choice([2, 4])
        f = self.emit(lines, "ids_f", (n, k, 1), f"iota(), iota_dimension=1")
        ids = self.emit(lines, "ids", (n, k, 1), f"convert({f.name})", "s32")
        sizes = [1, 1] + list(x.dims[2:])
        return self.emit(lines, "gather", [n, k] + list(x.dims[2:]),
                         f"gather({x.name}, {ids.name}), offset_dims={{{','.join(str(2 + q) for q in range(len(x.dims) - 2))}}}, "
                         f"collapsed_slice_dims={{1}}, start_index_map={{1}}, operand_batching_dims={{0}}, "
                         f"start_indices_batching_dims={{0}}, index_vector_dim=2, slice_sizes={{{','.join(map(str, sizes))}}}")

    def scatter(self, lines, values, x, depth):
        rng = self.rng
        if not x.dims or len(x.dims) > 3:
            return None
        d = rng.randrange(len(x.dims))
        n = x.dims[d] if rng.random() < 0.4 else rng.choice([4, 8])
        rest = [k for i, k in enumerate(x.dims) if i != d]
        fits = [v for v in values if v.dtype == "f32" and v.dims == tuple([n] + rest)]
        u = rng.choice(fits) if fits else self.emit(lines, "update", [n] + rest, "iota(), iota_dimension=0")
        ids = Value(self.fresh("ids"), (n, 1), "s32")
        mark = ""
        if rng.random() < 0.3:
            mark = ", sharding={" + random_sharding(rng, ids.dims, self.mesh) + "}"
        lines.append(f"  {ids.name} = s32[{n},1] iota(), iota_dimension=0{mark}")
        f = self.scalar_computation("add")
        window = ",".join(str(1 + i) for i in range(len(rest)))
        return self.emit(lines, "scatter", x.dims,
                         f"scatter({x.name}, {ids.name}, {u.name}), update_window_dims={{{window}}}, "
                         f"inserted_window_dims={{{d}}}, scatter_dims_to_operand_dims={{{d}}}, index_vector_dim=1, to_apply={f}")

    def convolution(self, lines, values, x, depth):
        rng = self.rng
        if len(x.dims) != 3:
            return None
        b, s, f = x.dims
        o = rng.choice([4, 8, 16])
        k = rng.choice([1, 1, 3, s])
        w = self.emit(lines, "kernel", (k, f, o), "iota(), iota_dimension=2")
        if rng.random() < 0.5:
            w = self.emit(lines, "kernel", (k, f, o), f"tanh({w.name})")
        if k == 3 and s >= 3:
            return self.emit(lines, "convolution", (b, s, o),
                             f"convolution({x.name}, {w.name}), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f")
        if k > s:
            return None
        return self.emit(lines, "convolution", (b, s - k + 1, o),
                         f"convolution({x.name}, {w.name}), window={{size={k}}}, dim_labels=b0f_0io->b0f")

    def custom(self, lines, values, x, depth):
        return self.emit(lines, "opaque", x.dims,
                         f'custom-call({x.name}), custom_call_target="{self.rng.choice(["foo", "MoveToHost"])}"')

    def loop(self, lines, values, x, depth):
        rng = self.rng
        carried = [x] + rng.sample([v for v in values if v.dtype == "f32"], min(2, len(values) - 1))
        types = ["s32[]"] + [v.text() for v in carried]
        state = f"({', '.join(types)})"
        name = self.fresh("loop")
        c = [f"{name}.condition {{", f"  {name}.cp = {state} parameter(0)",
             f"  {name}.ci = s32[] get-tuple-element({name}.cp), index=0", f"  {name}.cn = s32[] constant(3)",
             f"  ROOT {name}.cr = pred[] compare({name}.ci, {name}.cn), direction=LT", "}\n"]
        self.computations.append("\n".join(c))
        b = [f"{name}.body {{", f"  {name}.bp = {state} parameter(0)",
             f"  {name}.bi = s32[] get-tuple-element({name}.bp), index=0", f"  {name}.b1 = s32[] constant(1)",
             f"  {name}.bn = s32[] add({name}.bi, {name}.b1)"]
        inner = []
        for k, v in enumerate(carried):
            inner.append(self.emit(b, "carried", v.dims, f"get-tuple-element({name}.bp), index={k + 1}"))
        self.body(b, inner, rng.randint(2, 6), depth - 1)
        out = []
        for v in carried:
            out.append(rng.choice([w for w in inner if w.dims == v.dims and w.dtype == "f32"][-3:]))
        b.append(f"  ROOT {name}.br = {state} tuple({name}.bn, {', '.join(v.name for v in out)})")
        b.append("}\n")
        self.computations.append("\n".join(b))
        lines.append(f"  {name}.zero = s32[] constant(0)")
        lines.append(f"  {name}.init = {state} tuple({name}.zero, {', '.join(v.name for v in carried)})")
        lines.append(f"  {name} = {state} while({name}.init), condition={name}.condition, body={name}.body")
        for k, v in enumerate(carried):
            values.append(self.emit(lines, "after", v.dims, f"get-tuple-element({name}), index={k + 1}"))
        return values.pop()

    def branch(self, lines, values, x, depth):
        rng = self.rng
        y = rng.choice([v for v in values if v.dtype == "f32"])
        name = self.fresh("branch")
        parts = []
        for side in ("true", "false"):
            state = f"({x.text()}, {y.text()})"
            b = [f"{name}.{side} {{", f"  {name}.{side}.p = {state} parameter(0)"]
            inner = [self.emit(b, "taken", v.dims, f"get-tuple-element({name}.{side}.p), index={k}")
                     for k, v in enumerate((x, y))]
            self.body(b, inner, rng.randint(1, 4), depth - 1)
            out = rng.choice([w for w in inner if w.dims == x.dims and w.dtype == "f32"][-2:])
            b.append(f"  ROOT {name}.{side}.r = ({x.text()}) tuple({out.name})\n}}\n")
            self.computations.append("\n".join(b))
            parts.append(f"{name}.{side}")
        lines.append(f"  {name}.pred = pred[] constant(true)")
        lines.append(f"  {name}.arg = {state} tuple({x.name}, {y.name})")
        lines.append(f"  {name} = ({x.text()}) conditional({name}.pred, {name}.arg, {name}.arg), "
                     f"true_computation={parts[0]}, false_computation={parts[1]}")
        return self.emit(lines, "gte", x.dims, f"get-tuple-element({name}), index=0")


    def random_bits(self, lines, values, x, depth):
        k = self.fresh("bits")
        lines.append(f"  {k}.key = u64[2] constant({{1, 2}})")
        lines.append(f"  {k}.state = u64[2] negate({k}.key)")
        lines.append(f"  {k} = (u64[2], u32[{','.join(map(str, x.dims))}]) rng-bit-generator({k}.state), algorithm=rng_default")
        lines.append(f"  {k}.u = u32[{','.join(map(str, x.dims))}] get-tuple-element({k}), index=1")
        return self.emit(lines, "uniform", x.dims, f"convert({k}.u)")

    def square(self, lines, values, x, depth):
        fits = [v for v in values if len(v.dims) >= 2 and v.dims[-1] == v.dims[-2] and v.dtype == "f32"]
        if not fits:
            return None
        v = self.rng.choice(fits)
        if self.rng.random() < 0.5:
            return self.emit(lines, "cholesky", v.dims, f"cholesky({v.name}), lower=true")
        return self.emit(lines, "solve", v.dims, f"triangular-solve({v.name}, {self.rng.choice([f for f in fits if f.dims == v.dims]).name}), "
                         "left_side=true, lower=true, transpose_a=NO_TRANSPOSE")

    def fft(self, lines, values, x, depth):
        if not x.dims or x.dims[-1] < 2:
            return None
        c = self.emit(lines, "spectrum", x.dims[:-1] + (x.dims[-1] // 2 + 1,),
                      f"fft({x.name}), fft_type=RFFT, fft_length={{{x.dims[-1]}}}", "c64", annotate=False)
        return self.emit(lines, "magnitude", c.dims, f"abs({c.name})")

    def bits(self, lines, values, x, depth):
        b = self.emit(lines, "cast", x.dims, f"bitcast-convert({x.name})", "s32")
        n = self.emit(lines, "flip", x.dims, f"not({b.name})", "s32")
        return self.emit(lines, "cast", x.dims, f"bitcast-convert({n.name})")

    def nested_tuple(self, lines, values, x, depth):
        y = self.rng.choice([v for v in values if v.dtype == "f32"])
        z = self.rng.choice([v for v in values if v.dtype == "f32"])
        t = self.fresh("nest")
        inner, outer = f"({x.text()}, {y.text()})", f"(({x.text()}, {y.text()}), {z.text()})"
        lines.append(f"  {t}.a = {inner} tuple({x.name}, {y.name})")
        lines.append(f"  {t}.b = {outer} tuple({t}.a, {z.name})")
        lines.append(f"  {t}.c = {outer} opt-barrier({t}.b)")
        lines.append(f"  {t}.d = {inner} get-tuple-element({t}.c), index=0")
        values.append(self.emit(lines, "gte", x.dims, f"get-tuple-element({t}.d), index=0"))
        values.append(self.emit(lines, "gte", y.dims, f"get-tuple-element({t}.d), index=1"))
        return self.emit(lines, "gte", z.dims, f"get-tuple-element({t}.c), index=1")

    def plane_convolution(self, lines, values, x, depth):
        rng = self.rng
        if len(x.dims) != 4:
            return None
        b, h, w, f = x.dims
        o = rng.choice([4, 8, 16])
        sizes, pads, strides, outs = [], [], [], []
        for n in (h, w):
            k = rng.choice([1, 1, 2, 3, n])
            pad = rng.choice([0, k // 2]) if k < n else 0
            stride = rng.choice([1, 1, 1, 2])
            if n + 2 * pad < k:
                return None
            sizes.append(k)
            pads.append(pad)
            strides.append(stride)
            outs.append((n + 2 * pad - k) // stride + 1)
        groups = rng.choice([1, 1, 1, 2])
        if f % groups:
            groups = 1
        kernel = self.emit(lines, "kernel", (sizes[0], sizes[1], f // groups, o), "iota(), iota_dimension=3")
        kernel = self.emit(lines, "kernel", kernel.dims, f"tanh({kernel.name})")
        text = f"convolution({x.name}, {kernel.name}), window={{size={sizes[0]}x{sizes[1]}"
        if max(strides) > 1:
            text += f" stride={strides[0]}x{strides[1]}"
        if max(pads):
            text += f" pad={pads[0]}_{pads[0]}x{pads[1]}_{pads[1]}"
        text += "}, dim_labels=b01f_01io->b01f" + (f", feature_group_count={groups}" if groups > 1 else "")
        return self.emit(lines, "convolution", (b, outs[0], outs[1], o), text)

    def window_pool(self, lines, values, x, depth):
        rng = self.rng
        if not x.dims:
            return None
        sizes, strides, dilations, dims = [], [], [], []
        for n in x.dims:
            k = rng.choice([1, 1, 2, 3])
            e = rng.choice([1, 1, 1, 2])
            t = rng.choice([1, 1, 2])
            if (k - 1) * e + 1 > n:
                k, e, t = 1, 1, 1
            sizes.append(k)
            dilations.append(e)
            strides.append(t)
            dims.append((n - (k - 1) * e - 1) // t + 1)
        z = self.zero(lines)
        f = self.scalar_computation("add")
        if max(sizes) == 1 and max(strides) == 1:
            return None
        join = lambda v: "x".join(map(str, v))
        return self.emit(lines, "pool", dims, f"reduce-window({x.name}, {z.name}), window={{size={join(sizes)} "
                         f"stride={join(strides)} rhs_dilate={join(dilations)}}}, to_apply={f}")

    def unpool(self, lines, values, x, depth):
        if not x.dims or x.dims[0] < 2 or x.dims[0] % 2:
            return None
        small = (x.dims[0] // 2,) + x.dims[1:]
        fits = [v for v in values if v.dims == small and v.dtype == "f32"]
        source = self.rng.choice(fits) if fits else self.emit(lines, "source", small, "iota(), iota_dimension=0")
        z = self.zero(lines)
        f = self.scalar_computation("add")
        g = self.fresh("ge")
        self.computations.append(f"{g} {{\n  {g}.a = f32[] parameter(0)\n  {g}.b = f32[] parameter(1)\n"
                                 f"  ROOT {g}.r = pred[] compare({g}.a, {g}.b), direction=GE\n}}\n")
        window = "x".join(["2"] + ["1"] * (len(x.dims) - 1))
        return self.emit(lines, "unpool", x.dims, f"select-and-scatter({x.name}, {source.name}, {z.name}), "
                         f"window={{size={window} stride={window}}}, select={g}, scatter={f}")

    def general_gather(self, lines, values, x, depth):
        """Any start map, collapsed or kept dims, index vector anywhere, sometimes an iota component."""
        rng = self.rng
        if not 1 <= len(x.dims) <= 3:
            return None
        mapped = rng.sample(range(len(x.dims)), rng.randint(1, len(x.dims)))
        batch = [rng.choice([2, 4, 8]) for _ in range(rng.randint(1, 2))]
        pieces = []
        for d in mapped:
            if rng.random() < 0.4:
                batch[rng.randrange(len(batch))] = x.dims[d]
        for d in mapped:
            p = Value(self.fresh("piece"), batch + [1], "s32")
            same = [k for k, n in enumerate(batch) if n == x.dims[d]]
            if same and rng.random() < 0.6:
                lines.append(f"  {p.name} = {p.text()} iota(), iota_dimension={rng.choice(same)}")
            else:
                lines.append(f"  {p.name}.c = s32[] constant(1)")
                lines.append(f"  {p.name} = {p.text()} broadcast({p.name}.c), dimensions={{}}")
            pieces.append(p)
        ids = pieces[0]
        if len(pieces) > 1:
            ids = Value(self.fresh("ids"), batch + [len(pieces)], "s32")
            mark = ""
            if rng.random() < 0.3:
                mark = ", sharding={" + random_sharding(rng, ids.dims, self.mesh) + "}"
            lines.append(f"  {ids.name} = {ids.text()} concatenate({', '.join(p.name for p in pieces)}), "
                         f"dimensions={{{len(batch)}}}{mark}")
        collapsed = sorted(d for d in mapped if rng.random() < 0.7)
        sizes = [1 if d in collapsed else (rng.choice([1, max(1, n // 2), n]) if d in mapped else n)
                 for d, n in enumerate(x.dims)]
        window = [n for d, n in enumerate(sizes) if d not in collapsed]
        places = sorted(rng.sample(range(len(window) + len(batch)), len(window)))
        dims, w, b = [], iter(window), iter(batch)
        for k in range(len(window) + len(batch)):
            dims.append(next(w) if k in places else next(b))
        join = lambda v: ",".join(map(str, v))
        return self.emit(lines, "gather", dims,
                         f"gather({x.name}, {ids.name}), offset_dims={{{join(places)}}}, "
                         f"collapsed_slice_dims={{{join(collapsed)}}}, start_index_map={{{join(mapped)}}}, "
                         f"index_vector_dim={len(batch)}, slice_sizes={{{join(sizes)}}}")

    def scatter_pair(self, lines, values, x, depth):
        rng = self.rng
        if len(x.dims) != 2:
            return None
        n = rng.choice([4, 8, x.dims[0]])
        y = rng.choice([v for v in values if v.dims == x.dims and v.dtype == "f32"])
        make = lambda: self.emit(lines, "update", (n, x.dims[1]), f"iota(), iota_dimension={rng.randrange(2)}")
        u, v = make(), make()
        ids = Value(self.fresh("ids"), (n, 1), "s32")
        lines.append(f"  {ids.name} = s32[{n},1] iota(), iota_dimension={rng.randrange(2)}")
        f = self.fresh("pair")
        self.computations.append(
            f"{f} {{\n" + "".join(f"  {f}.{i} = f32[] parameter({i})\n" for i in range(4)) +
            f"  {f}.m = f32[] maximum({f}.0, {f}.2)\n  {f}.n = f32[] add({f}.1, {f}.3)\n"
            f"  ROOT {f}.t = (f32[], f32[]) tuple({f}.m, {f}.n)\n}}\n")
        t = self.fresh("scatter")
        lines.append(f"  {t} = ({x.text()}, {y.text()}) scatter({x.name}, {y.name}, {ids.name}, {u.name}, {v.name}), "
                     f"update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, "
                     f"index_vector_dim=1, to_apply={f}")
        values.append(self.emit(lines, "gte", x.dims, f"get-tuple-element({t}), index=0"))
        return self.emit(lines, "gte", x.dims, f"get-tuple-element({t}), index=1")

    def manual_region(self, lines, values, x, depth):
        """A region that is manual over one mesh axis, which splits one dim."""
        rng = self.rng
        axis = rng.randrange(len(self.mesh))
        size = self.mesh[axis]
        fits = [d for d, n in enumerate(x.dims) if n % size == 0]
        if not fits or depth == 0:
            return None
        d = rng.choice(fits)
        order = [axis] + [a for a in range(len(self.mesh)) if a != axis]
        rest = self.devices // size
        iota = "<=[" + ",".join(map(str, self.mesh)) + "]"
        if len(self.mesh) > 1:
            iota += "T(" + ",".join(map(str, order)) + ")"
        counts = ["1"] * len(x.dims)
        counts[d] = str(size)
        outer = f"devices=[{','.join(counts)}" + (f",{rest}]{iota} last_tile_dim_replicate" if rest > 1 else f"]{iota}")
        ones = ",".join(["1"] * len(x.dims))
        inner = "manual" if rest == 1 else f"devices=[{ones},{size},{rest}]{iota} last_tile_dims={{manual, replicated}}"
        local = list(x.dims)
        local[d] //= size
        everything = list(range(len(x.dims)))
        config = ""
        if rest > 1 and rng.random() < 0.5:
            everything.remove(d)
            config = f', backend_config="unspecified_dims=[{",".join(map(str, everything))}]"' if everything else ""
        name = self.fresh("manual")

        def call(target, dims, operand, sharding, suffix):
            lines.append(f'  {name}.{suffix} = {shape(dims)} custom-call({operand}), custom_call_target="{target}", '
                         f"sharding={{{sharding}}}{config}")
            return f"{name}.{suffix}"

        a = call("Sharding", x.dims, x.name, outer, "outer")
        a = call("SPMDFullToShardShape", local, a, inner, "enter")
        v = Value(a, local)
        inside = [v]
        annotate, self.annotate = self.annotate, False
        count = rng.randint(1, 5)
        made = 0
        while made < count:
            op = rng.choice(["unary", "binary", "transpose", "reshape", "broadcast", "reduce", "dot", "slice", "pad",
                             "concatenate", "select"])
            w = getattr(self, op)(lines, inside, rng.choice(inside), 0)
            made += 1 if w else 0.2
            if w:
                inside.append(w)
        self.annotate = annotate
        back = rng.choice([w for w in inside if w.dims == tuple(local)])
        b = call("Sharding", local, back.name, inner, "inner")
        return Value(call("SPMDShardToFullShape", x.dims, b, outer, "leave"), x.dims)


OPS = ["unary", "unary", "binary", "binary", "binary", "select", "clamp", "broadcast", "reshape", "reshape",
       "transpose", "transpose", "slice", "pad", "concatenate", "reverse", "dynamic_slice",
       "dynamic_update_slice", "dot", "dot", "dot", "reduce", "reduce", "reduce_pair", "reduce_window", "sort",
       "sort_pair", "iota", "barrier", "gather", "batch_gather", "explicit_gather", "scatter", "convolution",
       "custom", "loop", "branch", "random_bits", "square", "fft", "bits", "nested_tuple", "plane_convolution",
       "window_pool", "unpool", "general_gather", "general_gather", "scatter_pair", "manual_region", "manual_region"]


def generate(seed, size=14, depth=2, ops=None):
    return Graph(seed, size, depth, ops).text()
