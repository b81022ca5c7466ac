"""The improvement rule, single use, options and boundary, levels."""
from written_cases import ADD, X, Y, Z, case

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

# --- what an operand is asked for depends on another one, which changes in the last level's second sweep
for k, (shape, other) in enumerate([
        ("f32[2,5,7]", """
  q = f32[13,7] parameter(0)
  r = f32[13,7] tanh(q)
  u = f32[2,5,7] dot(late, r), lhs_contracting_dims={1}, rhs_contracting_dims={0} @replicated"""),
        ("f32[13,2,5,7]", """
  q = f32[13,2,7] parameter(0)
  r = f32[13,2,7] tanh(q)
  u = f32[13,2,5,7] dot(late, r), lhs_batch_dims={1,0}, rhs_batch_dims={0,1} @replicated"""),
        ("f32[5,7,1]", """
  q = f32[2,13,7] parameter(0)
  r = f32[2,13,7] tanh(q)
  u = f32[5,7,1] convolution(late, r), window={size=2}, dim_labels=0fb_0io->bf0 @replicated"""),
        ("f32[10,13]", """
  q = f32[10,13] parameter(0)
  zero = s32[] constant(0)
  r = s32[13] broadcast(zero), dimensions={}
  t = f32[10,13] scatter(q, r, late), update_window_dims={0,2}, inserted_window_dims={}, """
         """scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=addf
  w = f32[10,13] parameter(1) @replicated
  u = f32[10,13] add(t, w)""")]):
    case(f"late_sibling_{k}", f"""
  i = f32[13,5] iota(), iota_dimension=1
  x = f32[13,5] cosine(i)
  late = f32[2,13,5] broadcast(x), dimensions={{1,2}}{other}
  c = f32[13] iota(), iota_dimension=0 @devices=[2]<=[2]
  d = f32[13,10] broadcast(c), dimensions={{0}}
  e = f32[13,20] concatenate(x, d, x), dimensions={{1}}
  ROOT all = ({shape}, f32[13,20]) tuple(u, e)""", ADD if "addf" in other else "", devices=2, output="")
