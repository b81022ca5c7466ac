#include "core/pipeline/plan/batch.h"

#include <re2/re2.h>

#include <algorithm>
#include <ranges>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/analysis/near_names.h"
#include "core/analysis/parameter_pattern.h"
#include "core/analysis/trip_count.h"
#include "core/analysis/updates.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

bool Matches(const RE2& pattern, const ParameterPattern& of_parameter, const Instruction* x) {
  std::string_view name = x->name();
  return RE2::PartialMatch({name.data(), name.size()}, pattern) ||
         RE2::PartialMatch(OpNameOf(*x), pattern) ||
         of_parameter.Finds(x->attributes<ParameterAttributes>().number);
}

Expected<std::map<int64_t, int64_t>> ByRules(const Module& module, const PipelineOptions& options) {
  std::map<int64_t, int64_t> dims;
  for (const BatchRule& rule : options.batch) {
    RE2::Options quiet;
    quiet.set_log_errors(false);
    RE2 pattern(rule.pattern, quiet);
    if (!pattern.ok()) {
      return Fail(
          MakeError("E-PIPELINE-002", fmt::format("--batch '{}': {}", rule.text, pattern.error())));
    }
    const ParameterPattern of_parameter(rule.pattern);
    bool any = false;
    for (const Instruction* x : module.entry()->parameters()) {
      if (!Matches(pattern, of_parameter, x)) continue;
      any = true;
      if (!x->shape()->IsArray() || rule.dimension >= x->shape()->rank()) {
        return Fail(
            module.ErrorAt(x, "E-PIPELINE-002",
                           fmt::format("--batch '{}': '{}' is {}, which has no dim {}", rule.text,
                                       x->name(), ToString(x->shape(), false), rule.dimension)));
      }
      dims[x->attributes<ParameterAttributes>().number] = rule.dimension;
    }
    if (!any) {
      return Fail(MakeError(
          "E-PIPELINE-002", fmt::format("--batch '{}' matches no parameter", rule.text),
          WordMeantBy(module, rule.text) + "patterns match names, op_name paths and param:K"));
    }
  }
  return dims;
}

// Does the product contract the first dim of `x` with one that is not the other operand's first?
// The gradient of a weight contracts examples with examples, first dims both, or transposed ones.
bool ContractsAsWeight(const Instruction* dot, const Instruction* x) {
  const auto& attributes = dot->attributes<DotAttributes>();
  const auto is_first_of = [&](std::span<const int64_t> own, std::span<const int64_t> other,
                               const Instruction* by) {
    Dims moved;
    if (by->opcode() == Opcode::kTranspose)
      moved = by->attributes<DimensionsAttributes>().dimensions;
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] == 0 && (moved.empty() ? other[i] : moved[At(other[i])]) != 0) return true;
    }
    return false;
  };
  const Dims left = attributes.lhs_contracting, right = attributes.rhs_contracting;
  return (dot->operand(0) == x && is_first_of(left, right, dot->operand(1))) ||
         (dot->operand(1) == x && is_first_of(right, left, dot->operand(0)));
}

// Is the vector `x` put along a later dim, as a bias along the features of each row?
bool IsPutAlong(const Instruction* user, const Instruction* x) {
  if (x->shape()->rank() != 1) return false;
  if (user->opcode() == Opcode::kReshape)
    return user->shape()->rank() > 1 && user->shape()->dims().back() == x->shape()->dim(0);
  return user->opcode() == Opcode::kBroadcast &&
         user->attributes<DimensionsAttributes>().dimensions[0] > 0;
}

bool TakesRowsOf(const Instruction* gather, const Instruction* x) {
  return gather->operand(0) == x && gather->operand(1) != x &&
         Contains(gather->attributes<GatherAttributes>().start_index_map, 0);
}

using InstructionSet = std::unordered_set<const Instruction*>;

// Has `x` the rows of those of its operands that are among `rows`, and do a few numbers decide the
// rest? So weights are taken from their quantized form: by scales and offsets put along them, masks
// and shifts, groups of rows or columns, and tables of the numbers that codes of a byte stand for.
// `are_codes`: rows are of integers of a byte or less.
bool KeepsRows(const Instruction* x, const InstructionSet& rows, bool are_codes) {
  const auto is_known = [&](const Instruction* operand) {
    return rows.contains(operand) || operand->opcode() == Opcode::kBroadcast ||
           operand->opcode() == Opcode::kConstant;
  };
  switch (x->opcode()) {
    case Opcode::kCopy:
      return true;
    case Opcode::kReshape:
    case Opcode::kBroadcast:
      return x->shape()->element_count() == x->operand(0)->shape()->element_count() &&
             x->shape()->rank() > 0 && x->shape()->dim(0) != 1;
    case Opcode::kConcatenate:
      return std::ranges::all_of(x->operands(), is_known);
    case Opcode::kGather:
      return are_codes && rows.contains(x->operand(1)) && !rows.contains(x->operand(0)) &&
             !Contains(x->attributes<GatherAttributes>().offset_dims, 0);
    default:  // an elementwise operation does
      return IsElementwise(x->opcode()) && std::ranges::all_of(x->operands(), is_known);
  }
}

// Does a product contract rows of `x` as a weight's, or of what has its rows?
bool IsContractedAsWeight(const Instruction* x, const Users& users) {
  const bool are_codes = IsInteger(x->shape()->dtype()) && DTypeBits(x->shape()->dtype()) <= 8;
  InstructionSet rows = {x};
  std::vector<const Instruction*> open = {x};
  while (!open.empty()) {
    const Instruction* from = open.back();
    open.pop_back();
    for (const Instruction* user : users.of(from)) {
      if (user->opcode() == Opcode::kDot) {
        if (ContractsAsWeight(user, from)) return true;
      } else if (!rows.contains(user) && KeepsRows(user, rows, are_codes)) {
        rows.insert(user);
        open.push_back(user);
      }
    }
  }
  return false;
}

// How loops and products take a parameter that the step leaves as it is.
struct Use {
  int64_t depth = 0;  // of the loop that takes it row by row, 1 for the outermost; 0: none does
  bool is_weight = false;  // a product contracts its first dim, or that of its rows, as a weight's
  bool trails = false;     // it is put along a later dim of something larger, as a bias is
  bool is_table = false;   // a gather takes its rows by number
  bool leads = false;      // none of these, somewhere
};

// Takes note of all uses of `x` within `depth` loops, its copies' included.
void NoteUses(const Instruction* x, int64_t depth, const Users& users, Use& use) {
  use.is_weight = use.is_weight || IsContractedAsWeight(x, users);
  for (const Instruction* user : users.of(x)) {
    if (user->opcode() == Opcode::kConvert || user->opcode() == Opcode::kCopy) {
      NoteUses(user, depth, users, use);
    } else if (user->opcode() == Opcode::kDynamicSlice && user->operand(0) == x) {
      if (user->attributes<DynamicSliceAttributes>().slice_sizes[0] != 1) continue;
      use.depth = std::max(use.depth, depth);
      for (const Instruction* row : users.of(user)) {
        const bool drops_first =
            row->opcode() == Opcode::kReshape &&
            std::ranges::equal(row->shape()->dims(), x->shape()->dims().subspan(1));
        use.is_weight = use.is_weight || (drops_first && IsContractedAsWeight(row, users));
      }
    } else if (IsPutAlong(user, x)) {
      use.trails = true;
    } else if (user->opcode() == Opcode::kGather && TakesRowsOf(user, x)) {
      use.is_table = true;
    } else if (user->opcode() == Opcode::kTuple) {
      for (const Instruction* loop : users.of(user)) {
        if (loop->opcode() != Opcode::kWhile) continue;
        const Computation* body = loop->called(1);
        for (const Instruction* element : users.of(body->parameter(0))) {
          if (element->opcode() != Opcode::kGetTupleElement) continue;
          const int64_t index = element->attributes<GetTupleElementAttributes>().index;
          const bool stays =
              body->root()->opcode() == Opcode::kTuple && body->root()->operand(index) == element;
          if (user->operand(index) == x && stays) NoteUses(element, depth + 1, users, use);
        }
      }
    } else {
      use.leads = true;
    }
  }
}

bool HoldsIntegers(const Instruction* x) { return IsInteger(x->shape()->dtype()); }

// A key of JAX's random numbers.
bool IsKey(const Instruction* x) {
  const Shape* shape = x->shape();
  return shape->dtype() == DType::kU32 && shape->rank() == 1 &&
         (shape->dim(0) == 2 || shape->dim(0) == 4);
}

// An array that may hold examples, and the dim that counts them then.
struct Candidate {
  const Instruction* parameter;
  Use use;
  int64_t dimension;
  int64_t size() const { return parameter->shape()->dim(dimension); }
};

// What the step neither updates nor uses as a weight. Of what loops take row by row those of the
// outermost stay: within a loop over parts of the batch a loop over layers takes frozen weights.
// Rows are not examples, but layers, parts of the batch, or times: the next dim is.
std::vector<Candidate> CandidatesByUse(const Module& module) {
  const Updates updates = FindUpdates(module);
  const Users users(module);
  std::vector<Candidate> candidates;
  for (const Instruction* x : module.entry()->parameters()) {
    if (!x->shape()->IsArray() || x->shape()->rank() == 0) continue;
    if (updates.parameters.count(x->attributes<ParameterAttributes>().number) != 0) continue;
    Use use;
    if (x->shape()->dim(0) != 1) NoteUses(x, 0, users, use);
    const bool is_vector = use.trails && !use.leads && !use.is_table;
    use.is_weight = use.is_weight || (is_vector && IsFloat(x->shape()->dtype()));
    candidates.push_back({x, use, std::min(use.depth, x->shape()->rank() - 1)});
  }
  // Each keeps those it holds for only if there are any.
  const auto keep = [&](const auto& holds) {
    if (std::ranges::none_of(candidates, holds)) return;
    std::erase_if(candidates, [&](const Candidate& x) { return !holds(x); });
  };
  keep([](const Candidate& x) { return x.parameter->shape()->element_count() != 1; });
  keep([](const Candidate& x) { return !IsKey(x.parameter); });
  keep([](const Candidate& x) { return !x.use.is_weight; });
  keep([](const Candidate& x) { return !x.use.is_table || x.use.leads; });
  const bool has_integers = std::ranges::any_of(
      candidates, [](const Candidate& x) { return HoldsIntegers(x.parameter); });
  int64_t depth = INT64_MAX;
  for (const Candidate& x : candidates) {
    if (!has_integers || HoldsIntegers(x.parameter)) depth = std::min(depth, x.use.depth);
  }
  keep([&](const Candidate& x) { return x.use.depth <= depth; });
  return candidates;
}

// What may hold examples, where it has the most frequent size: of integers, if there are any, as
// weights that a step leaves frozen are none. Where some of that size are cut along it, by the
// devices that share the batch, those that are said to be whole are such weights.
std::map<int64_t, int64_t> ByUse(const Module& module) {
  std::vector<Candidate> candidates = CandidatesByUse(module);
  const bool has_integers = std::ranges::any_of(
      candidates, [](const Candidate& x) { return HoldsIntegers(x.parameter); });
  std::map<int64_t, int64_t> votes;
  for (const Candidate& x : candidates) {
    if (!has_integers || HoldsIntegers(x.parameter)) ++votes[x.size()];
  }
  int64_t size = 0, most = 0;
  for (auto [dim, count] : votes) {
    if (count >= most) size = dim, most = count;
  }
  std::erase_if(candidates, [&](const Candidate& x) { return x.size() != size; });
  const auto is_cut = [](const Candidate& x) {
    const Sharding* s = x.parameter->sharding();
    return s != nullptr && s->IsTiled() && s->TileCount(x.dimension) > 1;
  };
  const bool some_cut = std::ranges::any_of(candidates, [&](const Candidate& x) {
    return is_cut(x) && (!has_integers || HoldsIntegers(x.parameter));
  });
  std::map<int64_t, int64_t> dims;
  for (const Candidate& x : candidates) {
    if (some_cut && x.parameter->sharding() != nullptr && !is_cut(x)) continue;
    dims[x.parameter->attributes<ParameterAttributes>().number] = x.dimension;
  }
  return dims;
}

}  // namespace

std::string GuessText(const Module& module, const BatchDims& batch) {
  constexpr size_t kMaxNamed = 3;
  std::map<int64_t, std::vector<std::string_view>> names;  // by dim
  size_t named = 0;
  for (auto [number, dim] : batch.dimension) {
    if (++named <= kMaxNamed) names[dim].push_back(module.entry()->parameter(number)->name());
  }
  std::vector<std::string> dims;
  for (const auto& [dim, of] : names) {
    dims.push_back(fmt::format("dim {} of {}", dim, fmt::join(of, ", ")));
  }
  if (named > kMaxNamed) dims.back() += fmt::format(" and {} more", named - kMaxNamed);
  return fmt::format("{} {} taken to count examples; --batch 'REGEX=DIM' says otherwise",
                     fmt::join(dims, ", "), dims.size() == 1 ? "is" : "are");
}

std::unordered_set<int64_t> BatchDims::parameters() const {
  std::unordered_set<int64_t> numbers;
  for (auto [number, dim] : dimension) numbers.insert(number);
  return numbers;
}

Expected<BatchDims> FindBatch(const Module& module, const PipelineOptions& options) {
  BatchDims batch;
  if (options.batch.empty()) {
    batch.dimension = ByUse(module);
    batch.is_guessed = true;
  } else {
    Expected<std::map<int64_t, int64_t>> dims = ByRules(module, options);
    if (!dims) return Fail(std::move(dims.error()));
    batch.dimension = std::move(*dims);
  }
  if (batch.dimension.empty()) {
    return Fail(MakeError("E-PIPELINE-001", "no parameter holds examples",
                          "name the dim that counts them: --batch 'param:3=0'"));
  }
  for (auto [number, dim] : batch.dimension) {
    const Instruction* x = module.entry()->parameter(number);
    int64_t size = x->shape()->dim(dim);
    if (batch.size == 0) batch.size = size;
    if (size % options.microbatches == 0 && size > 0) continue;
    return Fail(module.ErrorAt(x, "E-PIPELINE-001",
                               fmt::format("{} micro-batches do not divide the {} examples of '{}'",
                                           options.microbatches, size, x->name())));
  }
  return batch;
}

}  // namespace gshard::pipeline
