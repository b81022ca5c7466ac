// Shapes change in place; around what stays as it is, and behind the entry's parameters, there are
// converts.
#include "core/precision/float_widening.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/precision/leaf_converts.h"
#include "core/transforms/rewriter.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/literal.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// Formats of reduce-precision that are those of widened types, or finer.
constexpr int64_t kMinExponentBits = 5;  // f16
constexpr int64_t kMinMantissaBits = 7;  // bf16

// LAPACK's routines are named by their type: s, d, c, z.
bool IsNarrowLapack(std::string_view target) {
  constexpr std::string_view kPrefix = "lapack_";
  return target.starts_with(kPrefix) && target.size() > kPrefix.size() &&
         (target[kPrefix.size()] == 's' || target[kPrefix.size()] == 'c');
}

class FloatWidener {
 public:
  FloatWidener(Module& module, const WideningOptions& options)
      : module_(module),
        options_(options),
        shapes_(module.instruction_limit()),
        kept_(module.instruction_limit(), 0) {
    Reach(module.entry());
  }

  bool Run() {
    bool any = false;
    for (const Computation* computation : computations_) {
      for (const Instruction* x : computation->instructions()) {
        shapes_[x->id()] = x->shape();
        any = any || HasNarrow(x->shape());
      }
    }
    if (!any) return false;
    for (Computation* computation : computations_) Widen(computation);
    UpdateHeader();
    RemoveDeadCode(module_);
    return true;
  }

 private:
  const Shape* Wide(const Shape* shape) const { return WidenedShape(module_.context(), shape); }
  bool HasNarrow(const Shape* shape) const { return Wide(shape) != shape; }

  // All but what only custom calls to unknown code call.
  void Reach(Computation* computation) {
    if (!reached_.insert(computation).second) return;
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kCustomCall && IsUnknownCall(*x)) continue;
      for (Computation* called : x->called()) Reach(called);
    }
    computations_.push_back(computation);
  }

  static bool IsUnknownCall(const Instruction& x) {
    const std::string_view target = x.attributes<CustomCallAttributes>().target;
    return !IsIdentityCall(x) && !IsNarrowLapack(target) && target != kTopKTarget;
  }

  // Is x about the bits of its type, or are its values others in another one?
  bool StaysNarrow(const Instruction& x) const {
    switch (x.opcode()) {
      case Opcode::kParameter:
        return x.parent() == module_.entry();
      case Opcode::kBitcast:
        return shapes_[x.operand(0)->id()]->dtype() != x.shape()->dtype();
      case Opcode::kConstant:
        return HasElided(*x.attributes<ConstantAttributes>().literal);
      case Opcode::kSend:
      case Opcode::kRecv:
      case Opcode::kSendDone:
      case Opcode::kRecvDone:
        return x.attributes<ChannelAttributes>().is_host_transfer;
      case Opcode::kCustomCall:
        return IsUnknownCall(x);
      case Opcode::kBitcastConvert:
      case Opcode::kStochasticConvert:
      case Opcode::kRng:
      case Opcode::kRngBitGenerator:
      case Opcode::kInfeed:
      case Opcode::kOutfeed:
        return true;
      default:  // computes in the wider type
        return false;
    }
  }

  // Rounds to a type that is widened: nothing is left to do.
  bool IsRounding(const Instruction& x) const {
    if (x.opcode() == Opcode::kReducePrecision) {
      const auto& format = x.attributes<ReducePrecisionAttributes>();
      return HasNarrow(x.shape()) && format.exponent_bits >= kMinExponentBits &&
             format.mantissa_bits >= kMinMantissaBits;
    }
    return x.opcode() == Opcode::kConvert && !options_.keep_converts && HasNarrow(x.shape()) &&
           Compatible(Wide(x.shape()), Wide(shapes_[x.operand(0)->id()]));
  }

  void Widen(Computation* computation) {
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    Rewriter rewriter(module_);
    rewriter.Begin(computation);
    for (Instruction* x : old) {
      rewriter.builder().set_origin(x);
      if (StaysNarrow(*x)) {
        KeepNarrow(x, rewriter);
      } else if (IsRounding(*x)) {
        Instruction* value = rewriter.ValueOf(x->operand(0));
        if (x->sharding() != nullptr) {
          value = rewriter.builder().Add(Opcode::kCopy, {value});
          value->set_sharding(x->sharding());
        }
        rewriter.Replace(x, value);
      } else {
        rewriter.RedirectOperands(x);
        WidenAttributes(x);
        x->set_shape(Wide(x->shape()));
        rewriter.Keep(x);
      }
    }
    rewriter.Finish();
  }

  void KeepNarrow(Instruction* x, Rewriter& rewriter) {
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      Instruction* operand = x->operand(i);
      const Shape* narrow = shapes_[operand->id()];
      if (kept_[operand->id()] != 0) continue;
      x->set_operand(i, ConvertLeaves(rewriter.ValueOf(operand), narrow, rewriter.builder()));
    }
    kept_[x->id()] = 1;
    rewriter.Keep(x);
    // What a transfer has begun is for its end only.
    if (x->opcode() == Opcode::kSend || x->opcode() == Opcode::kRecv) return;
    Instruction* wide = ConvertLeaves(x, Wide(x->shape()), rewriter.builder());
    if (wide != x) rewriter.Alias(x, wide);
  }

  // Instructions may share attributes: to widen them twice changes nothing.
  void WidenAttributes(Instruction* x) {
    switch (x->opcode()) {
      case Opcode::kConstant: {
        const Literal*& literal = x->mutable_attributes<ConstantAttributes>().literal;
        literal = WideLiteral(literal);
        break;
      }
      case Opcode::kDot:
      case Opcode::kRaggedDot:
      case Opcode::kScaledDot:
        x->mutable_attributes<DotAttributes>().algorithm = {};  // it names types
        break;
      case Opcode::kCustomCall:
        WidenCall(x->mutable_attributes<CustomCallAttributes>());
        break;
      default:  // has no types in its attributes
        break;
    }
  }

  void WidenCall(CustomCallAttributes& call) {
    if (IsNarrowLapack(call.target)) {
      std::string target(call.target);
      char& type = target[std::string_view("lapack_").size()];
      type = type == 's' ? 'd' : 'z';
      call.target = module_.arena().Copy(target);
    }
    std::vector<const Shape*> constraints;
    for (const Shape* shape : call.operand_layout_constraints) constraints.push_back(Wide(shape));
    call.operand_layout_constraints = module_.arena().Copy(constraints);
  }

  const Literal* WideLiteral(const Literal* literal) {
    if (!HasNarrow(literal->shape)) return literal;
    const Literal*& wide = literals_[literal];
    if (wide != nullptr) return wide;
    const Shape* shape = Wide(literal->shape);
    if (shape->IsTuple()) {
      std::vector<const Literal*> elements;
      for (const Literal* element : literal->elements) elements.push_back(WideLiteral(element));
      return wide =
                 module_.arena().New<Literal>(Literal{.shape = shape,
                                                      .elided = false,
                                                      .data = {},
                                                      .elements = module_.arena().Copy(elements)});
    }
    const bool is_complex = IsComplex(shape->dtype());
    const size_t parts = is_complex ? 2 : 1;
    std::vector<double> values(static_cast<size_t>(shape->element_count()) * parts);
    for (int64_t i = 0; i < shape->element_count(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (is_complex) {
        const std::complex<double> value = ElementAsComplex(*literal, i);
        values[2 * at] = value.real();
        values[2 * at + 1] = value.imag();
      } else {
        values[at] = ElementAsDouble(*literal, i);
      }
    }
    return wide = RawLiteral(module_.arena(), shape, std::as_bytes(std::span(values)));
  }

  void UpdateHeader() {
    ModuleHeader& header = module_.header();
    if (header.entry_result_layout != nullptr) {
      header.entry_result_layout = Wide(header.entry_result_layout);
    }
    const Shape* results = module_.entry()->root()->shape();
    std::erase_if(header.input_output_alias, [&](const ModuleHeader::Alias& alias) {
      const Shape* result = ShapePart(results, alias.output_index);
      const Shape* parameter =
          ShapePart(module_.entry()->parameter(alias.parameter)->shape(), alias.parameter_index);
      return result == nullptr || parameter == nullptr || !Compatible(result, parameter);
    });
  }

  Module& module_;
  const WideningOptions options_;
  std::unordered_set<const Computation*> reached_;
  std::vector<Computation*> computations_;  // that are widened
  std::vector<const Shape*> shapes_;        // by instruction id: as they were
  std::vector<uint8_t> kept_;               // by instruction id: has its old shape
  std::unordered_map<const Literal*, const Literal*> literals_;
};

}  // namespace

DType WidenedType(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
      return DType::kF64;
    case DType::kC64:
      return DType::kC128;
    default:
      return dtype;
  }
}

const Shape* WidenedShape(Context& context, const Shape* shape) {
  switch (shape->kind()) {
    case ShapeKind::kArray: {
      const DType wide = WidenedType(shape->dtype());
      return wide == shape->dtype() ? shape : context.WithDType(shape, wide);
    }
    case ShapeKind::kTuple: {
      std::vector<const Shape*> elements;
      for (const Shape* element : shape->elements()) {
        elements.push_back(WidenedShape(context, element));
      }
      return std::ranges::equal(elements, shape->elements()) ? shape : context.Tuple(elements);
    }
    case ShapeKind::kBuffer: {
      const Shape* element = WidenedShape(context, shape->element(0));
      return element == shape->element(0) ? shape : context.Buffer(element);
    }
    default:
      return shape;
  }
}

bool WidenFloats(Module& module, const WideningOptions& options) {
  return FloatWidener(module, options).Run();
}

}  // namespace gshard
