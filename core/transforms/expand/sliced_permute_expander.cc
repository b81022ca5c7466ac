#include "core/transforms/expand/sliced_permute_expander.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_set>
#include <vector>

#include "core/analysis/device_groups.h"
#include "core/transforms/rewriter.h"

namespace gshard {
namespace {

bool IsSliced(const Instruction& x) {
  return IsCollectivePermute(x) && !x.attributes<CollectiveAttributes>().slice_sizes.empty();
}

// {{1,8},{2,8}}
std::vector<std::vector<int64_t>> ParseSizes(std::string_view text) {
  std::vector<std::vector<int64_t>> sizes;
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error == std::errc()) {
      if (sizes.empty()) sizes.emplace_back();
      sizes.back().push_back(number);
      at = static_cast<size_t>(end - text.data());
      continue;
    }
    if (text[at] == '{' && ++depth == 2) sizes.emplace_back();
    if (text[at] == '}') --depth;
    ++at;
  }
  return sizes;
}

class SlicedPermuteExpansion {
 public:
  SlicedPermuteExpansion(Module& module, Builder& builder, const Instruction& permute)
      : module_(module),
        builder_(builder),
        x_(permute),
        sizes_(ParseSizes(permute.attributes<CollectiveAttributes>().slice_sizes)) {}

  // The output with all slices in place.
  Expected<Instruction*> Run() {
    auto output = Move(x_.operand(0), x_.operand(1), x_.operand(2), x_.operand(3));
    if (output && next_ != sizes_.size()) return Misfit();
    return output;
  }

 private:
  tl::unexpected<Diagnostic> Misfit() {
    return Fail(module_.ErrorAt(&x_, "E-RUN-GROUPS",
                                fmt::format("slice_sizes={} do not fit {}, {} at {} and {}",
                                            x_.attributes<CollectiveAttributes>().slice_sizes,
                                            ToString(x_.operand(0)->shape(), false),
                                            ToString(x_.operand(1)->shape(), false),
                                            ToString(x_.operand(2)->shape(), false),
                                            ToString(x_.operand(3)->shape(), false))));
  }

  Expected<Instruction*> Move(Instruction* input, Instruction* output, Instruction* input_starts,
                              Instruction* output_starts) {
    if (!input_starts->shape()->IsTuple() || !output_starts->shape()->IsTuple()) return Misfit();
    const auto parts = static_cast<int64_t>(input_starts->shape()->elements().size());
    if (static_cast<int64_t>(output_starts->shape()->elements().size()) != parts) return Misfit();
    if (input->shape()->IsTuple()) return MoveEach(input, output, input_starts, output_starts);
    const bool several = parts > 0 && input_starts->shape()->element(0)->IsTuple();
    if (!several) return MoveSlice(input, output, input_starts, output_starts);
    for (int64_t i = 0; i < parts; ++i) {
      auto moved = MoveSlice(input, output, builder_.GetTupleElement(input_starts, i),
                             builder_.GetTupleElement(output_starts, i));
      if (!moved) return moved;
      output = *moved;
    }
    return output;
  }

  // Arrays of tuples, one after another.
  Expected<Instruction*> MoveEach(Instruction* input, Instruction* output,
                                  Instruction* input_starts, Instruction* output_starts) {
    const size_t arrays = input->shape()->elements().size();
    if (!output->shape()->IsTuple() || output->shape()->elements().size() != arrays ||
        input_starts->shape()->elements().size() != arrays) {
      return Misfit();
    }
    std::vector<Instruction*> results;
    for (int64_t i = 0; i < static_cast<int64_t>(arrays); ++i) {
      auto moved = Move(builder_.GetTupleElement(input, i), builder_.GetTupleElement(output, i),
                        builder_.GetTupleElement(input_starts, i),
                        builder_.GetTupleElement(output_starts, i));
      if (!moved) return moved;
      results.push_back(*moved);
    }
    return builder_.Tuple(results);
  }

  bool Fits(const Shape* array, const Shape* starts, std::span<const int64_t> sizes) const {
    if (!array->IsArray() || !starts->IsTuple() || starts->elements().size() != sizes.size() ||
        array->dims().size() != sizes.size()) {
      return false;
    }
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (!starts->elements()[d]->IsScalar() || !IsInteger(starts->elements()[d]->dtype()) ||
          starts->elements()[d]->dtype() != starts->elements()[0]->dtype() || sizes[d] < 0 ||
          sizes[d] > array->dim(static_cast<int64_t>(d))) {
        return false;
      }
    }
    return true;
  }

  Expected<Instruction*> MoveSlice(Instruction* input, Instruction* output, Instruction* from,
                                   Instruction* to) {
    if (next_ == sizes_.size()) return Misfit();
    const std::vector<int64_t>& sizes = sizes_[next_++];
    if (!Fits(input->shape(), from->shape(), sizes) || !Fits(output->shape(), to->shape(), sizes) ||
        input->shape()->dtype() != output->shape()->dtype()) {
      return Misfit();
    }
    Instruction* slice = builder_.DynamicSlice(input, Scalars(from), sizes);
    CollectiveAttributes attributes = x_.attributes<CollectiveAttributes>();
    attributes.slice_sizes = {};
    Instruction* moved = builder_.Add(Opcode::kCollectivePermute, {&slice, 1}, attributes,
                                      slice->shape(), {}, x_.name());
    if (next_ == 1) moved->set_name(x_.name());  // reports name what the user wrote
    const std::vector<Instruction*> starts = Scalars(to);
    Instruction* kept = builder_.DynamicSlice(output, starts, sizes);
    Instruction* is_target = builder_.BroadcastScalar(IsTarget(), sizes);
    return builder_.DynamicUpdateSlice(output, builder_.Select(is_target, moved, kept), starts);
  }

  std::vector<Instruction*> Scalars(Instruction* tuple) {
    std::vector<Instruction*> scalars;
    for (int64_t i = 0; i < static_cast<int64_t>(tuple->shape()->elements().size()); ++i) {
      scalars.push_back(builder_.GetTupleElement(tuple, i));
    }
    return scalars;
  }

  // Whether some pair ends on this device.
  Instruction* IsTarget() {
    if (is_target_ != nullptr) return is_target_;
    const auto& attributes = x_.attributes<CollectiveAttributes>();
    int64_t last = 0;
    for (const DevicePair& pair : attributes.source_target_pairs)
      last = std::max(last, pair.target);
    // One more: ids beyond are clamped to it.
    std::vector<int64_t> targets(static_cast<size_t>(last) + 2, 0);
    for (const DevicePair& pair : attributes.source_target_pairs) {
      targets[static_cast<size_t>(pair.target)] = 1;
    }
    Instruction* id =
        attributes.channel_id > 0
            ? builder_.PartitionId()
            : builder_.Add(Opcode::kReplicaId, {}, module_.context().Scalar(DType::kU32));
    constexpr int64_t kOne[] = {1};
    Instruction* found =
        builder_.DynamicSlice(builder_.IntegerTable(DType::kS32, targets), {&id, 1}, kOne);
    is_target_ = builder_.Compare(ComparisonDirection::kNe, builder_.Reshape(found, {}),
                                  builder_.ScalarInt(DType::kS32, 0));
    return is_target_;
  }

  Module& module_;
  Builder& builder_;
  const Instruction& x_;
  const std::vector<std::vector<int64_t>> sizes_;
  size_t next_ = 0;
  Instruction* is_target_ = nullptr;
};

Expected<void> ExpandIn(Module& module, Computation* computation) {
  Rewriter rewriter(module);
  rewriter.Begin(computation);
  const std::vector<Instruction*> old(computation->instructions().begin(),
                                      computation->instructions().end());
  std::unordered_set<const Instruction*> starts;
  for (Instruction* x : old) {
    const bool is_done =
        x->opcode() == Opcode::kCollectivePermuteDone && starts.count(x->operand(0)) != 0;
    rewriter.RedirectOperands(x);
    Builder& builder = rewriter.builder();
    builder.set_origin(x);
    if (is_done) {
      rewriter.Replace(x, builder.GetTupleElement(x->operand(0), 1));
      continue;
    }
    if (!IsSliced(*x)) {
      rewriter.Keep(x);
      continue;
    }
    auto output = SlicedPermuteExpansion(module, builder, *x).Run();
    if (!output) return Fail(output.error());
    if (x->opcode() == Opcode::kCollectivePermute) {
      rewriter.Replace(x, *output);
      continue;
    }
    starts.insert(x);
    std::vector<Instruction*> elements = {x->operand(0), *output};
    while (elements.size() < x->shape()->elements().size()) {
      elements.push_back(builder.Zero(x->shape()->element(static_cast<int64_t>(elements.size()))));
    }
    rewriter.Replace(x, builder.Tuple(elements));
  }
  rewriter.Finish();
  return {};
}

}  // namespace

Expected<bool> ExpandSlicedPermutes(Module& module) {
  bool changed = false;
  for (Computation* computation : module.computations()) {
    const auto all = computation->instructions();
    if (std::none_of(all.begin(), all.end(), [](const Instruction* x) { return IsSliced(*x); })) {
      continue;
    }
    if (Expected<void> done = ExpandIn(module, computation); !done) return Fail(done.error());
    changed = true;
  }
  return changed;
}

}  // namespace gshard
