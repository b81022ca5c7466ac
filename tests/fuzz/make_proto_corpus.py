"""Writes tests/fuzz/proto_corpus: protos of small programs, as XLA serialises them (needs jaxlib).

  python tests/fuzz/make_proto_corpus.py

The programs are the parts of tests/golden/parse/*.hlo and those below; file names say which.
"""
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "differential"))
import xla  # noqa: E402

MOST_BYTES = 6000
SHARDINGS = [
    "{devices=[2,1,2]0,1,2,3 last_tile_dims={unreduced} metadata={op_name=\"a\" source_line=3}}",
    "{devices=[2,2]<=[2,2]T(1,0) shard_as 3}",
    "{mesh['x'=2,'y'=4], [{'x', ?}, {'y':(1)2}], replicated={'y':(2)2}}",
    "{mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)), [{?}, {}], unreduced={'x'}}",
    "{maximal device=1}", "{manual}", "{unreduced}", "{unknown}",
]
PROGRAMS = {f"sharding_{i}": f"""HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}
ENTRY e {{
  p = f32[8,16]{{1,0:T(8,128)E(32)S(1)}} parameter(0), sharding={text}
  ROOT r = f32[8,16]{{1,0}} negate(p), metadata={{op_name="a/b" source_file="f.py" source_line=3}},
    frontend_attributes={{b="1",a={{"x":1}}}}, origin={{{{"a" {{1}}}}}}
}}""" for i, text in enumerate(SHARDINGS)}


def parts():
    for path in sorted(glob.glob(os.path.join(HERE, "..", "golden", "parse", "*.hlo"))):
        stem = os.path.splitext(os.path.basename(path))[0]
        with open(path) as file:
            for i, part in enumerate(file.read().split("// -----")):
                yield f"{stem}_{i}", "\n".join(l for l in part.splitlines() if not l.startswith("//"))
    yield from PROGRAMS.items()


def main():
    folder = os.path.join(HERE, "proto_corpus")
    os.makedirs(folder, exist_ok=True)
    for name, text in parts():
        if xla.parse_error(text):
            continue
        proto = xla.module_of(text).as_serialized_hlo_module_proto()
        if len(proto) <= MOST_BYTES:
            with open(os.path.join(folder, name + ".hlo.pb"), "wb") as file:
                file.write(proto)


if __name__ == "__main__":
    main()
