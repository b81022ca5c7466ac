"""Traces as their readers take them: Perfetto's of the predicted step and of a run, Chakra's of each device.

usage: traces.py BIN_DIR, from the top of the checkout. Files are decoded here, field by field. Where the packages `protobuf` and
`perfetto` are, the protobuf library decodes them too, by Perfetto's own schema and by Chakra's as it is written down below.
Perfetto's trace processor queries what it has loaded, if it can be had (trace_processor.py).
"""
import collections
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import trace_processor

BIN = os.path.abspath(sys.argv[1])
COST, OPT, RUN = (os.path.join(BIN, name) for name in ("gshard-cost", "gshard-opt", "gshard-run"))
CORPUS = pathlib.Path(os.environ.get("GSHARD_CORPUS", "../shared/corpus"))
passed = failed = 0


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


# The wire format: https://protobuf.dev/programming-guides/encoding.
def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """number -> its values in order: integers of varints, floats of 64 bits, bytes."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "cut short"
        found[key >> 3].append(value)
    return found


def packed(values):
    numbers = []
    for data in values:
        at = 0
        while at < len(data):
            value, at = varint(data, at)
            numbers.append(value)
    return numbers


class Trace:
    """tracks: uuid -> (name, parent); slices: (track, begin, end, name, flows); counters: track -> [(time, value)]."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        self.tracks, self.slices, self.counters = {}, [], collections.defaultdict(list)
        open_slices, last = collections.defaultdict(list), {}
        top = fields(data)
        check(set(top) == {1}, f"{path}: a list of packets")
        sequences = set()
        for packet in map(fields, top[1]):
            sequence = packet[10][0]
            check(sequence in sequences or packet[13] == [1], "a sequence begins by saying so")
            sequences.add(sequence)
            if 60 in packet:
                track = fields(packet[60][0])
                name = track[2][0] if 2 in track else fields(track[3][0])[6][0]
                check(track[1][0] not in self.tracks, "tracks have numbers of their own")
                self.tracks[track[1][0]] = (name.decode(), track[5][0] if 5 in track else None)
                continue
            event, at = fields(packet[11][0]), packet[8][0]
            track = event[11][0]
            check(track in self.tracks, "a track is described before its events")
            check(last.get(track, 0) <= at, f"the events of {self.tracks[track]} are in order")
            last[track] = at
            if event[9] == [4]:
                self.counters[track].append((at, struct.unpack("<d", event[44][0])[0]))
            elif event[9] == [1]:
                flows = [struct.unpack("<Q", flow)[0] for flow in event[47]]
                open_slices[track].append((at, event[23][0].decode(), flows))
            else:
                begin, name, flows = open_slices[track].pop()
                self.slices.append((track, begin, at, name, flows))
        check(not any(open_slices.values()), "all slices end")

    def named(self, name):
        return [track for track, (own, _) in self.tracks.items() if own.startswith(name)]


def perfetto_of_steps(folder):
    path = f"{folder}/step.pftrace"
    code, out, err = run(COST, "samples/mlp.hlo", "--trace", path, "--json")
    report = json.loads(out)
    trace = Trace(path)
    check(code == 0 and len(trace.named("devices 0..7: mlp on tpu-v3")) == 1, f"one process of all devices: {trace.tracks}")
    lanes = {trace.tracks[s[0]][0] for s in trace.slices}
    check("compute" in lanes and len(lanes) == 2, f"compute, and the links that the all-reduce uses: {lanes}")
    check(abs(max(s[2] for s in trace.slices) - report["step_time_s"] * 1e9) <= 1, "the last slice ends with the step")
    memory = trace.counters[trace.named("memory")[0]]
    check(max(value for _, value in memory) == report["memory"]["peak_bytes"], f"the counter reaches the peak: {memory}")
    links = [track for track, (name, _) in trace.tracks.items() if name.endswith("links: sent")]
    sent = sum(value * (trace.counters[links[0]][i + 1][0] - at) * 1e-9
               for i, (at, value) in enumerate(trace.counters[links[0]][:-1]))
    expected = sum(row["bytes_per_device"] for row in report["collectives"])
    check(abs(sent - expected) < 1e-3 * expected, f"what the links' counter adds up to: {sent}, {expected}")
    # Members of a group share a number, others do not: model has devices 0..3 and 4..7.
    run(COST, "samples/mlp.hlo", "--trace", path, "--devices", "0,1,4")
    trace = Trace(path)
    flows = collections.defaultdict(set)
    for track, _, _, name, numbers in trace.slices:
        if "all-reduce" in name:
            flows[trace.tracks[trace.tracks[track][1]][0].split(":")[0]].update(numbers)
    check(flows["device 0"] == flows["device 1"] != set() and not flows["device 0"] & flows["device 4"], f"flows: {dict(flows)}")
    # Of a pipeline each micro-batch has its arrows, and a stage its lane.
    pipelined = f"{folder}/pipelined.hlo"
    code, out, err = run(OPT, "annotate", "samples/gpipe/step.hlo", "--mesh", "data=2,model=2", "--rules", "samples/gpipe/step.rules",
                         "-o", f"{folder}/annotated.hlo")
    code, out, err = run(OPT, "pipeline", f"{folder}/annotated.hlo", "--stages", 4, "--microbatches", 8, "-o", pipelined)
    check(code == 0, f"a pipeline is made: {err}")
    code, out, err = run(COST, pipelined, "--trace", path)
    trace = Trace(path)
    stages = trace.named("stage ")
    check(code == 0 and len(stages) == 4, f"a lane a stage: {trace.tracks}")
    passed_by = collections.defaultdict(set)
    for track, _, _, _, numbers in trace.slices:
        if track in stages and numbers:
            passed_by[numbers[0]].add(track)
    check(len(passed_by) == 8 and all(len(tracks) == 4 for tracks in passed_by.values()), f"8 micro-batches pass 4 stages: {passed_by}")


def perfetto_of_runs(folder):
    path = f"{folder}/run.pftrace"
    code, out, err = run(RUN, "samples/mlp.hlo", "--trace", path, "--threads", 2, "--json")
    check(code == 0, f"a traced run: {err}")
    trace = Trace(path)
    check(len(trace.named("gshard-run")) == 1 and len(trace.named("steps")) == 1 and len(trace.named("worker ")) == 2,
          f"rows of a run: {trace.tracks}")
    check(any(name == "all-reduce" for _, _, _, name, _ in trace.slices), "the run's collective is there")


# Chakra: et_def.proto.
COMP, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
KINDS = {0: "all-reduce", 2: "all-gather", 5: "collective-broadcast", 6: "all-to-all", 7: "reduce-scatter"}
VALUES = {7: "int32_val", 9: "int64_val", 13: "uint64_val", 27: "bool_val", 29: "string_val"}
TYPES = {"is_cpu_op": 27, "num_ops": 9, "tensor_size": 13, "comm_type": 9, "comm_size": 9, "pg_name": 29, "comm_src": 7,
         "comm_dst": 7, "comm_tag": 7}


def read_nodes(path):
    """[(id, name, type, what it waits for, attributes)] of a file of messages with their lengths."""
    data, at, messages = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        size, at = varint(data, at)
        messages.append(data[at:at + size])
        at += size
    check(fields(messages[0])[1] == [b"0.0.4"], "metadata comes first")
    nodes = []
    for node in map(fields, messages[1:]):
        attributes = {}
        for attribute in map(fields, node[10]):
            name = attribute[1][0].decode()
            check(set(attribute) == {1, TYPES[name]}, f"{name} has the type that simulators read")
            attributes[name] = attribute[TYPES[name]][0]
        nodes.append((node[1][0] if node[1] else 0, node[2][0].decode(), node[3][0], packed(node[4] + node[5]), attributes))
    return nodes


def sent_bytes(nodes, groups):
    """kind -> bytes that the device sends, by ring formulas."""
    sent = collections.Counter()
    for _, _, kind, _, attributes in nodes:
        size = attributes.get("comm_size", 0)
        if kind == SEND:
            sent["collective-permute"] += size
        elif kind == COLLECTIVE:
            g = len(groups[attributes["pg_name"].decode()])
            kind = KINDS[attributes["comm_type"]]
            sent[kind] += size if kind == "collective-broadcast" else size * (g - 1) / g * (2 if kind == "all-reduce" else 1)
    return sent


def chakra(folder, program, *flags, one_by_one=True):
    """FLOPs, bytes of memory and bytes sent are the report's, on each device or, with stages, on their mean."""
    out = f"{folder}/chakra-{pathlib.Path(program).stem}"
    code, text, err = run(COST, program, *flags, "--chakra", out, "--json")
    check(code == 0, f"{program}: {err}")
    report = json.loads(text)
    groups = json.loads(pathlib.Path(out, "comm_group.json").read_text()) if report["collectives"] else {}
    sums, sends, receives = collections.Counter(), collections.Counter(), collections.Counter()
    traffic = collections.Counter()
    for device in range(report["devices"]):
        nodes = read_nodes(f"{out}/step.{device}.et")
        seen = {node[0] for node in nodes}
        check(len(seen) == len(nodes), "nodes have numbers of their own")
        late = [node[:4] for node in nodes if any(before not in seen or before >= node[0] for before in node[3])]
        check(not late, f"{program}, {device}: nodes wait for earlier ones: {late[:3]}")
        flops = sum(node[4]["num_ops"] for node in nodes)
        moved = sum(node[4]["tensor_size"] for node in nodes)
        sent = sent_bytes(nodes, groups)
        if one_by_one:
            check(flops == report["flops_per_device"], f"{program}, {device}: {flops} FLOPs, {report['flops_per_device']}")
            # Parts of bytes occur: values of one bit.
            check(abs(moved - report["hbm_bytes_per_device"]) <= 0.5, f"{program}, {device}: {moved} B, {report['hbm_bytes_per_device']}")
        sums.update({"flops": flops, "bytes": moved})
        traffic.update(sent)
        for _, name, kind, _, attributes in nodes:
            if kind == COLLECTIVE:
                check(device in groups[attributes["pg_name"].decode()], f"{device} is in the group of {name}")
            elif kind in (SEND, RECEIVE):
                check(attributes["comm_src" if kind == SEND else "comm_dst"] == device, "a send is its sender's")
                key = tuple(attributes[k] for k in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
                (sends if kind == SEND else receives)[key] += 1
    check(sends == receives, f"{program}: each send has its receive")
    check(all(count == 1 for count in sends.values()), f"{program}: tags tell messages apart")
    for key, figure in (("flops", "flops_per_device"), ("bytes", "hbm_bytes_per_device")):
        mean = sums[key] / report["devices"]
        check(abs(mean - report[figure]) <= 0.5 + 1e-12 * report[figure], f"{program}: mean {key} {mean}, {report[figure]}")
    expected = collections.Counter()
    for row in report["collectives"]:
        expected[row["kind"]] += row["bytes_per_device"]
    for kind, value in expected.items():
        mean = traffic[kind] / report["devices"]
        exact = abs(mean - value) <= 1e-9 * value
        # gshard-cost counts a permute for every device, a trace only where something is sent.
        check(exact or (kind == "collective-permute" and mean <= value), f"{program}: {kind} {mean} B, {value}")
    for name in ("network.yml", "system.json", "memory.json"):
        check(pathlib.Path(out, name).stat().st_size > 0, f"{name} is there")
    return out, report


def chakra_of_programs(folder):
    out, report = chakra(folder, "samples/mlp.hlo")
    network = pathlib.Path(out, "network.yml").read_text()
    check("npus_count: [ 2, 2, 2 ]" in network and "FullyConnected, Ring, Ring" in network, network)
    check(json.loads(pathlib.Path(out, "system.json").read_text())["all-reduce-implementation"] == ["direct", "ring", "ring"],
          "an algorithm a dim")
    chakra(folder, "samples/moe_layer.hlo")
    for sample, mesh in (("transformer_train", "data=2,model=4"), ("moe_train", "data=4,model=4")):
        sharded = f"{folder}/{sample}.hlo"
        code, _, err = run(OPT, "annotate", f"samples/{sample}.hlo", "--mesh", mesh, "--rules", f"samples/{sample}.rules", "-o", sharded)
        check(code == 0, f"{sample}: {err}")
        chakra(folder, sharded)
    chakra(folder, "samples/spatial_conv.hlo")  # halos: the ends of the line send to one side only
    # Stages run different passes.
    chakra(folder, f"{folder}/pipelined.hlo", one_by_one=False)
    # Of some devices, and what is refused.
    some = f"{folder}/some"
    code, _, err = run(COST, "samples/mlp.hlo", "--chakra", some, "--devices", "1,5..6")
    check(code == 0 and "3 traces" in err, f"three traces: {err}")
    check(sorted(p.name for p in pathlib.Path(some).glob("*.et")) == ["step.1.et", "step.5.et", "step.6.et"], "of these devices")
    for text in ("8", "0,", "x", "3..", "0 1", "-1"):
        code, _, err = run(COST, "samples/mlp.hlo", "--chakra", some, "--devices", text)
        check(code == 2 and "--devices" in err, f"--devices {text!r} is refused: {code} {err}")
    blocked = f"{folder}/file"
    pathlib.Path(blocked).write_text("")
    code, _, err = run(COST, "samples/mlp.hlo", "--chakra", blocked)
    check(code == 1, f"a file in the place of the folder: {code} {err}")
    endless = f"{folder}/long.hlo"
    pathlib.Path(endless).write_text("""HloModule long
body { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[8] get-tuple-element(p), index=1
  one = s32[] constant(1) j = s32[] add(i, one) y = f32[8] exponential(x) ROOT t = (s32[], f32[8]) tuple(j, y) }
cond { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(2000000000)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY main { x = f32[8] parameter(0) zero = s32[] constant(0) t = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(t), condition=cond, body=body ROOT y = f32[8] get-tuple-element(w), index=1 }
""")
    code, _, err = run(COST, endless, "--chakra", some)
    check(code == 1 and "E-TRACE-001" in err, f"two billion trips: {code} {err}")


def chakra_of_many(folder):
    llama = CORPUS / "rocm_llama3_8b_train.fsdp64_tensor32.hlo"
    if not llama.exists():
        print("SKIPPED: 2048 devices of a Llama step (no corpus)")
        return
    out = f"{folder}/llama"
    begin = time.monotonic()
    code, _, err = run(COST, llama, "--chip", "tpu-v5p", "--chakra", out)
    seconds = time.monotonic() - begin
    check(code == 0 and "2048 traces" in err, f"Llama on 2048 devices: {err}")
    print(f"note: {err.strip().splitlines()[-1]} in {seconds:.1f} s")


def by_protobuf(folder):
    """What the protobuf library says of the files."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    except ImportError:
        print("SKIPPED: the protobuf library's reading (packages protobuf, perfetto)")
        return
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(pathlib.Path(f"{folder}/step.pftrace").read_bytes())
    check(len(trace.packet) > 100 and trace.packet[0].track_descriptor.process.process_name.startswith("devices 0..15"),
          f"Perfetto's schema: {trace.packet[0]}")
    kinds = {"string": 9, "uint64": 4, "int32": 5, "int64": 3, "bool": 8, "enum": 13}
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="ChakraProtoMsg", syntax="proto3")
    attribute = file.message_type.add(name="AttributeProto")
    for name, number, kind in (("name", 1, "string"), ("int32_val", 7, "int32"), ("int64_val", 9, "int64"), ("uint64_val", 13, "uint64"),
                               ("bool_val", 27, "bool"), ("string_val", 29, "string")):
        attribute.field.add(name=name, number=number, type=kinds[kind], label=1)
    node = file.message_type.add(name="Node")
    for name, number, kind, label in (("id", 1, "uint64", 1), ("name", 2, "string", 1), ("type", 3, "enum", 1), ("ctrl_deps", 4, "uint64", 3),
                                      ("data_deps", 5, "uint64", 3), ("duration_micros", 7, "uint64", 1)):
        node.field.add(name=name, number=number, type=kinds[kind], label=label)
    node.field.add(name="attr", number=10, type=11, label=3, type_name=".ChakraProtoMsg.AttributeProto")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName("ChakraProtoMsg.Node"))
    path = f"{folder}/chakra-mlp/step.5.et"
    data, at, read = pathlib.Path(path).read_bytes(), 0, []
    while at < len(data):
        size, at = varint(data, at)
        if at > 3:
            read.append(make.FromString(data[at:at + size]))
        at += size
    own = read_nodes(path)
    check([(n.id, n.name, n.type) for n in read[-len(own):]] == [n[:3] for n in own], "protobuf reads the same nodes")
    check([list(n.ctrl_deps) + list(n.data_deps) for n in read[-len(own):]] == [n[3] for n in own], "..and what they wait for")


def by_trace_processor(folder):
    """Perfetto's trace processor finds in the traces what was read of them here, and no errors."""
    for name in ("step", "run"):
        path = f"{folder}/{name}.pftrace"
        try:
            processor = trace_processor.load(path)
        except (OSError, subprocess.CalledProcessError) as error:
            print("SKIPPED: Perfetto's trace processor:", str(error)[:80])
            return
        own = Trace(path)
        slices = processor.query("select s.name, ts, dur, t.name from slice s join track t on s.track_id = t.id")
        expected = [[text, str(begin), str(end - begin), own.tracks[track][0]] for track, begin, end, text, _ in own.slices]
        check(sorted(slices) == sorted(expected), f"{name}: slices of the trace processor: {slices[:3]}, {expected[:3]}")
        counters = processor.query("select t.name, count(*), printf('%.12g', max(value)) "
                                   "from counter c join track t on c.track_id = t.id group by t.name")
        expected = {own.tracks[track][0]: values for track, values in own.counters.items()}
        check({row[0]: (int(row[1]), row[2]) for row in counters} ==
              {text: (len(values), f"{max(value for _, value in values):.12g}") for text, values in expected.items()},
              f"{name}: counters of the trace processor: {counters}")
        flows = int(processor.query("select count(*) from flow")[0][0])
        members = collections.Counter(number for *_, numbers in own.slices for number in numbers)
        check(flows == sum(count - 1 for count in members.values()), f"{name}: {flows} arrows, {members}")
        errors = processor.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        check(not errors, f"{name}: the trace processor found {errors}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        perfetto_of_steps(folder)
        perfetto_of_runs(folder)
        chakra_of_programs(folder)
        by_protobuf(folder)
        by_trace_processor(folder)
        chakra_of_many(folder)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
