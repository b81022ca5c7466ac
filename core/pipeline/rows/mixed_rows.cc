#include "core/pipeline/rows/mixed_rows.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "core/op_dims/dim_relation.h"
#include "core/transforms/rewriter.h"
#include "fmt/format.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/dimwise_call.h"
#include "ir/op_traits.h"
#include "ir/sharding_algebra.h"
#include "ir/source_lines.h"

namespace gshard::pipeline {
namespace {

constexpr std::string_view kWholeMark = "gshard.whole_rows";

// Parameters that are weights, or may be: all floats that hold no examples.
bool IsLearnedType(const Shape* shape) {
  return !shape->IsArray() || !(IsInteger(shape->dtype()) || shape->dtype() == DType::kPred);
}

bool HasLongWindow(const Instruction* x, int64_t d) {
  return x->attributes<WindowAttributes>().window[At(d)].size > 1;
}

bool IsPadded(const Instruction* x, int64_t d) {
  const PadDim& padding = x->attributes<PadAttributes>().padding[At(d)];
  return padding.low != 0 || padding.high != 0 || padding.interior != 0;
}

// Does a gather take rows of dim `d` of its operand by their numbers?
bool TakesRows(const Instruction* x, int64_t d) {
  const auto& gather = x->attributes<GatherAttributes>();
  return Contains(gather.start_index_map, d) &&
         gather.slice_sizes[At(d)] != x->operand(0)->shape()->dim(d);
}

bool IsTopK(const Instruction* x) {
  return x->opcode() == Opcode::kTopK || IsCustomCallTo(*x, "TopK");
}

// What meets weights, or may within what it runs.
bool MayMeetWeights(const Instruction* x) {
  return IsProduct(x->opcode()) || IsControlFlow(x->opcode()) ||
         (x->opcode() == Opcode::kCustomCall && !IsDimwiseCall(*x) && !IsTopK(x));
}

bool IsResult(const Instruction* x) {
  return x == x->parent()->root() && x->opcode() == Opcode::kTuple;
}

// Into how many alike slices its operand is cut along one dim; 0: they are not all of it.
int64_t EqualParts(const Instruction& x) {
  if (x.opcode() != Opcode::kSlice) return 0;
  const Shape *whole = x.operand(0)->shape(), *part = x.shape();
  const int64_t count =
      std::ranges::count_if(x.parent()->instructions(), [&](const Instruction* other) {
        return other->opcode() == Opcode::kSlice && other->operand(0) == x.operand(0) &&
               SameDims(other->shape(), part);
      });
  return count * part->element_count() == whole->element_count() ? count : 0;
}

}  // namespace

bool IsWholeMark(const Instruction& x) { return IsCustomCallTo(x, kWholeMark); }

void DropWholeMarks(Module& module) {
  RewriteModule(module, [](Instruction* x, Rewriter&) -> Instruction* {
    return IsWholeMark(*x) ? x->operand(0) : x;
  });
}

Diagnostic PartOfRows(const Module& module, const Instruction& x) {
  Diagnostic error = module.ErrorAt(
      &x, "E-PIPELINE-003",
      fmt::format("examples of all micro-batches need what '{}' ({}) takes of some of them",
                  x.name(), OpcodeName(x.opcode())));
  AddMixingHint(module, x, /*is_learned=*/true, error);
  return error;
}

Diagnostic RowsOfShards(const Module& module, const Instruction& x) {
  Diagnostic error = module.ErrorAt(
      &x, "E-PIPELINE-003",
      fmt::format("'{}' ({}) takes examples by their numbers, and the batch is cut over devices "
                  "besides",
                  x.name(), OpcodeName(x.opcode())));
  error.hint =
      x.opcode() == Opcode::kReshape
          ? "micro-batches times the devices that share the batch have to divide the groups"
          : "give what it takes to the step as a parameter of its own";
  return error;
}

void AddMixingHint(const Module& module, const Instruction& x, bool is_learned, Diagnostic& error) {
  const std::string line = SourceLines(module).TextOf(x);
  if (x.opcode() == Opcode::kReshape) {
    error.hint = fmt::format("'{}'{}{} makes groups of examples: --microbatches that divides them",
                             x.name(), line.empty() ? "" : ", ", line);
    return;
  }
  if (const int64_t parts = EqualParts(x); !is_learned && parts > 1) {
    error.hint = fmt::format(
        "'{}' takes one of {} equal parts of the batch, and these are not treated alike, or more "
        "becomes of them than sums of what each gives: take the step without the parts. "
        "--microbatches says into how many the pipeline cuts the batch",
        x.name(), parts);
    return;
  }
  if (!is_learned) {
    error.hint = fmt::format(
        "'{}' ({}) takes some of the examples: give them to the step as a "
        "parameter of their own",
        x.name(), OpcodeName(x.opcode()));
    return;
  }
  const std::string hint = fmt::format(
      "'{}' ({}{}{}) puts rows of other examples in the place of an example's own after weights "
      "have met them. Before that it goes; so it does within each example: {}",
      x.name(), OpcodeName(x.opcode()), line.empty() ? "" : ", ", line,
      x.opcode() == Opcode::kSort
          ? "sort each example's tokens alone, by jax.vmap over the batch (of tokens by expert: or "
            "multiply by the one-hot choice)"
          : "jax.vmap over the batch");
  error.hint = error.hint.empty() ? hint : fmt::format("{}. {}", hint, error.hint);
}

MixedRows::MixedRows(const Module& module, const std::map<int64_t, int64_t>& dimension,
                     int64_t parts, const std::set<std::string>& sums)
    : parts_(parts), rows_(module.instruction_limit()) {
  const Computation& entry = *module.entry();
  const Users users(entry);
  int64_t most_bytes = 0;
  for (const Instruction* x : entry.instructions()) {
    if (x->opcode() != Opcode::kParameter) {
      FollowRows(x);
      continue;
    }
    Rows& own = rows_[x->id()];
    const auto found = dimension.find(x->attributes<ParameterAttributes>().number);
    if (found == dimension.end()) {
      own.is_learned = IsLearnedType(x->shape());
    } else {
      own.dimension = found->second;
      own.size = x->shape()->dim(found->second);
      most_bytes = std::max(most_bytes, x->shape()->byte_size());
    }
  }
  for (const Instruction* x : entry.instructions()) {
    if (!Of(x).is_learned || behind_.contains(x) || IsResult(x)) continue;
    const bool mixes = Mixes(x);
    if (!mixes && !sums.contains(std::string(x->name()))) continue;
    if (FindBehind(x, users, most_bytes)) {
      any_ = true;
    } else if (mixes) {
      others_.push_back(x);
    }
  }
  for (const Instruction* x : entry.instructions()) FindWhole(x);
}

const Instruction* MixedRows::OtherOf(const std::set<std::string>& sums) const {
  if (others_.empty() || sums.empty()) return nullptr;
  const Users users(*others_[0]->parent());
  // Rows that are taken by number may be added up at once.
  const std::function<bool(const Instruction*)> ends = [&](const Instruction* x) {
    if (sums.contains(std::string(x->name()))) return true;
    return std::ranges::any_of(users.of(x), [&](const Instruction* user) {
      const bool is_moved = user->opcode() == Opcode::kReshape ||
                            user->opcode() == Opcode::kConvert ||
                            user->opcode() == Opcode::kTranspose ||
                            (user->opcode() == Opcode::kReduce && user->operand(0) == x);
      return is_moved && ends(user);
    });
  };
  const auto found = std::ranges::find_if(others_, [&](const Instruction* x) {
    const bool is_numbered = x->opcode() == Opcode::kGather || x->opcode() == Opcode::kDynamicSlice;
    return is_numbered ? ends(x) : sums.contains(std::string(x->name()));
  });
  return found == others_.end() ? nullptr : *found;
}

bool MixedRows::MixesOperand(const Instruction* x, int64_t i) const {
  const int64_t d = Of(x->operand(i)).dimension;
  if (d < 0 || !x->operand(i)->shape()->IsArray()) return false;
  const auto changes_size = [&] { return x->shape()->dim(d) != x->operand(i)->shape()->dim(d); };
  switch (x->opcode()) {
    case Opcode::kReverse:
    case Opcode::kConcatenate:
      return Contains(x->attributes<DimensionsAttributes>().dimensions, d);
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
      return i == 0 && changes_size();
    case Opcode::kDynamicUpdateSlice:
      return i < 2 && x->operand(1)->shape()->dim(d) != x->shape()->dim(d);
    case Opcode::kPad:
      return i == 0 && IsPadded(x, d);
    case Opcode::kGather:
      return i == 0 && TakesRows(x, d);
    case Opcode::kScatter:
      return i == 0 && Contains(x->attributes<ScatterAttributes>().scatter_dims_to_operand_dims, d);
    case Opcode::kSort:
      return x->attributes<SortAttributes>().dimension == d;
    case Opcode::kReduceWindow:
      return HasLongWindow(x, d);
    case Opcode::kReduce:  // of several arrays at once, as argmax
      return x->operand_count() > 2 &&
             Contains(x->attributes<DimensionsAttributes>().dimensions, d);
    case Opcode::kReshape:
      return CutsGroups(x);
    case Opcode::kTopK:
    case Opcode::kCustomCall:
      return IsTopK(x) && d + 1 == x->operand(0)->shape()->rank();
    default:  // others leave rows where they are, or add them up
      return false;
  }
}

// Does a reshape make groups of examples that parts of the batch cut? Of 16 examples in 4 groups 8
// parts have half a group each.
bool MixedRows::CutsGroups(const Instruction* x) const {
  const Rows& from = Of(x->operand(0));
  if (from.dimension < 0 || from.IsPart(x->operand(0)->shape())) return false;
  Rows own;
  FollowRelated(x, own);
  return own.dimension >= 0 && x->shape()->dim(own.dimension) < from.size &&
         x->shape()->dim(own.dimension) % parts_ != 0;
}

bool MixedRows::Mixes(const Instruction* x) const {
  for (int64_t i = 0; i < x->operand_count(); ++i) {
    if (MixesOperand(x, i)) return true;
  }
  return false;
}

// The dim of a result that counts its rows, and how many there are in a whole batch.
void MixedRows::FollowMixed(const Instruction* x, Rows& own) const {
  if (x->opcode() == Opcode::kReduce || IsTopK(x)) return;
  if (x->opcode() == Opcode::kReshape) {  // groups are parts of the batch until they are rows again
    FollowRelated(x, own);
    own.size = Of(x->operand(0)).size;
    return;
  }
  for (const Instruction* operand : x->operands()) {
    const Rows& from = Of(operand);
    if (from.dimension < 0) continue;
    if (own.dimension < 0) own.dimension = from.dimension;
    own.size = std::max(own.size, from.size);
    if (x->opcode() == Opcode::kGather || x->opcode() == Opcode::kScatter) break;
  }
  if (x->opcode() != Opcode::kGather) return;
  own.dimension = -1;
  const Dims offsets = x->attributes<GatherAttributes>().offset_dims;
  for (int64_t d = 0; d < x->shape()->rank() && own.dimension < 0; ++d) {
    if (!Contains(offsets, d) && x->shape()->dim(d) == own.size) own.dimension = d;
  }
}

void MixedRows::FollowRelated(const Instruction* x, Rows& own) const {
  if (!x->shape()->IsArray()) return;
  const auto has_rows = [&](const Instruction* y) {
    return Of(y).dimension >= 0 && y->shape()->IsArray();
  };
  if (std::ranges::none_of(x->operands(), has_rows)) return;
  const DimRelation relation = RelationOf(*x);
  if (!relation.relates) return;
  for (int64_t i = 0; i < x->operand_count() && own.dimension < 0; ++i) {
    const Instruction* operand = x->operand(i);
    if (!has_rows(operand)) continue;
    const Rows& from = Of(operand);
    const int factor = relation.operands[At(i)][At(from.dimension)].front();
    for (int64_t d = 0; d < x->shape()->rank(); ++d) {
      if (relation.results[0][At(d)].front() != factor) continue;
      own.dimension = d;
      own.size = from.IsPart(operand->shape()) ? from.size : x->shape()->dim(d);
    }
  }
}

void MixedRows::FollowRows(const Instruction* x) {
  Rows& own = rows_[x->id()];
  own.is_learned = std::ranges::any_of(
      x->operands(), [&](const Instruction* operand) { return Of(operand).is_learned; });
  if (IsResult(x)) return;
  if (x->opcode() == Opcode::kGetTupleElement) {
    own = Of(x->operand(0));  // of a sort or the like; others have no rows
  } else if (Mixes(x)) {
    FollowMixed(x, own);
  } else if (IsTopK(x)) {
    own.dimension = Of(x->operand(0)).dimension, own.size = Of(x->operand(0)).size;
  } else {
    FollowRelated(x, own);
  }
}

// Does nothing that follows from `seed` meet weights, or more of the examples than parameters hold?
bool MixedRows::FindBehind(const Instruction* seed, const Users& users, int64_t most_bytes) {
  std::unordered_set<const Instruction*> found = {seed};
  std::vector<const Instruction*> open = {seed};
  while (!open.empty()) {
    const Instruction* x = open.back();
    open.pop_back();
    if (MayMeetWeights(x)) return false;
    for (const Instruction* user : users.of(x)) {
      if (!IsResult(user) && found.insert(user).second) open.push_back(user);
    }
  }
  for (const Instruction* x : found) {
    for (const Instruction* operand : x->operands()) {
      const bool is_gathered = Of(operand).dimension >= 0 && !found.contains(operand);
      if (is_gathered && operand->shape()->byte_size() > most_bytes) return false;
    }
  }
  behind_.insert(found.begin(), found.end());
  return true;
}

void MixedRows::FindWhole(const Instruction* x) {
  Rows& own = rows_[x->id()];
  own.is_whole = behind_.contains(x);
  if (own.is_whole || x->opcode() == Opcode::kParameter || IsResult(x)) return;
  bool takes_part = false, takes_tuple = false;
  for (const Instruction* operand : x->operands()) {
    const Rows& from = Of(operand);
    if (!from.is_whole) continue;
    takes_tuple = takes_tuple || operand->shape()->IsTuple();
    takes_part = takes_part || from.IsPart(operand->shape());
  }
  if (x->opcode() == Opcode::kGetTupleElement) {
    own.is_whole = takes_tuple;
    return;
  }
  const bool is_array = x->shape()->IsArray() || x->opcode() == Opcode::kSort ||
                        x->opcode() == Opcode::kReduce || IsTopK(x);
  if ((takes_part || takes_tuple) && (own.is_learned || !is_array)) meets_weights_ = true;
  if (own.is_learned) return;
  const bool mixes = is_array && Mixes(x);
  own.is_whole = mixes || takes_part;
  any_ = any_ || mixes;
  if (mixes && part_ == nullptr) part_ = x;
}

void MixedRows::MakeWhole(Module& module, int64_t microbatches) const {
  Context& context = module.context();
  const std::vector<Instruction*> old(module.entry()->instructions().begin(),
                                      module.entry()->instructions().end());
  Rewriter rewriter(module);
  rewriter.Begin(module.entry());
  std::unordered_map<const Instruction*, Instruction*> whole, cut;
  // Rows that a reshape cuts into groups are put together before it.
  const std::function<Instruction*(Instruction*)> marked = [&](Instruction* x) {
    const auto found = whole.find(x);
    if (found != whole.end()) return found->second;
    Builder& builder = rewriter.builder();
    Instruction* result = nullptr;
    if (x->opcode() == Opcode::kReshape && x->operand(0)->shape()->IsArray()) {
      result = builder.Reshape(marked(x->operand(0)), x->shape()->dims());
    } else {
      CustomCallAttributes attributes;
      attributes.target = kWholeMark;
      Instruction* const operand[] = {x};
      result = builder.Add(Opcode::kCustomCall, operand, attributes, x->shape());
    }
    result->set_sharding(context.Replicated());
    return whole[x] = result;
  };
  const auto rows_of = [&](Instruction* x, int64_t dimension) {
    Instruction*& result = cut[x];
    if (result != nullptr) return result;
    std::vector<int64_t> tiles(x->shape()->dims().size(), 1);
    tiles[At(dimension)] = microbatches;
    result = rewriter.builder().Add(Opcode::kCopy, {marked(x)}, x->shape());
    result->set_sharding(context.Tiled(TileAssignment::Iota(tiles)));
    return result;
  };
  for (Instruction* x : old) {
    rewriter.builder().set_origin(x);
    const bool is_whole = Of(x).is_whole;
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      Instruction* operand = x->operand(i);
      const Rows& from = Of(operand);
      if (from.dimension < 0 || !operand->shape()->IsArray()) continue;
      const bool is_part = from.IsPart(operand->shape());
      if (is_whole && !from.is_whole) {
        x->set_operand(i, marked(operand));
      } else if (!is_whole && from.is_whole && !is_part && !behind_.contains(operand)) {
        x->set_operand(i, rows_of(operand, from.dimension));
      }
    }
    if (is_whole) {
      const Sharding* replicated = context.Replicated();
      x->set_sharding(x->shape()->IsTuple() ? context.TupleOf(LeafShardings(x->shape(), replicated))
                                            : replicated);
    }
    rewriter.Keep(x);
  }
  rewriter.Finish();
}

}  // namespace gshard::pipeline
