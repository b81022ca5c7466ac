"""Hand-written programs, one point of docs/propagation.md each.

` l}` stands for ` last_tile_dim_replicate}`; `@X` at the end of a line for `, sharding={X}`.
"""
import re

CASES = {}


def text_of(body, computations="", devices=8, output="true", parameters=""):
    header = f"HloModule written, num_partitions={devices}"
    if parameters:
        header += ", allow_spmd_sharding_propagation_to_parameters={%s}" % parameters
    if output:
        header += ", allow_spmd_sharding_propagation_to_output={%s}" % output
    text = f"{header}\n\n{computations}\nENTRY main {{\n{body}\n}}\n"
    text = re.sub(r"\s*@(.*)$", r", sharding={\1}", text, flags=re.M)
    return re.sub(r" l\}", " last_tile_dim_replicate}", text)


def case(name, body, computations="", **options):
    assert name not in CASES, name
    CASES[name] = text_of(body, computations, **options)


ADD = """
addf {
  addf.a = f32[] parameter(0)
  addf.b = f32[] parameter(1)
  ROOT addf.r = f32[] add(addf.a, addf.b)
}
"""
LESS = """
less {
  less.a = f32[] parameter(0)
  less.b = f32[] parameter(1)
  ROOT less.r = pred[] compare(less.a, less.b), direction=LT
}
"""
X, Y, Z = "devices=[2,1,4]<=[8] l", "devices=[1,4,2]<=[2,4]T(1,0) l", "devices=[1,2,4]<=[4,2]T(1,0) l"

# --- the improvement rule
for k, (a, b) in enumerate([
        (X, Y), (X, Z), (X, "devices=[1,2,4]<=[8] l"), ("devices=[8,1]<=[8]", "devices=[1,8]<=[8]"),
        ("replicated", X), (X, "replicated"), ("devices=[4,2]<=[8]", "devices=[2,4]<=[8]"),
        ("devices=[4,1,2]<=[8] l", "devices=[2,1,4]<=[8] l"), ("devices=[4,1,2]<=[8] l", "devices=[2,1,4]<=[2,4]T(1,0) l"),
        ("maximal device=3", X), (X, "maximal device=1"), ("maximal device=2", "maximal device=5"),
        ("devices=[2,2,2]<=[8] l", "devices=[1,4,2]<=[8] l"), ("devices=[4,2]<=[2,2,2]T(1,0,2)", "devices=[8,1]<=[8]"),
        ("devices=[2,4]0,2,1,3,7,6,5,4", "devices=[2,1,4]<=[8] l"), ("unknown", X), (X, "unknown")]):
    case(f"improve_{k}", f"""
  a = f32[8,16] parameter(0) @{a}
  b = f32[8,16] parameter(1) @{b}
  s = f32[8,16] sine(a)
  c = f32[8,16] cosine(b)
  m = f32[8,16] add(s, c)
  ROOT r = f32[8,16] negate(m)""")
    case(f"improve_back_{k}", f"""
  a = f32[8,16] parameter(0)
  s = f32[8,16] sine(a)
  u = f32[8,16] negate(s)
  v = f32[8,16] tanh(s)
  ku = f32[8,16] custom-call(u), custom_call_target="Sharding" @{a}
  kv = f32[8,16] custom-call(v), custom_call_target="Sharding" @{b}
  ROOT r = (f32[8,16], f32[8,16]) tuple(ku, kv)""", parameters="true" if k % 2 else "")
    case(f"improve_between_{k}", f"""
  a = f32[8,16] parameter(0) @{a}
  s = f32[8,16] sine(a)
  t = f32[8,16] tanh(s)
  u = f32[8,16] negate(t)
  ROOT r = f32[8,16] custom-call(u), custom_call_target="Sharding" @{b}""")

# --- single use: forward is aggressive, but not past a second user
for k, extra in enumerate(["", "\n  v = f32[16,8] cosine(t)", "\n  v = f32[16,8] cosine(t)\n  w = f32[16,8] sine(t)"]):
    results = ["u", "v", "w"][:k + 1]
    case(f"single_use_{k}", f"""
  a = f32[8,16] parameter(0) @devices=[8,1]<=[8]
  b = f32[16,8] parameter(1) @devices=[2,1,4]<=[8] l
  t = f32[16,8] transpose(a), dimensions={{1,0}}
  u = f32[16,8] add(t, b){extra}
  ROOT r = ({', '.join(['f32[16,8]'] * (k + 1))}) tuple({', '.join(results)})""")
case("single_use_besides_root", """
  a = f32[8,16] parameter(0) @devices=[8,1]<=[8]
  t = f32[8,16] sine(a)
  u = f32[8,16] negate(t)
  ku = f32[8,16] custom-call(u), custom_call_target="Sharding" @devices=[1,2,4]<=[8] l
  ROOT r = (f32[8,16], f32[8,16]) tuple(t, ku)""")

# --- options and boundary
for k, (output, parameters) in enumerate([("", ""), ("false", "false"), ("true", "true"), ("true,false", "false,true"),
                                          ("false,true", "true,false"), ("true", "false,false"), ("false", "true")]):
    case(f"boundary_{k}", """
  a = f32[8,16] parameter(0) @devices=[2,1,4]<=[8] l
  b = f32[8,16] parameter(1)
  s = f32[8,16] sine(a)
  t = f32[8,16] tanh(b)
  k = f32[8,16] custom-call(s), custom_call_target="Sharding" @devices=[8,1]<=[8]
  m = f32[8,16] custom-call(t), custom_call_target="Sharding" @devices=[1,8]<=[8]
  n = f32[8,16] negate(k)
  o = f32[8,16] negate(m)
  ROOT r = (f32[8,16], f32[8,16]) tuple(n, o) @{devices=[1,2,4]<=[8] l}, {replicated}""".replace(
        " l}", " last_tile_dim_replicate}"), output=output, parameters=parameters)
    case(f"indivisible_{k}", """
  a = f32[7,16] parameter(0)
  b = f32[7,16] parameter(1)
  s = f32[7,16] sine(a)
  t = f32[7,16] tanh(b)
  k = f32[7,16] custom-call(s), custom_call_target="Sharding" @devices=[8,1]<=[8]
  m = f32[7,16] custom-call(t), custom_call_target="Sharding" @devices=[4,2]<=[8]
  n = f32[7,16] negate(k)
  o = f32[7,16] negate(m)
  ROOT r = (f32[7,16], f32[7,16]) tuple(n, o)""", output=output, parameters=parameters)
case("array_root", """
  a = f32[8,16] parameter(0) @devices=[2,1,4]<=[8] l
  ROOT r = f32[8,16] negate(a) @devices=[1,2,4]<=[8] l""")
case("array_root_fixed", """
  a = f32[8,16] parameter(0) @devices=[2,1,4]<=[8] l
  s = f32[8,16] sine(a)
  ROOT r = f32[8,16] negate(s) @devices=[1,8]<=[8]""", output="")
case("tuple_parameter", """
  p = (f32[8,16], f32[8,16]) parameter(0) @{devices=[8,1]<=[8]}, {replicated}
  a = f32[8,16] get-tuple-element(p), index=0
  b = f32[8,16] get-tuple-element(p), index=1
  s = f32[8,16] add(a, b)
  ROOT r = f32[8,16] negate(s)""", parameters="true,false")

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

# --- levels: what passes when
case("broadcast_last", """
  a = f32[8] parameter(0) @devices=[8]<=[8]
  b = f32[8,16] parameter(1) @devices=[1,8]<=[8]
  x = f32[8,16] broadcast(a), dimensions={0}
  m = f32[8,16] multiply(x, b)
  ROOT r = f32[8,16] negate(m)""")
case("broadcast_chain", """
  a = f32[8] parameter(0) @devices=[4,2]<=[8] l
  x = f32[8,16] broadcast(a), dimensions={0}
  y = f32[8,16,4] broadcast(x), dimensions={0,1}
  ROOT r = f32[8,16,4] negate(y)""")
case("broadcast_back_chain", """
  a = f32[8] parameter(0)
  s = f32[8] sine(a)
  x = f32[8,16] broadcast(s), dimensions={0}
  y = f32[8,16,4] broadcast(x), dimensions={0,1}
  ROOT r = f32[8,16,4] custom-call(y), custom_call_target="Sharding" @devices=[2,2,2]<=[8]""", parameters="true")
case("scalar_broadcast", """
  a = f32[] parameter(0)
  s = f32[] sine(a)
  x = f32[8,16] broadcast(s), dimensions={}
  ROOT r = f32[8,16] custom-call(x), custom_call_target="Sharding" @devices=[2,4]<=[8]""", parameters="true")
case("concatenate_blocks", """
  a = f32[64] parameter(0) @devices=[2,4]<=[8] l
  b = f32[64] parameter(1) @devices=[2,4]<=[8] l
  x = f32[8,8] reshape(a)
  y = f32[8,8] reshape(b)
  c = f32[8,16] concatenate(x, y), dimensions={1}
  w = f32[8,16] parameter(2) @devices=[1,4,2]<=[8] l
  m = f32[8,16] add(c, w)
  ROOT r = f32[8,16] negate(m)""")
case("concatenate_not_blocks", """
  a = f32[8,8] parameter(0) @devices=[2,1,4]<=[8] l
  b = f32[8,8] parameter(1) @devices=[2,1,4]<=[8] l
  x = f32[8,8] sine(a)
  y = f32[8,8] sine(b)
  c = f32[8,16] concatenate(x, y), dimensions={1}
  w = f32[8,16] parameter(2) @devices=[1,4,2]<=[8] l
  m = f32[8,16] add(c, w)
  ROOT r = f32[8,16] negate(m)""")
case("level_0_before_1", """
  a = f32[8,16] parameter(0) @devices=[8,1]<=[8]
  b = f32[16,8] parameter(1) @devices=[1,2,4]<=[8] l
  s = f32[8,16] sine(a)
  d = f32[8,8] dot(s, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,8] tanh(d)
  k = f32[8,8] custom-call(t), custom_call_target="Sharding" @devices=[1,8]<=[8]
  ROOT r = f32[8,8] negate(k)""")

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

# --- control flow
LOOP = """
condition {
  cp = (s32[], f32[8,16], f32[8,16]) parameter(0)
  ci = s32[] get-tuple-element(cp), index=0
  cn = s32[] constant(4)
  ROOT cr = pred[] compare(ci, cn), direction=LT
}
body {
  bp = (s32[], f32[8,16], f32[8,16]) parameter(0)
  bi = s32[] get-tuple-element(bp), index=0
  b1 = s32[] constant(1)
  bn = s32[] add(bi, b1)
  bx = f32[8,16] get-tuple-element(bp), index=1
  by = f32[8,16] get-tuple-element(bp), index=2
  bs = f32[8,16] sine(bx)%s
  bt = f32[8,16] add(bs, by)
  bu = f32[8,16] tanh(by)%s
  ROOT br = (s32[], f32[8,16], f32[8,16]) tuple(bn, bt, bu)%s
}
"""
for k, (inside, tail, root, x, y) in enumerate([
        ("devices=[4,2]<=[8]", "", "", "", ""), ("", "", "", X, Y), ("", "devices=[1,8]<=[8]", "", "devices=[8,1]<=[8]", ""),
        (X, Y, "", "", ""), ("", "", "{replicated}, {devices=[2,4]<=[8]}, {replicated}", "", ""),
        ("", "", "", "devices=[4,2]<=[8]", "devices=[2,4]<=[8]"), ("devices=[2,1,4]<=[8] l", "", "", "", "devices=[1,4,2]<=[2,4]T(1,0) l")]):
    at = lambda s: f" @{s}" if s else ""
    case(f"while_{k}", f"""
  a = f32[8,16] parameter(0){at(x)}
  b = f32[8,16] parameter(1){at(y)}
  zero = s32[] constant(0)
  init = (s32[], f32[8,16], f32[8,16]) tuple(zero, a, b)
  loop = (s32[], f32[8,16], f32[8,16]) while(init), condition=condition, body=body
  p = f32[8,16] get-tuple-element(loop), index=1
  q = f32[8,16] get-tuple-element(loop), index=2
  ROOT r = (f32[8,16], f32[8,16]) tuple(p, q)""", LOOP % (at(inside), at(tail), at(root)), parameters="true" if k % 2 else "")
case("while_root", """
  a = f32[8,16] parameter(0)
  b = f32[8,16] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[8,16], f32[8,16]) tuple(zero, a, b)
  ROOT loop = (s32[], f32[8,16], f32[8,16]) while(init), condition=condition, body=body""",
     LOOP % (" @devices=[4,2]<=[8]", "", ""), output="")
case("while_root_annotated", """
  a = f32[8,16] parameter(0)
  b = f32[8,16] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[8,16], f32[8,16]) tuple(zero, a, b)
  ROOT loop = (s32[], f32[8,16], f32[8,16]) while(init), condition=condition, body=body @{replicated}, {devices=[2,4]<=[8]}, {replicated}""",
     LOOP % ("", "", ""), output="")
BRANCH = """
yes {
  yp = (f32[8,16], f32[8,16]) parameter(0)
  yx = f32[8,16] get-tuple-element(yp), index=0
  yy = f32[8,16] get-tuple-element(yp), index=1
  ys = f32[8,16] add(yx, yy)%s
  ROOT yr = (f32[8,16]) tuple(ys)
}
no {
  np = f32[8,16] parameter(0)
  ns = f32[8,16] sine(np)%s
  ROOT nr = (f32[8,16]) tuple(ns)
}
"""
for k, (yes, no, x, y, z) in enumerate([("devices=[4,2]<=[8]", "", "", "", ""), ("", "devices=[1,8]<=[8]", "", "", ""),
                                        ("", "", X, Y, ""), ("", "", "", "", "devices=[8,1]<=[8]"), (X, Y, "", "", ""),
                                        ("devices=[8,1]<=[8]", "devices=[1,8]<=[8]", "", "", "")]):
    at = lambda s: f" @{s}" if s else ""
    case(f"conditional_{k}", f"""
  a = f32[8,16] parameter(0){at(x)}
  b = f32[8,16] parameter(1){at(y)}
  c = f32[8,16] parameter(2){at(z)}
  choose = pred[] parameter(3)
  s = f32[8,16] sine(c)
  init = (f32[8,16], f32[8,16]) tuple(a, b)
  d = (f32[8,16]) conditional(choose, init, s), true_computation=yes, false_computation=no
  p = f32[8,16] get-tuple-element(d), index=0
  ROOT r = f32[8,16] negate(p)""", BRANCH % (at(yes), at(no)), parameters="true" if k % 2 else "")

# --- partial annotations
for k, (dims, s, operand, users) in enumerate([
        ("0", "devices=[1,4,2]<=[2,4]T(1,0) l", "devices=[2,1,4]<=[8] l", []),
        ("1", "devices=[2,1,4]<=[8] l", "devices=[2,2,2]<=[8] l", []),
        ("0,1", "devices=[1,4,2]<=[2,4]T(1,0) l", "devices=[8,1]<=[8]", []),
        ("0", "devices=[1,4,2]<=[2,4]T(1,0) l", "", ["devices=[2,1,4]<=[8] l"]),
        ("0,1", "replicated", "devices=[2,1,4]<=[8] l", ["devices=[1,4,2]<=[2,4]T(1,0) l"]),
        ("0,1", "replicated", "devices=[2,4]<=[8]", []),
        ("1", "replicated", "devices=[2,4]<=[8]", []),
        ("0", "devices=[1,4,2]<=[2,4]T(1,0) l", "devices=[2,1,4]<=[8] l", ["devices=[1,8]<=[8]", "devices=[8,1]<=[8]"]),
        ("1", "devices=[2,1,4]<=[8] l", "devices=[1,2,4]<=[8] l", ["devices=[1,4,2]<=[2,4]T(1,0) l"])]):
    at = lambda s: f" @{s}" if s else ""
    extra = "".join(f"\n  w{i} = f32[8,16] negate(c)\n  k{i} = f32[8,16] custom-call(w{i}), "
                    f'custom_call_target="Sharding"{at(u)}' for i, u in enumerate(users))
    case(f"open_dims_{k}", f"""
  a = f32[8,16] parameter(0){at(operand)}
  s = f32[8,16] sine(a)
  c = f32[8,16] custom-call(s), custom_call_target="Sharding", backend_config="unspecified_dims=[{dims}]"{at(s)}
  v = f32[8,16] tanh(c){extra}
  ROOT r = ({', '.join(['f32[8,16]'] * (len(users) + 1))}) tuple({', '.join(['v'] + [f'k{i}' for i in range(len(users))])})""")
case("sharding_of_sharding", """
  a = f32[8,16] parameter(0)
  s = f32[8,16] sine(a)
  c = f32[8,16] custom-call(s), custom_call_target="Sharding" @devices=[8,1]<=[8]
  d = f32[8,16] custom-call(c), custom_call_target="Sharding" @devices=[1,8]<=[8]
  e = f32[8,16] custom-call(c), custom_call_target="Sharding" @devices=[2,4]<=[8]
  ROOT r = (f32[8,16], f32[8,16]) tuple(d, e)""")
for k, s in enumerate(["unknown", "unknown shard_as 0", "replicated"]):
    case(f"sharding_unknown_{k}", f"""
  a = f32[8,16] parameter(0)
  b = f32[8,16] parameter(1) @devices=[8,1]<=[8]
  s = f32[8,16] sine(a)
  c = f32[8,16] custom-call(s), custom_call_target="Sharding" @{s}
  d = f32[8,16] add(c, b)
  e = f32[8,16] custom-call(a), custom_call_target="Sharding" @{s}
  f = f32[8,16] add(e, b)
  ROOT r = (f32[8,16], f32[8,16]) tuple(d, f)""", parameters="true")

# --- shard groups and barriers
for k, (kind, x, y) in enumerate([("as", "devices=[8,1]<=[8]", ""), ("like", "devices=[8,1]<=[8]", ""), ("as", X, Y), ("like", X, Y),
                                  ("as", "devices=[8,1]<=[8]", "devices=[1,8]<=[8]"), ("like", "devices=[8,1]<=[8]", "devices=[1,8]<=[8]")]):
    at = lambda s: f" @{s}" if s else ""
    case(f"group_{k}", f"""
  a = f32[8,16] parameter(0){at(x)}
  b = f32[8,16] parameter(1){at(y)}
  s = f32[8,16] sine(a)
  t = f32[8,16] tanh(b)
  g = f32[8,16] custom-call(s), custom_call_target="Sharding" @unknown shard_{kind} 1
  h = f32[8,16] custom-call(t), custom_call_target="Sharding" @unknown shard_{kind} 1
  u = f32[8,16] negate(g)
  v = f32[8,16] negate(h)
  ROOT r = (f32[8,16], f32[8,16]) tuple(u, v)""")
    case(f"group_open_{k}", f"""
  a = f32[8,16] parameter(0){at(x)}
  b = f32[8,16] parameter(1){at(y)}
  s = f32[8,16] sine(a)
  t = f32[8,16] tanh(b)
  g = f32[8,16] custom-call(s), custom_call_target="Sharding", backend_config="unspecified_dims=[0,1]" @replicated shard_{kind} 1
  h = f32[8,16] custom-call(t), custom_call_target="Sharding", backend_config="unspecified_dims=[0,1]" @replicated shard_{kind} 1
  u = f32[8,16] negate(g)
  v = f32[8,16] negate(h)
  ROOT r = (f32[8,16], f32[8,16]) tuple(u, v)""")
for k, target in enumerate(["ShardBarrierFrom", "ShardBarrierTo"]):
    for q, (x, y) in enumerate([("devices=[8,1]<=[8]", ""), ("", "devices=[1,8]<=[8]"), (X, Y)]):
        at = lambda s: f" @{s}" if s else ""
        case(f"barrier_{k}_{q}", f"""
  a = f32[8,16] parameter(0){at(x)}
  s = f32[8,16] sine(a)
  c = f32[8,16] custom-call(s), custom_call_target="{target}", custom_call_has_side_effect=true
  d = f32[8,16] negate(c)
  e = f32[8,16] tanh(d)
  b = f32[8,16] parameter(1){at(y)}
  f = f32[8,16] add(e, b)
  ROOT r = f32[8,16] negate(f)""")

# --- manual regions
for k, (inner, outer) in enumerate([("manual", "devices=[8,1]<=[8]"), ("devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}", "devices=[2,1,4]<=[8] l"),
                                    ("devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}", "devices=[2,4]<=[8]"),
                                    ("devices=[1,2,2,2]<=[8] last_tile_dims={manual, replicated}", "devices=[2,2,2]<=[8] l")]):
    m = 1 if inner == "manual" else 4
    case(f"manual_{k}", f"""
  a = f32[8,16] parameter(0)
  s = f32[8,16] sine(a)
  c = f32[8,16] custom-call(s), custom_call_target="Sharding" @{outer}
  i = f32[{m},16] custom-call(c), custom_call_target="SPMDFullToShardShape" @{inner}
  n = f32[{m},16] tanh(i)
  t = f32[16,{m}] transpose(n), dimensions={{1,0}}
  z = f32[] constant(0)
  q = f32[{m}] reduce(t, z), dimensions={{0}}, to_apply=addf
  bq = f32[{m},16] broadcast(q), dimensions={{0}}
  w = f32[{m},16] add(n, bq)
  tt = (f32[{m},16], f32[{m}]) tuple(w, q)
  tb = (f32[{m},16], f32[{m}]) opt-barrier(tt)
  g = f32[{m},16] get-tuple-element(tb), index=0
  x = f32[{m},16] custom-call(g), custom_call_target="Sharding" @{inner}
  o = f32[8,16] custom-call(x), custom_call_target="SPMDShardToFullShape" @{outer}
  ROOT r = f32[8,16] negate(o)""", ADD)
for k, dims in enumerate(["1", "0"]):
    case(f"manual_open_{k}", f"""
  a = f32[8,16] parameter(0) @devices=[2,2,2]<=[8] l
  s = f32[8,16] sine(a)
  c = f32[8,16] custom-call(s), custom_call_target="Sharding", backend_config="unspecified_dims=[{dims}]" @devices=[2,1,4]<=[8] l
  i = f32[4,16] custom-call(c), custom_call_target="SPMDFullToShardShape", backend_config="unspecified_dims=[{dims}]" @devices=[1,1,2,4]<=[8] last_tile_dims={{manual, replicated}}
  n = f32[4,16] tanh(i)
  x = f32[4,16] custom-call(n), custom_call_target="Sharding", backend_config="unspecified_dims=[{dims}]" @devices=[1,1,2,4]<=[8] last_tile_dims={{manual, replicated}}
  o = f32[8,16] custom-call(x), custom_call_target="SPMDShardToFullShape", backend_config="unspecified_dims=[{dims}]" @devices=[2,1,4]<=[8] l
  ROOT r = f32[8,16] negate(o)""")

# --- gathers and scatters
for k, (o, s) in enumerate([("devices=[2,4]<=[8]", ""), ("", "devices=[2,1,4]<=[8] l"), ("devices=[2,4]<=[8]", "devices=[2,1,4]<=[8] l"),
                            ("devices=[8,1]<=[8]", ""), ("devices=[1,8]<=[8]", "devices=[8,1]<=[8]"), ("replicated", ""), ("", "replicated"),
                            ("", "devices=[1,8]<=[8]"), ("devices=[1,4,2]<=[2,4]T(1,0) l", "devices=[2,1,4]<=[8] l"),
                            ("maximal device=1", "devices=[2,1,4]<=[8] l")]):
    at = lambda x: f" @{x}" if x else ""
    for q, width in enumerate([64, 32]):
        case(f"gather_{k}_{q}", f"""
  o = f32[16,64] parameter(0){at(o)}
  s = s32[8,1] parameter(1){at(s)}
  x = f32[16,64] sine(o)
  y = s32[8,1] negate(s)
  g = f32[8,{width}] gather(x, y), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{width}}}
  ROOT r = f32[8,{width}] negate(g)""")
        case(f"scatter_{k}_{q}", f"""
  o = f32[16,64] parameter(0){at(o)}
  s = s32[8,1] parameter(1){at(s)}
  w = f32[8,{width}] parameter(2)
  x = f32[16,64] sine(o)
  y = s32[8,1] negate(s)
  v = f32[8,{width}] sine(w)
  g = f32[16,64] scatter(x, y, v), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=addf
  ROOT r = f32[16,64] negate(g)""", ADD)
        case(f"scatter_updates_{k}_{q}", f"""
  o = f32[16,{width}] parameter(0)
  s = s32[8,1] parameter(1){at(s)}
  w = f32[8,{width}] parameter(2){at(o)}
  x = f32[16,{width}] sine(o)
  y = s32[8,1] negate(s)
  v = f32[8,{width}] sine(w)
  g = f32[16,{width}] scatter(x, y, v), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=addf
  ROOT r = f32[16,{width}] negate(g)""", ADD)
for k, s in enumerate(["devices=[2,4]<=[8]", "devices=[8,1]<=[8]", "devices=[1,8]<=[8]", "devices=[1,4,2]<=[8] l", "replicated"]):
    case(f"gather_back_{k}", f"""
  o = f32[16,64] parameter(0)
  s = s32[8,1] parameter(1)
  x = f32[16,64] sine(o)
  y = s32[8,1] negate(s)
  g = f32[8,64] gather(x, y), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,64}}
  ROOT r = f32[8,64] custom-call(g), custom_call_target="Sharding" @{s}""", parameters="true")
    case(f"scatter_back_{k}", f"""
  o = f32[16,64] parameter(0)
  s = s32[8,1] parameter(1)
  w = f32[8,64] parameter(2)
  x = f32[16,64] sine(o)
  y = s32[8,1] negate(s)
  v = f32[8,64] sine(w)
  g = f32[16,64] scatter(x, y, v), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=addf
  ROOT r = f32[16,64] custom-call(g), custom_call_target="Sharding" @{s}""", ADD, parameters="true")
PARALLEL = {
    "iota": "  i = s32[8,4,1] iota(), iota_dimension=0",
    "constant": "  ic = s32[8] constant({0, 1, 2, 3, 4, 5, 6, 7})\n  i = s32[8,4,1] broadcast(ic), dimensions={0}",
    "copied": "  i0 = s32[8,4,1] iota(), iota_dimension=0\n  i = s32[8,4,1] copy(i0)",
    "other": "  i = s32[8,4,1] iota(), iota_dimension=1",
}
for name, iota in PARALLEL.items():
    for k, (o, s, back) in enumerate([("devices=[8,1,1]<=[8]", "", ""), ("devices=[2,1,4]<=[8]", "", ""), ("", "devices=[2,4,1]<=[8]", ""),
                                      ("devices=[2,1,1,4]<=[8] l", "devices=[1,2,1,4]<=[4,2]T(1,0) l", ""), ("", "", "devices=[2,2,2]<=[8]")]):
        at = lambda x: f" @{x}" if x else ""
        case(f"gather_{name}_{k}", f"""
  o = f32[8,16,64] parameter(0){at(o)}
  j0 = s32[8,4,1] parameter(1){at(s)}
  x = f32[8,16,64] sine(o)
{iota}
  j = s32[8,4,1] negate(j0)
  ij = s32[8,4,2] concatenate(i, j), dimensions={{2}}
  g = f32[8,4,64] gather(x, ij), offset_dims={{2}}, collapsed_slice_dims={{0,1}}, start_index_map={{0,1}}, index_vector_dim=2, slice_sizes={{1,1,64}}
  h = f32[8,4,64] tanh(g){at(back)}
  ROOT r = f32[8,4,64] negate(h)""", parameters="true" if back else "")
        case(f"scatter_{name}_{k}", f"""
  o = f32[8,16,64] parameter(0){at(o)}
  j0 = s32[8,4,1] parameter(1){at(s)}
  w = f32[8,4,64] parameter(2){at(back)}
  x = f32[8,16,64] sine(o)
  v = f32[8,4,64] sine(w)
{iota}
  j = s32[8,4,1] negate(j0)
  ij = s32[8,4,2] concatenate(i, j), dimensions={{2}}
  g = f32[8,16,64] scatter(x, ij, v), update_window_dims={{2}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=2, to_apply=addf
  ROOT r = f32[8,16,64] negate(g)""", ADD, parameters="true")
for k, (o, s, back) in enumerate([("devices=[8,1,1]<=[8]", "", ""), ("devices=[2,1,4]<=[8]", "", ""), ("", "devices=[2,4,1]<=[8]", ""),
                                  ("", "", "devices=[2,2,2]<=[8]")]):
    at = lambda x: f" @{x}" if x else ""
    case(f"gather_explicit_{k}", f"""
  o = f32[8,16,64] parameter(0){at(o)}
  j0 = s32[8,4,1] parameter(1){at(s)}
  x = f32[8,16,64] sine(o)
  j = s32[8,4,1] negate(j0)
  g = f32[8,4,64] gather(x, j), offset_dims={{2}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, operand_batching_dims={{0}}, start_indices_batching_dims={{0}}, index_vector_dim=2, slice_sizes={{1,1,64}}
  h = f32[8,4,64] tanh(g){at(back)}
  ROOT r = f32[8,4,64] negate(h)""", parameters="true")
    case(f"scatter_explicit_{k}", f"""
  o = f32[8,16,64] parameter(0){at(o)}
  j0 = s32[8,4,1] parameter(1){at(s)}
  w = f32[8,4,64] parameter(2){at(back)}
  x = f32[8,16,64] sine(o)
  v = f32[8,4,64] sine(w)
  j = s32[8,4,1] negate(j0)
  g = f32[8,16,64] scatter(x, j, v), update_window_dims={{2}}, inserted_window_dims={{1}}, scatter_dims_to_operand_dims={{1}}, input_batching_dims={{0}}, scatter_indices_batching_dims={{0}}, index_vector_dim=2, to_apply=addf
  ROOT r = f32[8,16,64] negate(g)""", ADD, parameters="true")

# --- which index components pair up: in order, duplicates before unequal sizes before whole slices
for k, (pieces, index_map, sizes, offset, collapsed, batch, result) in enumerate([
        ([0, 0], "0,1", "1,3,9", "2,3", "0", "6,8", "6,8,3,9"), ([0, 0], "1,0", "1,3,9", "2,3", "0", "6,8", "6,8,3,9"),
        ([0, 0], "0,1", "1,1,9", "2", "0,1", "6,8", "6,8,9"), ([0, 1], "0,1", "1,3,9", "2,3", "0", "6,8", "6,8,3,9"),
        ([0, 1], "0,1", "1,1,9", "2", "0,1", "6,8", "6,8,9"), ([0, 1], "0,1", "1,1,9", "2", "0,1", "6,6", "6,6,9"),
        ([0, None], "0,1", "1,1,9", "2", "0,1", "6,8", "6,8,9"), ([1, 0], "1,0", "1,3,9", "2,3", "0", "6,8", "6,8,3,9")]):
    lines = ["o = f32[6,6,9] parameter(0) @devices=[2,2,1,2]<=[8] l"]
    for j, d in enumerate(pieces):
        if d is None:
            lines += [f"c{j} = s32[] constant(1)", f"q{j} = s32[{batch},1] broadcast(c{j}), dimensions={{}}"]
        else:
            lines += [f"q{j} = s32[{batch},1] iota(), iota_dimension={d}"]
    lines += [f"i = s32[{batch},{len(pieces)}] concatenate({', '.join(f'q{j}' for j in range(len(pieces)))}), dimensions={{2}}",
              f"t = f32[{result}] gather(o, i), offset_dims={{{offset}}}, collapsed_slice_dims={{{collapsed}}}, "
              f"start_index_map={{{index_map}}}, index_vector_dim=2, slice_sizes={{{sizes}}}",
              f"ROOT r = f32[{result}] negate(t)"]
    case(f"gather_pairs_{k}", "\n".join("  " + line for line in lines))

# --- ops that the lists above do not have, forward and backward
BODIES = ADD + """
step {
  step.a = f32[16] parameter(0)
  step.b = f32[16] parameter(1)
  step.n = f32[16] add(step.a, step.b)
  ROOT step.r = (f32[16], f32[16]) tuple(step.n, step.n)
}
fused {
  fused.a = f32[8,16] parameter(0)
  fused.b = f32[8,16] parameter(1)
  fused.n = f32[8,16] add(fused.a, fused.b)
  ROOT fused.r = f32[8,16] sine(fused.n)
}
turned {
  turned.a = f32[8,16] parameter(0)
  ROOT turned.r = f32[16,8] transpose(turned.a), dimensions={1,0}
}
"""
EVERYBODY = "channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}"
for name, result, expression in [
        ("map", "f32[8,16]", "map(x, y), dimensions={0,1}, to_apply=addf"),
        ("map_no_dims", "f32[8,16]", "map(x, y), dimensions={}, to_apply=addf"),
        ("rng", "f32[8,16]", "rng(z, z), distribution=rng_uniform"),
        ("fusion", "f32[8,16]", "fusion(x, y), kind=kLoop, calls=fused"),
        ("fusion_transposed", "f32[16,8]", "fusion(x), kind=kLoop, calls=turned"),
        ("all_reduce", "f32[8,16]", "all-reduce(x), replica_groups={}, to_apply=addf"),
        ("all_reduce_channel", "f32[8,16]", f"all-reduce(x), {EVERYBODY}, use_global_device_ids=true, to_apply=addf"),
        ("reduce_scatter", "f32[1,16]",
         f"reduce-scatter(x), {EVERYBODY}, use_global_device_ids=true, dimensions={{0}}, to_apply=addf"),
        ("collective_permute", "f32[8,16]", "collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}"),
        ("all_gather", "f32[64,16]", f"all-gather(x), {EVERYBODY}, use_global_device_ids=true, dimensions={{0}}"),
        ("all_to_all", "f32[8,16]", f"all-to-all(x), {EVERYBODY}, dimensions={{0}}"),
        ("stochastic_convert", "s32[8,16]", "stochastic-convert(x, u)"),
        ("opt_barrier", "f32[8,16]", "opt-barrier(x)")]:
    for k, s in enumerate([X, "devices=[4,2]<=[8]", "replicated"]):
        case(f"forward_{name}_{k}", f"""
  x = f32[8,16] parameter(0) @{s}
  y = f32[8,16] parameter(1) @{Y}
  u = u32[8,16] parameter(2) @replicated
  z = f32[] constant(0)
  t = {result} {expression}
  ROOT r = {result} negate(t)""", BODIES)
        case(f"backward_{name}_{k}", f"""
  x = f32[8,16] parameter(0)
  y = f32[8,16] parameter(1)
  u = u32[8,16] parameter(2)
  z = f32[] constant(0)
  t = {result} {expression}
  ROOT r = {result} negate(t) @{s}""", BODIES, output="", parameters="true")
# XLA dies where scan takes from its operands.
for k, s in enumerate([X, "devices=[4,2]<=[8]", "replicated"]):
    case(f"backward_scan_{k}", f"""
  x = f32[8,16] parameter(0)
  i = f32[16] parameter(1)
  t = (f32[8,16], f32[16]) scan(x, i), dimensions={{0}}, num_carries=1, to_apply=step
  g = f32[8,16] get-tuple-element(t), index=0 @{s}
  h = f32[16] get-tuple-element(t), index=1
  ROOT r = (f32[8,16], f32[16]) tuple(g, h)""", BODIES, parameters="true")
case("backward_infeed", """
  t = token[] after-all()
  i = (f32[8,16], token[]) infeed(t)
  g = f32[8,16] get-tuple-element(i), index=0
  ROOT r = f32[8,16] negate(g) @devices=[4,2]<=[8]""")
case("group_like", f"""
  a = f32[8,16] parameter(0) @devices=[4,1,2]<=[8] l
  b = f32[8,16] parameter(1)
  s = f32[8,16] sine(a)
  t = f32[8,16] cosine(b)
  p = f32[8,16] custom-call(s), custom_call_target="Sharding" @unknown shard_like 0
  q = f32[8,16] custom-call(t), custom_call_target="Sharding" @unknown shard_like 0
  ROOT r = (f32[8,16], f32[8,16]) tuple(p, q)""", parameters="true")
# What is not supported takes replication, unless it has side effects.
case("replication_fallback", """
  a = f32[8,16] parameter(0) @replicated
  s = f32[8,16] custom-call(a), custom_call_target="foo"
  t = f32[8,16] custom-call(a), custom_call_target="foo", custom_call_has_side_effect=true
  ROOT r = f32[8,16] add(s, t)""")
