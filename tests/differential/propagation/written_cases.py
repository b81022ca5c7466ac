"""What the hand-written programs are made with: one point of docs/propagation.md each.

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
