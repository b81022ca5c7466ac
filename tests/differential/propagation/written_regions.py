"""Control flow, partial annotations, shard groups, barriers and manual regions."""
from written_cases import ADD, X, Y, case

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
