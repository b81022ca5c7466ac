"""One op between an annotated operand and an annotated user, dots, convolutions, windows, sorts, tuples."""
from written_cases import ADD, LESS, X, Y, case

# --- one op between an annotated operand and an annotated user
OPERANDS = {
    "negate": ("f32[8,16]", "negate(x)"), "convert": ("bf16[8,16]", "convert(x)"),
    "power": ("f32[8,16]", "power(x, y)"), "power_swapped": ("f32[8,16]", "power(y, x)"),
    "shift": ("f32[8,16]", "atan2(y, x)"),
    "select": ("f32[8,16]", "select(q, x, y)"), "clamp": ("f32[8,16]", "clamp(zero, x, one)"),
    "clamp_arrays": ("f32[8,16]", "clamp(y, x, y)"), "compare": ("pred[8,16]", "compare(x, y), direction=LT"),
    "reduce_precision": ("f32[8,16]", "reduce-precision(x), exponent_bits=5, mantissa_bits=3"),
    "bitcast_convert": ("s32[8,16]", "bitcast-convert(x)"),
    "bitcast_convert_narrow": ("u8[8,16,4]", "bitcast-convert(x)"),
    "broadcast_0": ("f32[8,16,4]", "broadcast(x), dimensions={0,1}"),
    "broadcast_1": ("f32[4,8,16]", "broadcast(x), dimensions={1,2}"),
    "broadcast_2": ("f32[8,4,16]", "broadcast(x), dimensions={0,2}"),
    "reshape_join": ("f32[128]", "reshape(x)"), "reshape_split": ("f32[2,4,4,4]", "reshape(x)"),
    "reshape_one": ("f32[8,1,16]", "reshape(x)"), "reshape_mixed": ("f32[4,32]", "reshape(x)"),
    "transpose": ("f32[16,8]", "transpose(x), dimensions={1,0}"),
    "slice_0": ("f32[4,16]", "slice(x), slice={[0:4], [0:16]}"), "slice_1": ("f32[8,3]", "slice(x), slice={[0:8], [2:5]}"),
    "slice_stride": ("f32[4,16]", "slice(x), slice={[0:8:2], [0:16:1]}"),
    "pad_0": ("f32[10,16]", "pad(x, zero), padding=1_1x0_0"), "pad_interior": ("f32[8,31]", "pad(x, zero), padding=0_0x0_0_1"),
    "concatenate_0": ("f32[16,16]", "concatenate(x, y), dimensions={0}"),
    "concatenate_1": ("f32[8,32]", "concatenate(x, y), dimensions={1}"),
    "reverse_0": ("f32[8,16]", "reverse(x), dimensions={0}"), "reverse_both": ("f32[8,16]", "reverse(x), dimensions={0,1}"),
    "dynamic_slice_0": ("f32[1,16]", "dynamic-slice(x, i, i), dynamic_slice_sizes={1,16}"),
    "dynamic_slice_1": ("f32[8,4]", "dynamic-slice(x, i, i), dynamic_slice_sizes={8,4}"),
    "dus_operand": ("f32[8,16]", "dynamic-update-slice(x, small, i, i)"),
    "dus_operand_1": ("f32[8,16]", "dynamic-update-slice(x, thin, i, i)"),
    "dus_update": ("f32[16,16]", "dynamic-update-slice(big, x, i, i)"),
    "dus_same": ("f32[8,16]", "dynamic-update-slice(y, x, i, i)"),
    "dot_lhs": ("f32[8,32]", "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "dot_rhs": ("f32[32,8]", "dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
    "dot_batch": ("f32[8]", "dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}"),
    "dot_outer": ("f32[8,16,16]", "dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}"),
    "dot_square": ("f32[8,8]", "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
    "dot_square_0": ("f32[16,16]", "dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "reduce_0": ("f32[16]", "reduce(x, zero), dimensions={0}, to_apply=addf"),
    "reduce_1": ("f32[8]", "reduce(x, zero), dimensions={1}, to_apply=addf"),
    "reduce_all": ("f32[]", "reduce(x, zero), dimensions={0,1}, to_apply=addf"),
    "window": ("f32[8,14]", "reduce-window(x, zero), window={size=1x3}, to_apply=addf"),
    "window_stride": ("f32[4,16]", "reduce-window(x, zero), window={size=2x1 stride=2x1}, to_apply=addf"),
    "window_dilated": ("f32[8,12]", "reduce-window(x, zero), window={size=1x3 rhs_dilate=1x2}, to_apply=addf"),
    "window_base": ("f32[8,29]", "reduce-window(x, zero), window={size=1x3 lhs_dilate=1x2}, to_apply=addf"),
    "sort_0": ("f32[8,16]", "sort(x), dimensions={0}, to_apply=less"),
    "sort_1": ("f32[8,16]", "sort(x), dimensions={1}, to_apply=less"),
    "custom": ("f32[8,16]", 'custom-call(x), custom_call_target="foo"'),
    "custom_other": ("f32[8,8]", 'custom-call(x), custom_call_target="foo"'),
    "custom_move": ("f32[8,16]", 'custom-call(x), custom_call_target="MoveToHost"'),
    "custom_layout": ("f32[8,16]", 'custom-call(x), custom_call_target="LayoutConstraint"'),
    "custom_x64": ("f64[8,16]", 'custom-call(x, y), custom_call_target="X64Combine"'),
    "custom_resize": ("f32[8,32]", 'custom-call(x), custom_call_target="ResizeNearest"'),
    "fft": ("c64[8,9]", "fft(x), fft_type=RFFT, fft_length={16}"),
    "topk": None,
}
SQUARE = {
    "cholesky": "cholesky(x), lower=true",
    "triangular_solve": "triangular-solve(x, x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    "custom_cholesky": 'custom-call(x), custom_call_target="Cholesky"',
}
INPUT = ["devices=[8,1]<=[8]", "devices=[1,8]<=[8]", "devices=[4,2]<=[8]", "devices=[2,2,2]<=[2,2,2]T(1,2,0) l",
         X, "replicated", "maximal device=2"]
COMMON = """
  y = f32[8,16] parameter(1)
  w = f32[16,32] parameter(2)
  small = f32[1,16] parameter(3)
  thin = f32[8,2] parameter(4)
  big = f32[16,16] parameter(5)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  i = s32[] parameter(6)
  q = pred[8,16] parameter(7)"""


def rank_of(type_text):
    dims = type_text[type_text.index("[") + 1:-1]
    return len(dims.split(",")) if dims else 0


def tilings(rank):
    if rank == 0:
        return ["replicated"]
    out = ["replicated"]
    for d in range(min(rank, 3)):
        counts = ["1"] * rank
        counts[d] = "4"
        out.append(f"devices=[{','.join(counts)},2]<=[8] l")
        counts[d] = "2"
        if d + 1 < rank:
            counts[d + 1] = "4"
            out.append(f"devices=[{','.join(counts)}]<=[4,2]T(1,0)")
    return out


for name, row in OPERANDS.items():
    if row is None:
        continue
    result, op = row
    for k, s in enumerate(INPUT):
        case(f"forward_{name}_{k}", f"""
  x0 = f32[8,16] parameter(0) @{s}{COMMON}
  x = f32[8,16] tanh(x0)
  z = {result} {op}
  ROOT r = ({result}, f32[8,16]) tuple(z, x)""", ADD + LESS)
    for k, s in enumerate(tilings(rank_of(result))):
        case(f"backward_{name}_{k}", f"""
  x0 = f32[8,16] parameter(0){COMMON}
  x = f32[8,16] tanh(x0)
  z = {result} {op}
  c = {result} custom-call(z), custom_call_target="Sharding" @{s}
  ROOT r = ({result}, f32[8,16]) tuple(c, x)""", ADD + LESS, parameters="true")
for name, op in SQUARE.items():
    for k, s in enumerate(["devices=[8,1]<=[8]", "devices=[1,8]<=[8]", "replicated"]):
        case(f"forward_{name}_{k}", f"""
  x0 = f32[8,8] parameter(0) @{s}
  x = f32[8,8] tanh(x0)
  z = f32[8,8] {op}
  ROOT r = f32[8,8] negate(z)""")
        case(f"backward_{name}_{k}", f"""
  x0 = f32[8,8] parameter(0)
  x = f32[8,8] tanh(x0)
  z = f32[8,8] {op} @{s}
  ROOT r = f32[8,8] negate(z)""", parameters="true")

# --- dots
DOTS = {
    "rhs_only": ("replicated", "devices=[1,8]<=[8]"), "lhs_contracting": ("devices=[1,8]<=[8]", ""),
    "both_free": ("devices=[8,1]<=[8]", "devices=[1,8]<=[8]"), "both_contracting": ("devices=[1,8]<=[8]", "devices=[8,1]<=[8]"),
    "cross": ("devices=[2,1,4]<=[8] l", "devices=[1,4,2]<=[2,4]T(1,0) l"),
    "clash": ("devices=[2,1,4]<=[8] l", "devices=[1,2,4]<=[8] l"),
    "mixed": ("devices=[2,4]<=[8]", "devices=[4,2]<=[2,4]T(1,0)"),
    "mixed_2": ("devices=[2,4]<=[8]", "devices=[2,4]<=[4,2]T(1,0)"),
}
for name, (lhs, rhs) in DOTS.items():
    for k, (m, n) in enumerate([(64, 32), (16, 64)]):
        mark_r = f" @{rhs}" if rhs else ""
        case(f"dot_{name}_{k}", f"""
  a = f32[{m},16] parameter(0) @{lhs}
  b = f32[16,{n}] parameter(1){mark_r}
  s = f32[{m},16] sine(a)
  t = f32[16,{n}] sine(b)
  d = f32[{m},{n}] dot(s, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = f32[{m},{n}] negate(d)""")
        for q, ahead in enumerate(["devices=[8,1]<=[8]", "devices=[1,8]<=[8]", "devices=[2,4]<=[8]", "devices=[1,4,2]<=[2,4]T(1,0) l"]):
            case(f"dot_{name}_ahead_{k}_{q}", f"""
  a = f32[{m},16] parameter(0) @{lhs}
  b = f32[16,{n}] parameter(1){mark_r}
  s = f32[{m},16] sine(a)
  t = f32[16,{n}] sine(b)
  d = f32[{m},{n}] dot(s, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  u = f32[{m},{n}] tanh(d)
  v = f32[{n},{m}] transpose(u), dimensions={{1,0}}
  w = f32[{m},{n}] transpose(v), dimensions={{1,0}}
  k = f32[{m},{n}] custom-call(w), custom_call_target="Sharding" @{ahead}
  ROOT r = f32[{m},{n}] negate(k)""")
case("dot_contracting_from_other", """
  a = f32[64,32] parameter(0) @devices=[1,4,2]<=[8] l
  b = f32[32,16] parameter(1)
  t = f32[32,16] sine(b)
  d = f32[64,16] dot(a, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,16] custom-call(d), custom_call_target="Sharding" @devices=[1,2,4]<=[4,2]T(1,0) l""", parameters="true")
case("dot_batch_both", """
  a = f32[4,8,16] parameter(0) @devices=[2,2,1,2]<=[8] l
  b = f32[4,16,8] parameter(1) @devices=[2,1,2,2]<=[2,2,2]T(0,2,1) l
  d = f32[4,8,8] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  ROOT r = f32[4,8,8] negate(d)""")
case("dot_batch_back", """
  a = f32[4,8,16] parameter(0)
  b = f32[4,16,8] parameter(1)
  s = f32[4,8,16] sine(a)
  t = f32[4,16,8] sine(b)
  d = f32[4,8,8] dot(s, t), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  ROOT r = f32[4,8,8] custom-call(d), custom_call_target="Sharding" @devices=[2,2,2]<=[8]""", parameters="true")

# --- convolutions: true spatial dims, small and large kernels, groups, trivial windows
CONVOLUTIONS = {
    "same": ("f32[8,16,4]", "f32[3,4,8]", "f32[8,16,8]", "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"),
    "large": ("f32[8,16,4]", "f32[9,4,8]", "f32[8,8,8]", "window={size=9}, dim_labels=b0f_0io->b0f"),
    "moved": ("f32[8,16,4]", "f32[3,4,8]", "f32[16,8,8]", "window={size=3 pad=1_1}, dim_labels=b0f_0io->0bf"),
    "one": ("f32[8,16,4]", "f32[1,4,8]", "f32[8,16,8]", "window={size=1}, dim_labels=b0f_0io->b0f"),
    "whole": ("f32[8,16,4]", "f32[16,4,8]", "f32[8,1,8]", "window={size=16}, dim_labels=b0f_0io->b0f"),
    "features": ("f32[8,16,8]", "f32[3,2,8]", "f32[8,16,8]", "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=4"),
    "features_one": ("f32[8,16,8]", "f32[1,2,8]", "f32[8,16,8]", "window={size=1}, dim_labels=b0f_0io->b0f, feature_group_count=4"),
    "batches": ("f32[8,16,8]", "f32[3,8,16]", "f32[2,16,16]", "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, batch_group_count=4"),
    "plane": ("f32[8,8,16,4]", "f32[3,3,4,8]", "f32[8,8,16,8]", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    "plane_one": ("f32[8,8,16,4]", "f32[1,1,4,8]", "f32[8,8,16,8]", "window={size=1x1}, dim_labels=b01f_01io->b01f"),
    "plane_stride": ("f32[8,8,16,4]", "f32[3,3,4,8]", "f32[8,4,8,8]", "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    "rhs_free": ("f32[8,1,4]", "f32[16,4,8]", "f32[8,16,8]", "window={size=16 pad=15_15 rhs_reversal=1}, dim_labels=b0f_0io->b0f"),
    "batch_dim": ("f32[8,4,4]", "f32[4,4,8]", "f32[8,4,8]", "window={size=4 stride=3 lhs_dilate=4}, dim_labels=b0f_0io->b0f"),
    "batch_dim_e": ("f32[8,4,4]", "f32[4,4,8]", "f32[8,4,8]", "window={size=4 lhs_dilate=4 rhs_dilate=3}, dim_labels=b0f_0io->b0f"),
    "batch_reversed": ("f32[8,4,4]", "f32[4,4,8]", "f32[8,4,8]", "window={size=4 stride=4 pad=3_3 lhs_dilate=3 rhs_reversal=1}, dim_labels=b0f_0io->b0f"),
    "wgrad": ("f32[4,16,8]", "f32[16,8,8]", "f32[4,3,8]", "window={size=16 pad=1_1}, dim_labels=b0f_0io->b0f"),
}
for name, (lhs, rhs, out, attributes) in CONVOLUTIONS.items():
    rank = rank_of(lhs)
    for k, s in enumerate(tilings(rank) + (["devices=[1,2,2,2]<=[8]"] if rank == 4 else ["devices=[2,2,2]<=[8]"])):
        for side, other in ((0, 1), (1, 0)):
            marks = ["", ""]
            marks[side] = f" @{s}"
            case(f"conv_{name}_{'lr'[side]}{k}", f"""
  a = {lhs} parameter(0){marks[0]}
  b = {rhs} parameter(1){marks[1]}
  s = {lhs} sine(a)
  t = {rhs} sine(b)
  c = {out} convolution(s, t), {attributes}
  ROOT r = {out} negate(c)""") if rank_of(rhs) == rank else None
        case(f"conv_{name}_b{k}", f"""
  a = {lhs} parameter(0)
  b = {rhs} parameter(1)
  s = {lhs} sine(a)
  t = {rhs} sine(b)
  c = {out} convolution(s, t), {attributes}
  ROOT r = {out} custom-call(c), custom_call_target="Sharding" @{s}""", parameters="true")
case("conv_both", """
  a = f32[8,16,4] parameter(0) @devices=[2,1,1,4]<=[8] l
  b = f32[3,4,8] parameter(1) @devices=[1,1,4,2]<=[2,4]T(1,0) l
  c = f32[8,16,8] convolution(a, b), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
  ROOT r = f32[8,16,8] negate(c)""")
case("conv_both_spatial", """
  a = f32[8,16,4] parameter(0) @devices=[1,2,1,4]<=[8] l
  b = f32[3,4,8] parameter(1) @devices=[1,1,4,2]<=[2,4]T(1,0) l
  c = f32[8,16,8] convolution(a, b), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f
  ROOT r = f32[8,16,8] negate(c)""")

# --- variadic reduce, sort, select-and-scatter, rng
PAIR = """
pair {
  pair.0 = f32[] parameter(0)
  pair.1 = s32[] parameter(1)
  pair.2 = f32[] parameter(2)
  pair.3 = s32[] parameter(3)
  pair.m = f32[] maximum(pair.0, pair.2)
  pair.n = s32[] add(pair.1, pair.3)
  ROOT pair.t = (f32[], s32[]) tuple(pair.m, pair.n)
}
less2 {
  less2.0 = f32[] parameter(0)
  less2.1 = f32[] parameter(1)
  less2.2 = s32[] parameter(2)
  less2.3 = s32[] parameter(3)
  ROOT less2.r = pred[] compare(less2.0, less2.1), direction=LT
}
ge {
  ge.a = f32[] parameter(0)
  ge.b = f32[] parameter(1)
  ROOT ge.r = pred[] compare(ge.a, ge.b), direction=GE
}
"""
for k, (a, b) in enumerate([("devices=[8,1]<=[8]", ""), ("", "devices=[1,8]<=[8]"), (X, Y), (X, "devices=[1,2,4]<=[8] l"),
                            ("devices=[2,2,2]<=[8] l", "")]):
    at = lambda s: f" @{s}" if s else ""
    case(f"reduce_pair_{k}", f"""
  a = f32[8,16] parameter(0){at(a)}
  b = s32[8,16] parameter(1){at(b)}
  s = f32[8,16] sine(a)
  t = s32[8,16] negate(b)
  zero = f32[] constant(0)
  none = s32[] constant(0)
  d = (f32[8], s32[8]) reduce(s, t, zero, none), dimensions={{1}}, to_apply=pair
  g = f32[8] get-tuple-element(d), index=0
  h = s32[8] get-tuple-element(d), index=1
  ROOT r = (f32[8], s32[8]) tuple(g, h)""", PAIR)
    case(f"sort_pair_{k}", f"""
  a = f32[8,16] parameter(0){at(a)}
  b = s32[8,16] parameter(1){at(b)}
  s = f32[8,16] sine(a)
  t = s32[8,16] negate(b)
  d = (f32[8,16], s32[8,16]) sort(s, t), dimensions={{1}}, to_apply=less2
  g = f32[8,16] get-tuple-element(d), index=0
  h = s32[8,16] get-tuple-element(d), index=1
  ROOT r = (f32[8,16], s32[8,16]) tuple(g, h)""", PAIR)
    case(f"select_and_scatter_{k}", f"""
  a = f32[8,16] parameter(0){at(a)}
  b = f32[4,16] parameter(1){at(b)}
  s = f32[8,16] sine(a)
  t = f32[4,16] sine(b)
  zero = f32[] constant(0)
  d = f32[8,16] select-and-scatter(s, t, zero), window={{size=2x1 stride=2x1}}, select=ge, scatter=addf
  ROOT r = f32[8,16] negate(d)""", ADD + PAIR)
for k, size in enumerate([7, 16]):
    case(f"sort_uneven_{k}", f"""
  a = f32[{size},16] parameter(0) @devices=[1,8]<=[8]
  s = f32[{size},16] sort(a), dimensions={{1}}, to_apply=less
  ROOT r = f32[{size},16] negate(s)""", LESS)
case("reduce_pair_back", """
  a = f32[8,16] parameter(0)
  b = s32[8,16] parameter(1) @devices=[1,4,2]<=[2,4]T(1,0) l
  s = f32[8,16] sine(a)
  zero = f32[] constant(0)
  none = s32[] constant(0)
  d = (f32[8], s32[8]) reduce(s, b, zero, none), dimensions={1}, to_apply=pair
  g = f32[8] get-tuple-element(d), index=0
  h = s32[8] get-tuple-element(d), index=1
  k = f32[8] custom-call(g), custom_call_target="Sharding" @devices=[2,4]<=[8] l
  ROOT r = (f32[8], s32[8]) tuple(k, h)""", PAIR, parameters="true")
case("random_bits", """
  a = u64[2] parameter(0)
  b = u64[2] negate(a)
  d = (u64[2], u32[8,16]) rng-bit-generator(b), algorithm=rng_default
  g = u32[8,16] get-tuple-element(d), index=1
  h = u64[2] get-tuple-element(d), index=0
  k = u32[8,16] custom-call(g), custom_call_target="Sharding" @devices=[2,4]<=[8]
  ROOT r = (u32[8,16], u64[2]) tuple(k, h)""", parameters="true")

# --- tuples
case("tuple_many", """
  a = f32[8,16] parameter(0) @devices=[8,1]<=[8]
  b = f32[8,16] parameter(1)
  t = (f32[8,16], (f32[8,16], f32[8,16])) parameter(2)
  s = f32[8,16] sine(b)
  u = ((f32[8,16], f32[8,16]), f32[8,16], (f32[8,16], (f32[8,16], f32[8,16]))) tuple(v, s, t)
  v2 = (f32[8,16], f32[8,16]) get-tuple-element(u), index=0
  x = f32[8,16] get-tuple-element(v2), index=1
  w = f32[8,16] get-tuple-element(u), index=1
  k = f32[8,16] custom-call(w), custom_call_target="Sharding" @devices=[1,8]<=[8]
  ROOT r = (f32[8,16], f32[8,16]) tuple(x, k)""".replace("  s = f32[8,16] sine(b)",
                                                         "  s = f32[8,16] sine(b)\n  v = (f32[8,16], f32[8,16]) tuple(s, a)"))
case("tuple_same_twice", """
  a = f32[8,16] parameter(0)
  s = f32[8,16] sine(a)
  t = (f32[8,16], f32[8,16], f32[8,16]) tuple(s, s, s)
  o = (f32[8,16], f32[8,16], f32[8,16]) opt-barrier(t)
  x = f32[8,16] get-tuple-element(o), index=0
  y = f32[8,16] get-tuple-element(o), index=1
  z = f32[8,16] get-tuple-element(o), index=2
  k = f32[8,16] custom-call(x), custom_call_target="Sharding" @devices=[2,1,4]<=[8] l
  m = f32[8,16] custom-call(y), custom_call_target="Sharding" @devices=[1,8]<=[8]
  ROOT r = (f32[8,16], f32[8,16], f32[8,16]) tuple(k, m, z)""")
