// Two facts of every f32 array, and of every element of a tuple: does somebody need all of its
// bits, and is it rounded in the end? Both flow from readers to what they read. See
// rounded_operands.h.

#include "core/transforms/tpu/rounded_operands.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

bool IsCast(const Instruction* x) {
  return x->opcode() == Opcode::kConvert && x->shape()->dtype() == DType::kBF16;
}

// Converts to bf16, and products at DEFAULT precision or of an algorithm that says so, as those of
// jax.nn.dot_product_attention.
bool RoundsOperands(const Instruction* x) {
  std::span<const Precision> precision;
  if (x->opcode() == Opcode::kDot) {
    const auto& attributes = x->attributes<DotAttributes>();
    if (!attributes.algorithm.empty()) return attributes.algorithm == "dot_bf16_bf16_f32";
    precision = attributes.precision;
  } else if (x->opcode() == Opcode::kConvolution) {
    precision = x->attributes<ConvolutionAttributes>().precision;
  } else {
    return IsCast(x);
  }
  return std::ranges::all_of(precision, [](Precision p) { return p == Precision::kDefault; });
}

bool IsF32(const Shape* shape) { return shape->IsArray() && shape->dtype() == DType::kF32; }
bool IsBF16(const Shape* shape) { return shape->IsArray() && shape->dtype() == DType::kBF16; }

int64_t ElementIndex(const Instruction* x) {
  return x->attributes<GetTupleElementAttributes>().index;
}

// Of a tuple, its elements.
int64_t CountOf(const Instruction* x) {
  return x->shape()->IsTuple() ? static_cast<int64_t>(x->shape()->elements().size()) : 1;
}

// Elements of operand 0 at other places: rounded, if the operand is.
bool Moves(const Instruction* x) {
  return x->shape()->IsArray() && MovesOneArray(x->opcode()) &&
         (MotionOf(x->opcode()) != Motion::kRepeats || x->operand(0)->shape()->rank() == 0) &&
         PurityOf(x->opcode()) == Purity::kPure;
}

// May the kernel that makes x round it as it writes it?
bool WritesAnyType(const Instruction* x) {
  if (IsElementwise(x->opcode())) return true;
  switch (x->opcode()) {
    case Opcode::kDot:
    case Opcode::kConvolution:
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
    case Opcode::kBroadcast:
    case Opcode::kConcatenate:
    case Opcode::kPad:
    case Opcode::kGather:
      return true;
    default:  // what is left stands for itself: arguments, what collectives and libraries make
      return false;
  }
}

// The arrays of a program, an element of a flat tuple being one: those that are always of one type,
// as all names of a loop's state are, are one value.
class Values {
 public:
  explicit Values(const Module& module) : first_(module.instruction_limit()) {}

  // Makes the values of x; a tuple within a tuple is one.
  void Add(const Instruction* x) {
    first_[x->id()] = static_cast<uint32_t>(parent_.size());
    for (int64_t i = 0; i < CountOf(x); ++i) {
      parent_.push_back(static_cast<uint32_t>(parent_.size()));
    }
  }
  size_t size() const { return parent_.size(); }
  uint32_t Of(const Instruction* x, int64_t element = 0) {
    return Root(first_[x->id()] + static_cast<uint32_t>(element));
  }
  uint32_t Root(uint32_t value) {
    while (parent_[value] != value) value = parent_[value] = parent_[parent_[value]];
    return value;
  }
  void Join(uint32_t a, uint32_t b) { parent_[Root(a)] = Root(b); }

 private:
  std::vector<uint32_t> first_;  // by instruction id
  std::vector<uint32_t> parent_;
};

// What is known of a module's values.
class Rounding {
 public:
  explicit Rounding(const Module& module)
      : module_(module),
        sites_(module),
        values_(module),
        is_read_by_others_(module.instruction_limit()) {}

  // True if anything is rounded.
  bool Find() {
    FindComputations();
    for (const Computation* computation : computations_) {
      for (const Instruction* x : computation->instructions()) values_.Add(x);
    }
    for (const Computation* computation : computations_) {
      for (const Instruction* x : computation->instructions()) JoinNames(x);
    }
    is_shared_.assign(values_.size(), false);
    for (const uint32_t value : shared_) is_shared_[values_.Root(value)] = true;
    needs_all_.assign(values_.size(), false);
    is_rounded_.assign(values_.size(), false);
    for (const Computation* computation : computations_) {
      for (const Instruction* x : computation->instructions()) Read(x);
    }
    NeedAll(module_.entry()->root());
    if (std::ranges::find(is_rounded_, true) == is_rounded_.end()) return false;
    Spread();
    return true;
  }

  const std::vector<Computation*>& computations() const { return computations_; }
  // Is the array, or the element of a tuple, to be bf16?
  bool IsNarrow(const Instruction* x, int64_t element = 0) {
    const Shape* shape = x->shape()->IsTuple() ? x->shape()->element(element) : x->shape();
    return IsF32(shape) && IsNarrowValue(values_.Of(x, element));
  }
  // Is the element one of a loop's or conditional's, whatever the tuple is made of?
  bool IsShared(const Instruction* tuple, int64_t element) {
    return is_shared_[values_.Of(tuple, element)];
  }
  // Does anything but a cast read the array?
  bool IsReadByOthers(const Instruction* x) const { return is_read_by_others_[x->id()]; }
  // The loop or conditional that runs the computation; null: the entry.
  const Instruction* CallerOf(const Computation* computation) const {
    const auto found = callers_.find(computation);
    return found == callers_.end() ? nullptr : found->second;
  }

 private:
  using Links = std::vector<std::pair<uint32_t, uint32_t>>;  // of values

  // The entry, and what loops and conditionals that may be changed run.
  void FindComputations() {
    computations_ = {module_.entry()};
    for (size_t i = 0; i < computations_.size(); ++i) {
      for (const Instruction* x : computations_[i]->instructions()) {
        if (!MayChangeCallees(x)) continue;
        for (Computation* called : x->called()) {
          computations_.push_back(called);
          callers_[called] = x;
        }
      }
    }
  }

  bool MayChangeCallees(const Instruction* x) const {
    return (x->opcode() == Opcode::kWhile || x->opcode() == Opcode::kConditional) &&
           std::ranges::all_of(x->called(),
                               [&](const Computation* c) { return sites_.Count(c) == 1; });
  }

  // A loop's state has one type in all its computations, and branches give one to their results.
  void JoinNames(const Instruction* x) {
    if (!MayChangeCallees(x)) return;
    if (x->opcode() == Opcode::kWhile) {
      Join(x->operand(0), x);
      Join(x->called(1)->root(), x);
      for (int64_t i : {0, 1}) JoinAll(x->called(i)->parameter(0), x);
      return;
    }
    for (size_t i = 0; i < x->called().size(); ++i) {
      Join(x->called(static_cast<int64_t>(i))->root(), x);
      Join(x->operand(static_cast<int64_t>(i) + 1),
           x->called(static_cast<int64_t>(i))->parameter(0));
    }
  }

  // An array that is handed on may be cast on the way, an element of a tuple may not.
  void Join(const Instruction* from, const Instruction* to) {
    if (!to->shape()->IsTuple()) {
      Copy(values_.Of(from), values_.Of(to));
      is_read_by_others_[from->id()] = true;
    } else {
      JoinAll(from, to);
    }
  }

  void JoinAll(const Instruction* a, const Instruction* b) {
    for (int64_t i = 0; i < CountOf(a); ++i) {
      values_.Join(values_.Of(a, i), values_.Of(b, i));
      shared_.push_back(values_.Of(b, i));
    }
  }

  void NeedAll(const Instruction* x) {
    for (int64_t i = 0; i < CountOf(x); ++i) needs_all_[values_.Of(x, i)] = true;
  }

  // `to` holds elements of `from`.
  void Copy(uint32_t from, uint32_t to) { copies_.emplace_back(from, to); }

  void Read(const Instruction* x) {
    if (!IsCast(x)) {
      for (const Instruction* operand : x->operands()) is_read_by_others_[operand->id()] = true;
    }
    switch (x->opcode()) {
      case Opcode::kTuple:
        for (int64_t i = 0; i < x->operand_count(); ++i) {
          if (x->operand(i)->shape()->IsTuple()) {
            NeedAll(x->operand(i));
          } else {
            Copy(values_.Of(x->operand(i)), values_.Of(x, i));
          }
        }
        return;
      case Opcode::kGetTupleElement:
        if (x->shape()->IsTuple()) {
          NeedAll(x);
          NeedAll(x->operand(0));
        } else {
          Copy(values_.Of(x->operand(0), ElementIndex(x)), values_.Of(x));
        }
        return;
      case Opcode::kDynamicUpdateSlice:
        Copy(values_.Of(x->operand(0)), values_.Of(x));
        Copy(values_.Of(x->operand(1)), values_.Of(x));
        Copy(values_.Of(x), values_.Of(x->operand(0)));
        return;
      case Opcode::kOptBarrier:
        for (int64_t i = 0; i < CountOf(x); ++i)
          Copy(values_.Of(x->operand(0), i), values_.Of(x, i));
        return;
      case Opcode::kParameter:
        if (x->shape()->IsTuple() && x->parent() == module_.entry()) NeedAll(x);
        return;
      default:  // by the traits of what it does with elements
        break;
    }
    if (MayChangeCallees(x)) return;
    if (x->shape()->IsTuple()) NeedAll(x);
    const bool moves = Moves(x), rounds = RoundsOperands(x);
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      if (moves && i == 0) {
        Copy(values_.Of(x->operand(0)), values_.Of(x));
      } else if (rounds) {
        is_rounded_[values_.Of(x->operand(i))] = true;
      } else {
        NeedAll(x->operand(i));
      }
    }
  }

  // What is true of a copy is true of what it is a copy of. And where no bits are lost that
  // somebody needs, every copy is rounded, if only one has to be.
  void Spread() {
    for (auto& [from, to] : copies_) from = values_.Root(from), to = values_.Root(to);
    Links sources;
    for (const auto& [from, to] : copies_) sources.emplace_back(to, from);
    std::ranges::sort(sources);
    Flow(sources, needs_all_);
    Flow(sources, is_rounded_);
    std::erase_if(copies_, [&](const auto& link) { return !IsNarrowValue(link.first); });
    std::ranges::sort(copies_);
    Flow(copies_, is_rounded_);
  }

  // From the first values of the links, which are sorted, to their second ones.
  static void Flow(const Links& links, std::vector<bool>& fact) {
    std::vector<uint32_t> open;
    for (uint32_t value = 0; value < fact.size(); ++value) {
      if (fact[value]) open.push_back(value);
    }
    while (!open.empty()) {
      const uint32_t value = open.back();
      open.pop_back();
      auto link = std::ranges::lower_bound(links, value, {}, &Links::value_type::first);
      for (; link != links.end() && link->first == value; ++link) {
        if (fact[link->second]) continue;
        fact[link->second] = true;
        open.push_back(link->second);
      }
    }
  }

  bool IsNarrowValue(uint32_t value) const { return is_rounded_[value] && !needs_all_[value]; }

  const Module& module_;
  const CallSites sites_;
  Values values_;
  std::vector<Computation*> computations_;
  std::unordered_map<const Computation*, const Instruction*> callers_;
  Links copies_;  // values, and what holds elements of them
  std::vector<uint32_t> shared_;
  std::vector<bool> is_shared_, needs_all_, is_rounded_;  // by value
  std::vector<bool> is_read_by_others_;                   // by instruction: not only by casts
};

// Makes the values bf16 that are to be.
class Narrowing {
 public:
  Narrowing(Module& module, Rounding& rounding)
      : entry_(module.entry()), rounding_(rounding), rewriter_(module) {}

  bool Run() {
    for (Computation* computation : rounding_.computations()) {
      const std::vector<Instruction*> list(computation->instructions().begin(),
                                           computation->instructions().end());
      rewriter_.Begin(computation);
      for (Instruction* x : list) Visit(x);
      const Instruction* caller = rounding_.CallerOf(computation);
      Instruction* root = rewriter_.ValueOf(computation->root());
      if (caller != nullptr && IsBF16(caller->shape()) && IsF32(root->shape())) {
        rewriter_.Alias(computation->root(), Cast(root));
      }
      rewriter_.Finish();
    }
    return changed_;
  }

 private:
  // Computations come after their callers, and operands before their readers, which read from now
  // on what is rounded.
  void Visit(Instruction* x) {
    rewriter_.RedirectOperands(x);
    if (IsCast(x)) {
      if (!IsBF16(x->operand(0)->shape())) return rewriter_.Keep(x);
      changed_ = true;
      return rewriter_.Replace(x, x->operand(0));
    }
    if (x->opcode() == Opcode::kParameter && x->parent() == entry_) {
      return rewriter_.Keep(x);
    }
    CastOperands(x);
    const bool makes_narrow = IsF32(x->shape()) && rounding_.IsNarrow(x) && !GivesNarrow(x) &&
                              rounding_.IsReadByOthers(x) && MayRound(x);
    if (!makes_narrow) SetShape(x);
    rewriter_.Keep(x);
    if (makes_narrow) rewriter_.Alias(x, Cast(x));
  }

  // What x hands on narrow, or repeats.
  void CastOperands(Instruction* x) {
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      if (!IsF32(x->operand(i)->shape()) || !TakesNarrow(x, i)) continue;
      x->set_operand(i, Cast(x->operand(i)));
    }
  }

  bool TakesNarrow(const Instruction* x, int64_t i) {
    switch (x->opcode()) {
      case Opcode::kTuple:
        return rounding_.IsNarrow(x, i) && rounding_.IsShared(x, i);
      case Opcode::kConditional:
        return i > 0 && rounding_.CallerOf(x->called(i - 1)) == x &&
               rounding_.IsNarrow(x->called(i - 1)->parameter(0));
      case Opcode::kWhile:
      case Opcode::kDynamicUpdateSlice:
        return rounding_.IsNarrow(x);
      default:  // a scalar that is repeated
        return Moves(x) && MotionOf(x->opcode()) == Motion::kRepeats && rounding_.IsNarrow(x);
    }
  }

  // Is x narrow by what it is made of, or by whoever runs its computation?
  bool GivesNarrow(const Instruction* x) const {
    switch (x->opcode()) {
      case Opcode::kGetTupleElement:
        return IsBF16(x->operand(0)->shape()->element(ElementIndex(x)));
      case Opcode::kParameter:
      case Opcode::kWhile:
      case Opcode::kConditional:
        return true;
      default:  // elements of its operand
        return (Moves(x) || x->opcode() == Opcode::kDynamicUpdateSlice) &&
               IsBF16(x->operand(0)->shape());
    }
  }

  // Is there a kernel that makes x, and can round it?
  bool MayRound(const Instruction* x) {
    return WritesAnyType(x) || (Moves(x) && !rounding_.IsNarrow(x->operand(0)));
  }

  void SetShape(Instruction* x) {
    Context& context = rewriter_.builder().context();
    const Shape* shape = x->shape();
    if (x->opcode() == Opcode::kOptBarrier) {
      shape = x->operand(0)->shape();
    } else if (shape->IsTuple()) {
      std::vector<const Shape*> elements(shape->elements().begin(), shape->elements().end());
      for (size_t i = 0; i < elements.size(); ++i) {
        const int64_t element = static_cast<int64_t>(i);
        if (!rounding_.IsNarrow(x, element)) continue;
        if (x->opcode() == Opcode::kTuple && !IsBF16(x->operand(element)->shape())) continue;
        elements[i] = context.WithDType(elements[i], DType::kBF16);
      }
      shape = context.Tuple(elements);
    } else if (IsF32(shape) && rounding_.IsNarrow(x) && GivesNarrow(x)) {
      shape = context.WithDType(shape, DType::kBF16);
    }
    if (shape == x->shape()) return;
    x->set_shape(shape);
    changed_ = true;
  }

  // x as bf16, of its name.
  Instruction* Cast(Instruction* x) {
    if (x->opcode() == Opcode::kConvert && IsBF16(x->operand(0)->shape())) return x->operand(0);
    Instruction*& cast = casts_[x];
    if (cast == nullptr) {
      Builder& builder = rewriter_.builder();
      builder.set_origin(x);
      cast =
          builder.Add(Opcode::kConvert, {x}, builder.context().WithDType(x->shape(), DType::kBF16),
                      std::string(x->name()) + ".bf16");
      cast->set_frontend_attributes(WithFrontendAttribute(
          builder.module().arena(), cast->frontend_attributes(), kRoundingAttribute, "bf16"));
      changed_ = true;
    }
    return cast;
  }

  const Computation* entry_;
  Rounding& rounding_;
  Rewriter rewriter_;
  std::unordered_map<const Instruction*, Instruction*> casts_;
  bool changed_ = false;
};

}  // namespace

bool RoundOperands(Module& module) {
  Rounding rounding(module);
  if (!rounding.Find() || !Narrowing(module, rounding).Run()) return false;
  RemoveDeadCode(module);
  return true;
}

}  // namespace gshard
