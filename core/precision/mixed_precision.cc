#include "core/precision/mixed_precision.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/precision/leaf_converts.h"
#include "core/transforms/rewriter.h"
#include "ir/op_traits.h"
#include "ir/ops/shape_rules.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

DType TypeOf(const Instruction* x) { return x->shape()->dtype(); }

bool IsFloatArray(const Instruction* x) { return x->shape()->IsArray() && IsFloat(TypeOf(x)); }

// The type that all floats among the operands have in common.
std::optional<DType> CommonFloat(std::span<Instruction* const> operands) {
  std::optional<DType> type;
  for (const Instruction* x : operands) {
    if (IsFloatArray(x)) type = type ? CommonType(*type, TypeOf(x)) : TypeOf(x);
  }
  return type;
}

class MixedPrecision {
 public:
  explicit MixedPrecision(Module& module) : module_(module) {}

  bool Run() {
    // Those that are made on the way mix nothing.
    const std::vector<Computation*> all(module_.computations().begin(),
                                        module_.computations().end());
    for (Computation* computation : all) {
      const auto instructions = computation->instructions();
      if (std::any_of(instructions.begin(), instructions.end(),
                      [](const Instruction* x) { return Mixes(*x); })) {
        changed_ = true;
        Convert(computation);
      }
    }
    if (changed_) {
      const std::vector<Computation*> order = CallPostOrder(module_);
      module_.SetComputations({order.begin(), order.end()});
    }
    return changed_;
  }

 private:
  // The type that operand i is to have, if it is a float.
  static std::optional<DType> WantedType(const Instruction& x, int64_t i) {
    const int64_t half = x.operand_count() / 2;
    const auto parameter = [&](int64_t k) {
      return TypeOf(x.called(0)->parameters()[static_cast<size_t>(k)]);
    };
    switch (x.opcode()) {
      case Opcode::kMap:
        return parameter(i);
      case Opcode::kReduce:
      case Opcode::kReduceWindow:  // an accumulator meets an element
        return CommonType(parameter(i % half), parameter(half + i % half));
      case Opcode::kScatter:
        return i > half ? TypeOf(x.operand(i - half - 1)) : TypeOf(x.operand(i));
      case Opcode::kDynamicUpdateSlice:
        return TypeOf(x.operand(0));
      case Opcode::kConcatenate:
      case Opcode::kPad:
        return TypeOf(&x);
      default:  // XLA takes mixed operands, or has one only
        return IsElementwise(x.opcode()) ? CommonFloat(x.operands()) : std::nullopt;
    }
  }

  static bool WantsConvert(const Instruction& x, int64_t i) {
    if (!IsFloatArray(x.operand(i))) return false;
    const auto wanted = WantedType(x, i);
    return wanted && *wanted != TypeOf(x.operand(i));
  }

  // Reductions have one type: a reducer of others is called between converts.
  static bool WantsReducer(const Instruction& x) {
    switch (x.opcode()) {
      case Opcode::kReduce:
      case Opcode::kReduceWindow:
      case Opcode::kScatter:
      case Opcode::kSelectAndScatter:
        break;
      default:  // has no reducer
        return false;
    }
    const auto parameters = x.called().back()->parameters();
    for (size_t k = 0; k < parameters.size(); ++k) {
      if (TypeOf(parameters[k]) != ReducedType(x, k % (parameters.size() / 2))) return true;
    }
    return false;
  }

  // A compiler's sum whose result is rounded as it is written.
  static bool RoundsReduction(const Instruction& x) {
    switch (x.opcode()) {
      case Opcode::kReduce:
      case Opcode::kReduceWindow:
      case Opcode::kSelectAndScatter:
        return IsFloatArray(&x) && ReducedType(x, 0) != TypeOf(&x);
      default:  // arithmetic: TypeBeforeConvert
        return false;
    }
  }

  // The same of several arrays that are summed over devices at once.
  static bool RoundsSums(const Instruction& x) {
    if (x.opcode() != Opcode::kAllReduce || !x.shape()->IsTuple()) return false;
    for (int64_t i = 0; i < x.operand_count(); ++i) {
      const Shape* sum = x.shape()->element(i);
      if (IsFloatArray(x.operand(i)) && sum->dtype() != TypeOf(x.operand(i))) return true;
    }
    return false;
  }

  // Of operand k once it is converted.
  static DType ReducedType(const Instruction& x, size_t k) {
    const auto i = static_cast<int64_t>(k);
    return WantsConvert(x, i) ? *WantedType(x, i) : TypeOf(x.operand(i));
  }

  // The type that a result has before it is converted to its own: of what is moved that of what it
  // was, of arithmetic and sums that a compiler rounds the one they are done in.
  static std::optional<DType> TypeBeforeConvert(const Instruction& x) {
    std::optional<DType> type;
    if (MovesWhole(x.opcode())) {
      if (IsFloatArray(&x) && IsFloatArray(x.operand(0))) type = TypeOf(x.operand(0));
    } else if (x.opcode() == Opcode::kAllReduce && IsFloatArray(&x)) {
      type = TypeOf(x.operand(0));
    } else if (IsElementwise(x.opcode()) && !ChangesType(x.opcode()) && IsFloatArray(&x)) {
      type = CommonFloat(x.operands());
    }
    return type && *type != TypeOf(&x) ? type : std::nullopt;
  }

  // Elements of operand 0 alone; what keeps the order of elements may be of another type anyway,
  // and pads and concatenations convert their operands.
  static bool MovesWhole(Opcode opcode) {
    const Motion motion = MotionOf(opcode);
    return motion == Motion::kRearranges || motion == Motion::kRepeats ||
           motion == Motion::kTakes || motion == Motion::kGathers || motion == Motion::kUpdates;
  }

  static bool ChangesType(Opcode opcode) {
    return opcode == Opcode::kConvert || opcode == Opcode::kBitcastConvert ||
           opcode == Opcode::kStochasticConvert;
  }

  static bool Mixes(const Instruction& x) {
    if (TypeBeforeConvert(x)) return true;
    for (int64_t i = 0; i < x.operand_count(); ++i) {
      if (WantsConvert(x, i)) return true;
    }
    return WantsReducer(x) || RoundsReduction(x) || RoundsSums(x);
  }

  void Convert(Computation* computation) {
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    Rewriter rewriter(module_);
    rewriter.Begin(computation);
    for (Instruction* x : old) {
      Builder& builder = rewriter.builder();
      rewriter.RedirectOperands(x);
      builder.set_origin(x);
      const std::optional<DType> before = TypeBeforeConvert(*x);
      ConvertOperands(x, builder);
      if (before) {
        const DType type = TypeOf(x);
        x->set_shape(module_.context().WithDType(x->shape(), *before));
        rewriter.Keep(x);
        rewriter.Alias(x, builder.Convert(x, type));
        continue;
      }
      if (RoundsSums(*x)) {
        const Shape* shape = x->shape();
        x->set_shape(Reduced(*x));
        rewriter.Keep(x);
        rewriter.Alias(x, ConvertLeaves(x, shape, builder));
        continue;
      }
      const bool wants_reducer = WantsReducer(*x);
      if (!wants_reducer && !RoundsReduction(*x)) {
        rewriter.Keep(x);
        continue;
      }
      const auto last = static_cast<int64_t>(x->called().size()) - 1;
      if (wants_reducer) x->set_called(last, Between(x->called(last), *x));
      const Shape* shape = x->shape();
      x->set_shape(Reduced(*x));
      rewriter.Keep(x);
      if (x->shape() != shape) rewriter.Alias(x, ConvertLeaves(x, shape, builder));
    }
    rewriter.Finish();
  }

  void ConvertOperands(Instruction* x, Builder& builder) {
    std::vector<std::optional<DType>> wanted;  // before the first of them changes
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      wanted.push_back(WantsConvert(*x, i) ? WantedType(*x, i) : std::nullopt);
    }
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      const auto type = wanted[static_cast<size_t>(i)];
      if (type) x->set_operand(i, builder.Convert(x->operand(i), *type));
    }
  }

  // The shape of sums in the types of their operands.
  const Shape* Reduced(const Instruction& x) {
    Context& context = module_.context();
    if (x.shape()->IsArray()) return context.WithDType(x.shape(), TypeOf(x.operand(0)));
    std::vector<const Shape*> elements;
    for (const Shape* element : x.shape()->elements()) {
      const auto k = static_cast<int64_t>(elements.size());
      elements.push_back(context.WithDType(element, TypeOf(x.operand(k))));
    }
    return context.Tuple(elements);
  }

  // reducer(a.., b..) for values of the types of x's operands.
  Computation* Between(Computation* reducer, const Instruction& x) {
    Computation* made = module_.AddComputation(reducer->name());
    Builder builder(module_, made);
    const auto parameters = reducer->parameters();
    const size_t count = parameters.size() / 2;
    std::vector<Instruction*> arguments, results;
    for (size_t k = 0; k < parameters.size(); ++k) {
      const DType type = TypeOf(x.operand(static_cast<int64_t>(k % count)));
      Instruction* value = builder.Parameter(static_cast<int64_t>(k),
                                             builder.context().Scalar(type), parameters[k]->name());
      arguments.push_back(builder.Convert(value, TypeOf(parameters[k])));
    }
    Instruction* call =
        builder.Add(Opcode::kCall, arguments, CallAttributes{}, nullptr, {&reducer, 1});
    for (size_t k = 0; k < count; ++k) {
      Instruction* result =
          call->shape()->IsTuple() ? builder.GetTupleElement(call, static_cast<int64_t>(k)) : call;
      results.push_back(builder.Convert(result, TypeOf(x.operand(static_cast<int64_t>(k)))));
    }
    made->set_root(call->shape()->IsTuple() ? builder.Tuple(results) : results[0]);
    return made;
  }

  Module& module_;
  bool changed_ = false;
};

}  // namespace

bool ConvertMixedPrecision(Module& module) { return MixedPrecision(module).Run(); }

}  // namespace gshard
