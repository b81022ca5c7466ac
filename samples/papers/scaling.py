"""How things grow with the number of cores: GShard's Table 4 and the claims of its section 5 (tables.py scaling).

Table 4 is of single operators. Each is written here as HLO text over D cores of a TPU v3, and its growth is the exponent p of
D^p between 128 and 2048 cores: of FLOPs, of bytes sent, and of the time of what is sent, each of one core.
"""

import json
import math
import pathlib
import subprocess

CHIP = "tpu-v3"
FEW, MANY = 128, 2048
SUM = "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
ON_DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def cut(dims, over, cores):
    """Text of a parameter's or result's shape and sharding: dim `over` cut, or whole."""
    tiles = ",".join(str(cores if dim == over else 1) for dim in range(len(dims)))
    how = "{replicated}" if over is None else f"{{devices=[{tiles}]<=[{cores}]}}"
    return f"f32[{','.join(map(str, dims))}]", f"sharding={how}"


def program(cores, operands, result, operation):
    """`operands` and `result`: (dims, dim that is cut); `operation`: text with {0}, {1} for the operands."""
    lines = []
    for i, (dims, over) in enumerate(operands):
        shape, sharding = cut(dims, over, cores)
        lines.append(f"  p{i} = {shape} parameter({i}), {sharding}")
    shape, sharding = cut(*result, cores)
    return (f"HloModule operator, num_partitions={cores}\n{SUM}ENTRY e {{\n" + "\n".join(lines)
            + f"\n  zero = f32[] constant(0)\n  ROOT r = {shape} {operation}, {sharding}\n}}\n")


def dot(cores, a, b, c):
    """A dims of `a` over cut dims: ((A, B), cut), ((B, C), cut), ((A, C), cut)."""
    return program(cores, (a, b), c, f"dot(p0, p1), {ON_DOT}")


# Name, dims of O(D), the paper's orders (compute of a core, communication) and the operator over D cores.
S, N = 512, 2048  # what does not grow; tokens of a group
OPERATORS = [
    ("Add(A,A->A)", "A", 0, None,
     lambda d: program(d, (((d * S, N), 0), ((d * S, N), 0)), ((d * S, N), 0), "add(p0, p1)")),
    ("Matmul(AB,BC->AC)", "B", 0, 0, lambda d: dot(d, ((N, d * S), 1), ((d * S, N), 0), ((N, N), None))),
    ("Matmul(AB,BC->AC)", "A", 0, None, lambda d: dot(d, ((d * S, N), 0), ((N, N), None), ((d * S, N), 0))),
    ("Matmul(AB,BC->AC)", "A,B", 1, 1, lambda d: dot(d, ((d * S, d * S), 0), ((d * S, N), 0), ((d * S, N), 0))),
    ("Matmul(AB,BC->AC)", "A,C", 1, 1, lambda d: dot(d, ((d * S, N), 0), ((N, d * S), 1), ((d * S, d * S), 0))),
    ("Reduce(AB->A)", "A", 0, None,
     lambda d: program(d, (((d * S, N), 0),), ((d * S,), 0), "reduce(p0, zero), dimensions={1}, to_apply=sum")),
    ("Reduce(AB->B)", "A", 0, 0,
     lambda d: program(d, (((d * S, N * N), 0),), ((N * N,), None), "reduce(p0, zero), dimensions={0}, to_apply=sum")),
    ("Einsum(GSEC,GSM->EGCM)", "G,E", 0, 0.5,
     lambda d: program(d, (((d, N, d, 2 * N // d), 0), ((d, N, 1024), 0)), ((d, d, 2 * N // d, 1024), 1),
                       "dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, "
                       "rhs_contracting_dims={1}")),
    ("Convolution(BIXY,xyIO->BOXY)", "X", 0, 0,
     lambda d: program(d, (((8, 64, d * 32, 256), 2), ((3, 3, 64, 64), None)), ((8, 64, d * 32, 256), 2),
                       "convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_01io->bf01")),
]


def report(text):
    """gshard-cost's report of a program's text or of its path."""
    given = text if isinstance(text, pathlib.Path) else "-"
    run = subprocess.run(["gshard-cost", given, "--chip", CHIP, "--json"], check=True, capture_output=True, text=True,
                         input=None if given is text else text)
    return json.loads(run.stdout)


def sent(r):
    return sum(c["bytes_per_device"] for c in r["collectives"]), sum(c["time_s"] for c in r["collectives"])


def exponent(few, many, times):
    return math.log(many / few) / math.log(times) if few > 0 and many > 0 else None


def shown(p):
    return f"{'none':>6}" if p is None else f"{abs(p) if abs(p) < 0.005 else p:6.2f}"


def operators():
    print(f"Table 4: p of D^p from {FEW} to {MANY} cores, each of one core\n")
    print(f"{'operator':30} {'O(D)':5} {'FLOPs':>6} {'paper':>6}   {'bytes':>6} {'time':>6} {'paper':>6}  by")
    for name, dims, compute, communication, text in OPERATORS:
        few, many = report(text(FEW)), report(text(MANY))
        flops = exponent(few["flops_per_device"], many["flops_per_device"], MANY / FEW)
        bytes_, seconds = (exponent(a, b, MANY / FEW) for a, b in zip(sent(few), sent(many)))
        kinds = ", ".join(sorted({c["kind"] for c in many["collectives"]}))
        print(f"{name:30} {dims:5} {shown(flops)} {shown(compute)}   {shown(bytes_)} {shown(seconds)} "
              f"{shown(communication)}  {kinds or 'no communication'}")


def transfer(kind, cores, mib):
    """One collective over all cores; `mib` of each core."""
    rows = mib * 2**20 // 4 // 1024
    groups = f"replica_groups=[1,{cores}]<=[{cores}]"
    result = {"all-to-all": f"f32[{rows},1024] all-to-all(p), dimensions={{0}}",
              "all-reduce": f"f32[{rows},1024] all-reduce(p), to_apply=sum",
              "all-gather": f"f32[{rows * cores},1024] all-gather(p), dimensions={{0}}"}[kind]
    return (f"HloModule m, num_partitions={cores}\n{SUM}ENTRY e {{\n  p = f32[{rows},1024] parameter(0)\n  "
            f"ROOT r = {result}, {groups}, channel_id=1, use_global_device_ids=true\n}}\n".replace(
                ", use_global_device_ids=true", "" if kind == "all-to-all" else ", use_global_device_ids=true"))


def collectives():
    print("\nSection 5, collectives of 16 to 2048 cores: time of 2048 over that of 16\n")
    print(f"{'collective':12} {'a core':>7} " + " ".join(f"{f'{d} cores':>11}" for d in (16, 128, 512, 2048))
          + f" {'2048/16':>8}  paper")
    for kind, paper in (("all-to-all", "9, sqrt(D)"), ("all-reduce", "about 1"), ("all-gather", "D: 128")):
        for mib in (8, 32):
            times = {d: sent(report(transfer(kind, d, mib)))[1] for d in (16, 128, 512, 2048)}
            print(f"{kind:12} {mib:3} MiB " + " ".join(f"{t * 1e3:8.2f} ms" for t in times.values())
                  + f" {times[2048] / times[16]:8.2f}  {paper}")


def layers(rows, path_of):
    print("\nSection 5, a Transformer layer and a mixture layer, forward: share of the all-to-alls, time over that of 128\n")
    print(f"{'experts':>8} {'time':>10} {'over 128':>9} {'all-to-all':>11} {'over 128':>9} {'share':>7}")
    first = None
    for row in rows:
        r = report(path_of("layer", row))
        step, exchange = r["step_time_s"], sum(c["exposed_s"] for c in r["collectives"] if c["kind"] == "all-to-all")
        first = first or (step, exchange)
        print(f"{row['experts']:8} {step * 1e3:7.2f} ms {step / first[0]:9.2f} {exchange * 1e3:8.2f} ms "
              f"{exchange / first[1]:9.2f} {exchange / step:7.1%}")
    print(f"{'paper':>8} {'':10} {1.7:9.2f} {'':11} {3.75:9.2f}  16% at 128, 36% at 2048")


def memory(rows, path_of):
    print("\nSection 5, memory of a core: constant in experts, linear in depth (nothing computed again)\n")
    print(f"{'row':24} {'cores':>6} {'layers':>7} {'peak':>10} {'a layer more':>13}")
    before = None
    for row in rows:
        peak = report(path_of("memory", row))["memory"]["peak_bytes"] / 2**30
        more = ""
        if before and before[0]["layers"] != row["layers"]:
            more = f"{(peak - before[1]) / (row['layers'] - before[0]['layers']):9.3f} GiB"
        print(f"{row['name']:24} {row['mesh']['core']:6} {row['layers']:7} {peak:6.2f} GiB {more:>13}")
        before = (row, peak)


def main(layer_rows, memory_rows, path_of):
    operators()
    collectives()
    layers(layer_rows, path_of)
    memory(memory_rows, path_of)
