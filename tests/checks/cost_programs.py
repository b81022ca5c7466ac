"""Programs that prices are compared over: the samples over small meshes, and stacks of layers written by hand, each in a
loop over stacked weights and written out, with twice the layers and twice the batch."""
import dataclasses
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential"))
import samples  # noqa: E402

LAYERS = 8


@dataclasses.dataclass
class Program:
    name: str
    text: str
    devices: int = 1
    mesh: str = ""
    unrolled: str = ""
    deeper: str = ""
    wider: str = ""


class Emitter:
    """HLO lines of one computation; methods return names."""

    def __init__(self, prefix):
        self.prefix, self.lines, self.count = prefix, [], 0

    def add(self, shape, opcode, operands=(), attributes="", name="", root=False):
        self.count += 1
        name = name or f"{self.prefix}.{self.count}"
        text = f"  {'ROOT ' if root else ''}%{name} = {shape} {opcode}({', '.join('%' + x if not str(x).isdigit() else str(x) for x in operands)})"
        self.lines.append(text + (", " + attributes if attributes else ""))
        return name

    def constant(self, shape, value):
        self.count += 1
        name = f"{self.prefix}.{self.count}"
        self.lines.append(f"  %{name} = {shape} constant({value})")
        return name

    def filled(self, kind, dims, value):
        return self.add(f"{kind}[{dims}]", "broadcast", [self.constant(f"{kind}[]", value)], "dimensions={}")

    def text(self, head):
        return head + " {\n" + "\n".join(self.lines) + "\n}\n"


LENGTH, WIDTH, HEADS = 512, 1024, 8
SUM = "%sum {\n  %sum.a = f32[] parameter(0)\n  %sum.b = f32[] parameter(1)\n  ROOT %sum.c = f32[] add(%sum.a, %sum.b)\n}\n\n"
MAX = "%max {\n  %max.a = f32[] parameter(0)\n  %max.b = f32[] parameter(1)\n  ROOT %max.c = f32[] maximum(%max.a, %max.b)\n}\n\n"


# --- layers: (emitter, x, names of weights, batch) -> y; x and y are bf16[batch,512,1024]
def product(e, x, w, batch, inner, outer):
    return e.add(f"bf16[{batch},{LENGTH},{outer}]", "dot", [x, w], "lhs_contracting_dims={2}, rhs_contracting_dims={0}")


def dense(e, x, w, batch):
    wide = 4 * WIDTH
    hidden = product(e, x, w[0], batch, WIDTH, wide)
    active = e.add(f"bf16[{batch},{LENGTH},{wide}]", "tanh", [hidden])
    out = product(e, active, w[1], batch, wide, WIDTH)
    return e.add(f"bf16[{batch},{LENGTH},{WIDTH}]", "add", [x, out])


def norm(e, x, w, batch):
    """RMS norm in f32, then a product."""
    dims, rows = f"{batch},{LENGTH},{WIDTH}", f"{batch},{LENGTH}"
    f = e.add(f"f32[{dims}]", "convert", [x])
    square = e.add(f"f32[{dims}]", "multiply", [f, f])
    total = e.add(f"f32[{rows}]", "reduce", [square, e.constant("f32[]", 0)], "dimensions={2}, to_apply=%sum")
    scale = e.add(f"f32[{rows}]", "rsqrt", [e.add(f"f32[{rows}]", "add", [total, e.filled("f32", rows, "0.001")])])
    spread = e.add(f"f32[{dims}]", "broadcast", [scale], "dimensions={0,1}")
    normal = e.add(f"bf16[{dims}]", "convert", [e.add(f"f32[{dims}]", "multiply", [f, spread])])
    return e.add(f"bf16[{dims}]", "add", [x, product(e, normal, w[0], batch, WIDTH, WIDTH)])


def attention(e, x, w, batch):
    size = WIDTH // HEADS
    heads, scores, rows = f"{batch},{LENGTH},{HEADS},{size}", f"{batch},{HEADS},{LENGTH},{LENGTH}", f"{batch},{HEADS},{LENGTH}"
    q, k, v = (e.add(f"bf16[{heads}]", "reshape", [product(e, x, w[i], batch, WIDTH, WIDTH)]) for i in range(3))
    raw = e.add(f"f32[{scores}]", "dot", [q, k],
                "lhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_batch_dims={0,2}, rhs_contracting_dims={3}")
    row, column = (e.add(f"s32[{LENGTH},{LENGTH}]", "iota", [], f"iota_dimension={i}") for i in (0, 1))
    below = e.add(f"pred[{LENGTH},{LENGTH}]", "compare", [row, column], "direction=GE")
    mask = e.add(f"pred[{scores}]", "broadcast", [below], "dimensions={2,3}")
    masked = e.add(f"f32[{scores}]", "select", [mask, raw, e.filled("f32", scores, "-1e9")])
    largest = e.add(f"f32[{rows}]", "reduce", [masked, e.constant("f32[]", "-inf")], "dimensions={3}, to_apply=%max")
    low = e.add(f"f32[{scores}]", "subtract", [masked, e.add(f"f32[{scores}]", "broadcast", [largest], "dimensions={0,1,2}")])
    power = e.add(f"f32[{scores}]", "exponential", [low])
    total = e.add(f"f32[{rows}]", "reduce", [power, e.constant("f32[]", 0)], "dimensions={3}, to_apply=%sum")
    share = e.add(f"f32[{scores}]", "divide", [power, e.add(f"f32[{scores}]", "broadcast", [total], "dimensions={0,1,2}")])
    weights = e.add(f"bf16[{scores}]", "convert", [share])
    mixed = e.add(f"bf16[{batch},{HEADS},{LENGTH},{size}]", "dot", [weights, v],
                  "lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,2}, rhs_contracting_dims={1}")
    turned = e.add(f"bf16[{heads}]", "transpose", [mixed], "dimensions={0,2,1,3}")
    flat = e.add(f"bf16[{batch},{LENGTH},{WIDTH}]", "reshape", [turned])
    return e.add(f"bf16[{batch},{LENGTH},{WIDTH}]", "add", [x, product(e, flat, w[3], batch, WIDTH, WIDTH)])


def softmax(e, x, w, batch):
    dims, rows = f"{batch},{LENGTH},{WIDTH}", f"{batch},{LENGTH}"
    y = e.add(f"f32[{dims}]", "convert", [product(e, x, w[0], batch, WIDTH, WIDTH)])
    largest = e.add(f"f32[{rows}]", "reduce", [y, e.constant("f32[]", "-inf")], "dimensions={2}, to_apply=%max")
    power = e.add(f"f32[{dims}]", "exponential", [e.add(f"f32[{dims}]", "subtract", [y, e.add(f"f32[{dims}]", "broadcast", [largest], "dimensions={0,1}")])])
    total = e.add(f"f32[{rows}]", "reduce", [power, e.constant("f32[]", 0)], "dimensions={2}, to_apply=%sum")
    share = e.add(f"f32[{dims}]", "divide", [power, e.add(f"f32[{dims}]", "broadcast", [total], "dimensions={0,1}")])
    return e.add(f"bf16[{dims}]", "convert", [share])


def gated(e, x, w, batch):
    """A product gated by another, whose result both read."""
    dims = f"{batch},{LENGTH},{WIDTH}"
    gate = e.add(f"bf16[{dims}]", "logistic", [product(e, x, w[0], batch, WIDTH, WIDTH)])
    value = product(e, x, w[1], batch, WIDTH, WIDTH)
    return e.add(f"bf16[{dims}]", "multiply", [gate, value])


def recurrent(e, x, w, batch):
    """A cumulative sum along the sequence, by a window."""
    dims = f"{batch},{LENGTH},{WIDTH}"
    y = e.add(f"f32[{dims}]", "convert", [product(e, x, w[0], batch, WIDTH, WIDTH)])
    total = e.add(f"f32[{dims}]", "reduce-window", [y, e.constant("f32[]", 0)],
                  f"window={{size=1x{LENGTH}x1 pad=0_0x{LENGTH - 1}_0x0_0}}, to_apply=%sum")
    return e.add(f"bf16[{dims}]", "convert", [e.add(f"f32[{dims}]", "tanh", [total])])


def picture(e, x, w, batch):
    """A 3x3 convolution of the same values as a picture of 32 x 16 with 1,024 features."""
    image = e.add(f"bf16[{batch},32,16,{WIDTH}]", "reshape", [x])
    y = e.add(f"bf16[{batch},32,16,{WIDTH}]", "convolution", [image, w[0]],
              "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f")
    zero = e.filled("bf16", f"{batch},32,16,{WIDTH}", 0)
    return e.add(f"bf16[{batch},{LENGTH},{WIDTH}]", "reshape", [e.add(f"bf16[{batch},32,16,{WIDTH}]", "maximum", [y, zero])])


# Layers whose last value only products read. Others end in what a compiler takes into the next layer's kernel where the
# layers are written out (a norm, a softmax), which it cannot across a loop's border.
COMPARED_UNROLLED = ("dense", "attention", "gated", "picture")

KINDS = {
    "dense": (dense, [f"{WIDTH},{4 * WIDTH}", f"{4 * WIDTH},{WIDTH}"]),
    "norm": (norm, [f"{WIDTH},{WIDTH}"]),
    "attention": (attention, [f"{WIDTH},{WIDTH}"] * 4),
    "softmax": (softmax, [f"{WIDTH},{WIDTH}"]),
    "gated": (gated, [f"{WIDTH},{WIDTH}"] * 2),
    "recurrent": (recurrent, [f"{WIDTH},{WIDTH}"]),
    "picture": (picture, [f"3,3,{WIDTH},{WIDTH}"]),
}


def slice_of_stack(e, stack, dims, layers, index=None, counter=None):
    rank = dims.count(",") + 1
    if counter is None:
        bounds = ", ".join([f"[{index}:{index + 1}]"] + [f"[0:{d}]" for d in dims.split(",")])
        row = e.add(f"bf16[1,{dims}]", "slice", [stack], f"slice={{{bounds}}}")
    else:
        zero = e.constant("s32[]", 0)
        row = e.add(f"bf16[1,{dims}]", "dynamic-slice", [stack, counter] + [zero] * rank, f"dynamic_slice_sizes={{1,{dims}}}")
    return e.add(f"bf16[{dims}]", "reshape", [row])


def stack_of_layers(kind, scanned, layers=LAYERS, batch=4):
    layer, weights = KINDS[kind]
    x_shape = f"bf16[{batch},{LENGTH},{WIDTH}]"
    stacks = [f"bf16[{layers},{dims}]" for dims in weights]
    main = Emitter("main")
    x = main.add(x_shape, "parameter", [0], name="x")
    names = [main.add(shape, "parameter", [i + 1], name=f"w{i}") for i, shape in enumerate(stacks)]
    called = SUM + MAX
    if scanned:
        state = f"({', '.join(['s32[]', x_shape, *stacks])})"
        body = Emitter("body")
        arg = body.add(state, "parameter", [0])
        counter = body.add("s32[]", "get-tuple-element", [arg], "index=0")
        value = body.add(x_shape, "get-tuple-element", [arg], "index=1")
        held = [body.add(shape, "get-tuple-element", [arg], f"index={i + 2}") for i, shape in enumerate(stacks)]
        rows = [slice_of_stack(body, held[i], dims, layers, counter=counter) for i, dims in enumerate(weights)]
        out = layer(body, value, rows, batch)
        following = body.add("s32[]", "add", [counter, body.constant("s32[]", 1)])
        body.add(state, "tuple", [following, out, *held], root=True)
        condition = Emitter("condition")
        arg = condition.add(state, "parameter", [0])
        counter = condition.add("s32[]", "get-tuple-element", [arg], "index=0")
        condition.add("pred[]", "compare", [counter, condition.constant("s32[]", layers)], "direction=LT", root=True)
        called += body.text("%body") + "\n" + condition.text("%condition") + "\n"
        start = main.add(state, "tuple", [main.constant("s32[]", 0), x, *names])
        done = main.add(state, "while", [start], "condition=%condition, body=%body")
        main.add(x_shape, "get-tuple-element", [done], "index=1", root=True)
    else:
        for index in range(layers):
            rows = [slice_of_stack(main, names[i], dims, layers, index=index) for i, dims in enumerate(weights)]
            x = layer(main, x, rows, batch)
        main.lines[-1] = main.lines[-1].replace("  %", "  ROOT %", 1)
    return f"HloModule {kind}\n\n" + called + main.text("ENTRY %main")


def loss_of(text, batch=4):
    """The sum of what the program returns, for `gshard-opt grad`."""
    shape = f"[{batch},{LENGTH},{WIDTH}]"
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("ENTRY"))
    for i in range(at, len(lines)):
        if lines[i].startswith("  ROOT "):
            name = lines[i].split()[1]
            lines[i] = lines[i].replace("ROOT ", "", 1)
            lines[i + 1:i + 1] = [f"  %loss.f = f32{shape} convert({name})", "  %loss.zero = f32[] constant(0)",
                                  "  ROOT %loss = f32[] reduce(%loss.f, %loss.zero), dimensions={0,1,2}, to_apply=%sum"]
            break
    return "\n".join(lines) + "\n"


def gradients(opt, text):
    """Of the loss of `text`, without the marks of whose derivative a value is, which keep values from being simplified."""
    return re.sub(r', frontend_attributes=\{gshard\.adjoint_of="[^"]*"\}', "", opt("grad", "-", text=loss_of(text)))


def all_programs(opt):
    """`opt(*words, text=)` runs gshard-opt."""
    programs = []
    for kind in KINDS:
        unrolled = opt("print", "-", text=stack_of_layers(kind, False)) if kind in COMPARED_UNROLLED else ""
        programs.append(Program(kind, opt("print", "-", text=stack_of_layers(kind, True)), unrolled=unrolled,
                                deeper=opt("print", "-", text=stack_of_layers(kind, True, 2 * LAYERS)),
                                wider=opt("print", "-", text=stack_of_layers(kind, True, batch=8))))
    # Steps in a loop stack what they save and cut rows of it again, as XLA's text for TPUs does, too: no unrolled ones.
    for kind in ("dense", "norm", "gated"):
        step = [gradients(opt, stack_of_layers(kind, True, layers)) for layers in (LAYERS, 2 * LAYERS)]
        programs.append(Program(kind + "_gradients", step[0], deeper=step[1]))
    for kind in ("dense", "attention"):
        over = ["--mesh", "data=4,model=2", "--shard", "^x$=data,_,_", "--shard", "^w0$=_,_,model"]
        texts = [opt("annotate", "-", *over, text=stack_of_layers(kind, scanned)) for scanned in (True, False)]
        programs.append(Program(kind + "_on_8", texts[0], 8, "data=4,model=2", unrolled=texts[1]))
    for name, rules, meshes in samples.GENERATED:
        if name == "moe_2048":
            continue
        text = opt("annotate", samples.path(name), "--mesh", meshes[0], "--rules",
                   os.path.join(samples.SAMPLES, rules + ".rules"))
        programs.append(Program(rules, text, samples.devices(meshes[0]), meshes[0]))
    for name in ("moe_layer", "spatial_conv", "pipeline"):
        programs.append(Program(name, opt("print", samples.path(name)), 8 if name != "spatial_conv" else 4))
    return programs
