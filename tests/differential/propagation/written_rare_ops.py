"""Ops that the lists of written_ops do not have, and those that only take replication."""
from written_cases import ADD, X, Y, case

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
