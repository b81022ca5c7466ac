// See random_step.h.

#include "tests/autoshard/random_step.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>
#include <vector>

namespace gshard::autoshard {
namespace {

struct Value {
  std::string name;
  std::vector<int64_t> dims;
};

// Writes the instructions of one computation after another.
class StepMaker {
 public:
  explicit StepMaker(Random& random) : random_(random) {}

  bool Toss() { return random_.Below(2) == 0; }

  int64_t Size() {
    constexpr int64_t kSizes[] = {256, 512, 1024, 1536, 4096, 8192};
    return kSizes[random_.Below(std::size(kSizes))];
  }

  Value Parameter(std::vector<int64_t> dims, const std::string& type = "f32") {
    const std::string name = fmt::format("p{}", parameters_);
    body_ += fmt::format("  {} = {} parameter({})\n", name, Typed(type, dims), parameters_);
    ++parameters_;
    return {name, std::move(dims)};
  }

  Value Op(std::vector<int64_t> dims, const std::string& expression) {
    const std::string name = fmt::format("v{}", values_++);
    body_ += fmt::format("  {} = {} {}\n", name, Typed("f32", dims), expression);
    return {name, std::move(dims)};
  }

  template <typename... Args>
  void Line(fmt::format_string<Args...> text, Args&&... args) {
    body_ += "  " + fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  // x[.., k] or x^T, times w[k, n] or w^T.
  Value Dot(const Value& x, const Value& w, int64_t x_dim, int64_t w_dim) {
    return Op({x.dims[1 - static_cast<size_t>(x_dim)], w.dims[1 - static_cast<size_t>(w_dim)]},
              fmt::format("dot({}, {}), lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}",
                          x.name, w.name, x_dim, w_dim));
  }

  // What stands between products: an activation, a transpose that comes back, a norm of the rows.
  Value Between(const Value& x) {
    switch (random_.Below(4)) {
      case 0:
        return Op(x.dims, fmt::format("tanh({})", x.name));
      case 1: {
        const Value negated = Op(x.dims, fmt::format("negate({})", x.name));
        return Op(x.dims, fmt::format("add({}, {})", negated.name, x.name));
      }
      case 2: {
        needs_sum_ = true;
        const Value zero = Op({}, "constant(0)");
        const auto dim = static_cast<int64_t>(random_.Below(2));
        const Value sum = Op(
            {x.dims[1 - static_cast<size_t>(dim)]},
            fmt::format("reduce({}, {}), dimensions={{{}}}, to_apply=sum", x.name, zero.name, dim));
        const Value wide =
            Op(x.dims, fmt::format("broadcast({}), dimensions={{{}}}", sum.name, 1 - dim));
        return Op(x.dims, fmt::format("divide({}, {})", x.name, wide.name));
      }
      default:
        return x;
    }
  }

  // The computation so far ends in `root` and is called `name`.
  void End(const std::string& name, const std::string& root, bool entry = false) {
    done_ += fmt::format("{}{} {{\n{}  ROOT {}\n}}\n\n", entry ? "ENTRY " : "", name, body_, root);
    body_.clear();
    parameters_ = 0;
  }

  std::string Text(const std::string& header) const {
    const std::string sum =
        "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, "
        "b)\n}\n\n";
    return fmt::format("HloModule step{}\n\n{}{}", header, needs_sum_ ? sum : "", done_);
  }

  static std::string Typed(const std::string& type, const std::vector<int64_t>& dims) {
    std::string text = type + "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(dims[i]);
    return text + "]";
  }
  static std::string TypeOf(const Value& x) { return Typed("f32", x.dims); }

 private:
  Random& random_;
  std::string done_, body_;
  int parameters_ = 0, values_ = 0;
  bool needs_sum_ = false;
};

// One or two products, or three of which two have one weight.
RandomStep Chain(Random& random) {
  StepMaker make(random);
  const int dots = 1 + static_cast<int>(random.Below(3));
  const int64_t width = make.Size();
  Value x = make.Parameter({make.Size(), width});
  const Value first = x;
  const Value shared = make.Parameter({width, dots == 3 ? width : make.Size()});
  for (int i = 0; i < dots; ++i) {
    const bool is_shared = i == 0 || (dots == 3 && i == 1);
    const Value w = is_shared ? shared : make.Parameter({x.dims[1], make.Size()});
    x = make.Between(make.Dot(x, w, 1, 0));
  }
  if (x.dims == first.dims && make.Toss()) {
    x = make.Op(x.dims, fmt::format("add({}, {})", x.name, first.name));
  }
  make.End("main", fmt::format("r = {} copy({})", StepMaker::TypeOf(x), x.name), true);
  return {"chain", make.Text(""), false};
}

// A layer, its loss's derivative, and its weight and perhaps a momentum updated.
RandomStep Training(Random& random) {
  StepMaker make(random);
  const Value w = make.Parameter({make.Size(), make.Size()});
  const bool has_momentum = make.Toss();
  Value momentum;
  if (has_momentum) momentum = make.Parameter(w.dims);
  const Value x = make.Parameter({make.Size(), w.dims[0]});
  Value y = make.Between(make.Dot(x, w, 1, 0));
  Value error = y;
  if (make.Toss()) {
    const Value target = make.Parameter(y.dims);
    error = make.Op(y.dims, fmt::format("subtract({}, {})", y.name, target.name));
  }
  Value gradient = make.Dot(x, error, 0, 0);  // [k, n]
  std::string results = "", types = "";
  if (has_momentum) {
    const Value sum = make.Op(w.dims, fmt::format("add({}, {})", momentum.name, gradient.name));
    gradient = sum;
  }
  const Value updated = make.Op(w.dims, fmt::format("subtract({}, {})", w.name, gradient.name));
  results = updated.name;
  types = StepMaker::TypeOf(updated);
  std::string alias = "{0}: (0, {}, may-alias)";
  if (has_momentum) {
    results += ", " + gradient.name;
    types += ", " + StepMaker::TypeOf(gradient);
    alias += ", {1}: (1, {}, may-alias)";
  }
  make.End("main", fmt::format("r = ({}) tuple({})", types, results), true);
  return {"training", make.Text(", input_output_alias={ " + alias + " }"), true};
}

// Products with a batch dim: scores of heads, and what they weigh.
RandomStep Attention(Random& random) {
  StepMaker make(random);
  constexpr int64_t kHeads[] = {4, 8, 12, 16};
  const int64_t heads = kHeads[random.Below(std::size(kHeads))];
  const int64_t rows = make.Size(), columns = make.Size(), depth = 64;
  const Value q = make.Parameter({heads, rows, depth});
  const Value k = make.Parameter({heads, columns, depth});
  const Value scores =
      make.Op({heads, rows, columns},
              fmt::format("dot({}, {}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
                          "lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}",
                          q.name, k.name));
  Value result = make.Op(scores.dims, fmt::format("exponential({})", scores.name));
  if (make.Toss()) {
    result = make.Op({heads, rows, depth},
                     fmt::format("dot({}, {}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
                                 "lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}",
                                 result.name, k.name));
  }
  make.End("main", fmt::format("r = {} copy({})", StepMaker::TypeOf(result), result.name), true);
  return {"attention", make.Text(""), false};
}

// A stack of layers in a loop.
RandomStep Loop(Random& random) {
  StepMaker make(random);
  const int64_t layers = 4 << random.Below(2), rows = make.Size(), width = make.Size();
  const std::string state =
      fmt::format("(s32[], f32[{},{}], f32[{},{},{}])", rows, width, layers, width, width);
  make.Line("t = {} parameter(0)", state);
  make.Line("i = s32[] get-tuple-element(t), index=0");
  make.Line("n = s32[] constant({})", layers);
  make.End("condition", "c = pred[] compare(i, n), direction=LT");

  make.Line("t = {} parameter(0)", state);
  make.Line("i = s32[] get-tuple-element(t), index=0");
  make.Line("x = f32[{},{}] get-tuple-element(t), index=1", rows, width);
  make.Line("stack = f32[{},{},{}] get-tuple-element(t), index=2", layers, width, width);
  make.Line("zero = s32[] constant(0)");
  make.Line("one = s32[] constant(1)");
  make.Line("next = s32[] add(i, one)");
  make.Line(
      "layer = f32[1,{0},{0}] dynamic-slice(stack, i, zero, zero), "
      "dynamic_slice_sizes={{1,{0},{0}}}",
      width);
  make.Line("w = f32[{0},{0}] reshape(layer)", width);
  const Value before = {"x", {rows, width}};
  Value x = make.Between(make.Dot(before, {"w", {width, width}}, 1, 0));
  if (make.Toss()) x = make.Op(x.dims, fmt::format("add({}, x)", x.name));
  make.End("body", fmt::format("r = {} tuple(next, {}, stack)", state, x.name));

  const Value first = make.Parameter({rows, width});
  const Value stack = make.Parameter({layers, width, width});
  make.Line("i = s32[] constant(0)");
  make.Line("s = {} tuple(i, {}, {})", state, first.name, stack.name);
  make.Line("loop = {} while(s), condition=condition, body=body", state);
  make.End("main", fmt::format("r = f32[{},{}] get-tuple-element(loop), index=1", rows, width),
           true);
  return {"loop", make.Text(""), false};
}

// Rows of a table, and what is made of them.
RandomStep Embedding(Random& random) {
  StepMaker make(random);
  const Value table = make.Parameter({4 * make.Size(), make.Size()});
  const Value ids = make.Parameter({make.Size()}, "s32");
  const Value rows =
      make.Op({ids.dims[0], table.dims[1]},
              fmt::format("gather({}, {}), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
                          "start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{}}}",
                          table.name, ids.name, table.dims[1]));
  const Value x = make.Between(rows);
  const Value w = make.Toss() ? table : make.Parameter({make.Size(), table.dims[1]});
  const Value y = make.Dot(x, w, 1, 1);
  make.End("main", fmt::format("r = {} copy({})", StepMaker::TypeOf(y), y.name), true);
  return {"embedding", make.Text(""), false};
}

}  // namespace

RandomStep MakeRandomStep(Random& random) {
  switch (random.Below(6)) {
    case 0:
    case 1:
      return Chain(random);
    case 2:
      return Attention(random);
    case 3:
      return Loop(random);
    case 4:
      return Embedding(random);
    default:
      return Training(random);
  }
}

}  // namespace gshard::autoshard
