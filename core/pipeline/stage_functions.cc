#include "core/pipeline/stage_functions.h"

#include <algorithm>

#include "core/pipeline/clone.h"
#include "fmt/format.h"
#include "ir/equality.h"

namespace gshard::pipeline {
namespace {

std::string_view PassName(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kBackward:
      return "backward";
    case Pass::kWeights:
      return "weight_gradients";
    case Pass::kNone:
      break;
  }
  return "idle";
}

class FunctionBuilder {
 public:
  FunctionBuilder(const StageFunctionInputs& in, Pass pass, int64_t v)
      : in_(in),
        state_(*in.state),
        pass_(pass),
        v_(v),
        computation_(in.module->AddComputation(pass == Pass::kNone
                                                   ? std::string("idle")
                                                   : fmt::format("stage{}_{}", v, PassName(pass)))),
        builder_(*in.module, computation_) {
    parameter_ = builder_.Parameter(0, in.operand_shape, "state");
  }

  Computation* Run() {
    if (pass_ != Pass::kNone) CloneAll();
    std::vector<Instruction*> results;
    HandOn(results);
    Save(results);
    Accumulate(results);
    WriteOutputs(results);
    computation_->set_root(builder_.Tuple(results));
    return computation_;
  }

 private:
  Instruction* Element(int64_t i) {
    Instruction*& x = elements_[i];
    if (x == nullptr) x = builder_.GetTupleElement(parameter_, i);
    return x;
  }
  Instruction* Number(PassNumber number) { return Element(static_cast<int64_t>(number)); }

  // Row `row` of a buffer, without its leading dim.
  Instruction* Row(Instruction* buffer, Instruction* row) {
    const Shape* shape = buffer->shape();
    std::vector<int64_t> sizes(shape->dims().begin(), shape->dims().end());
    sizes[0] = 1;
    std::vector<Instruction*> starts(sizes.size(), Zero());
    starts[0] = row;
    Instruction* slice = shape->dim(0) == 1 ? buffer : builder_.DynamicSlice(buffer, starts, sizes);
    return builder_.Reshape(slice, std::span<const int64_t>(sizes).subspan(1));
  }
  Instruction* SetRow(Instruction* buffer, Instruction* value, Instruction* row) {
    std::vector<int64_t> sizes(buffer->shape()->dims().begin(), buffer->shape()->dims().end());
    sizes[0] = 1;
    std::vector<Instruction*> starts(sizes.size(), Zero());
    starts[0] = row;
    return builder_.DynamicUpdateSlice(buffer, builder_.Reshape(value, sizes), starts);
  }
  Instruction* Zero() { return builder_.ScalarInt(DType::kS32, 0); }

  // --- inputs

  // What the pass is given; null: x is computed here.
  Instruction* Given(Instruction* x) {
    const StageGraph& stages = *in_.stages;
    size_t v = static_cast<size_t>(v_);
    if (x->opcode() == Opcode::kParameter && in_.phases->UsesExamples(x)) return Examples(x);
    if (x->opcode() == Opcode::kPartitionId) {
      return builder_.Convert(Number(PassNumber::kMicrobatch), DType::kU32);
    }
    if (in_.layers->WeightOf(x) == x) return Weight(x);
    if (!stages.IsInput(pass_, v_, x)) return nullptr;
    if (pass_ == Pass::kWeights) {
      return Row(
          Element(state_.delayed_in.begin + static_cast<int64_t>(state_.delayed.SlotOf(v, x))),
          Number(PassNumber::kDelayed));
    }
    if (v_ > 0 && state_.forward.Has(v - 1, x)) {
      return Row(
          Element(state_.forward_in.begin + static_cast<int64_t>(state_.forward.SlotOf(v - 1, x))),
          Number(PassNumber::kForwardInput));
    }
    if (state_.saved.Has(v, x)) {
      return Row(Element(state_.saved_in.begin + static_cast<int64_t>(state_.saved.SlotOf(v, x))),
                 Number(PassNumber::kSaved));
    }
    return Row(
        Element(state_.backward_in.begin + static_cast<int64_t>(state_.backward.SlotOf(v, x))),
        Number(PassNumber::kBackwardInput));
  }

  Instruction* Weight(Instruction* x) {
    auto shared = std::find(state_.shared.begin(), state_.shared.end(), x);
    if (shared != state_.shared.end()) {
      return Element(state_.shared_in.begin + (shared - state_.shared.begin()));
    }
    size_t slot = state_.weights.SlotOf(static_cast<size_t>(v_), x);
    return Row(Element(state_.weights_in.begin + static_cast<int64_t>(slot)),
               Number(PassNumber::kChunk));
  }

  // The micro-batch's rows: of each shard of the mesh its own.
  Instruction* Examples(Instruction* x) {
    size_t k = static_cast<size_t>(std::find(state_.data.begin(), state_.data.end(), x) -
                                   state_.data.begin());
    Instruction* own =
        MicrobatchRows(builder_, Element(state_.data_in.begin + static_cast<int64_t>(k)),
                       in_.data[k], state_.microbatches, Number(PassNumber::kMicrobatch));
    Annotate(own, x);
    return own;
  }

  // --- what is computed here

  // Depth first from the targets: alike stages come out alike, wherever their text stands.
  void CloneAll() {
    for (Instruction* target : in_.stages->TargetsOf(pass_, v_)) {
      std::vector<std::pair<Instruction*, int64_t>> stack = {{target, 0}};
      while (!stack.empty()) {
        auto [x, next] = stack.back();
        if (local_.count(x) != 0) {
          stack.pop_back();
          continue;
        }
        if (next == 0) {
          if (Instruction* given = Given(x)) {
            local_[x] = given;
            continue;
          }
        }
        if (next < x->operand_count()) {
          ++stack.back().second;
          stack.emplace_back(x->operand(next), 0);
          continue;
        }
        local_[x] = x->opcode() == Opcode::kAllReduce ? RepeatedSum(x) : Copy(x);
      }
    }
  }

  Instruction* Copy(Instruction* x) {
    std::vector<Instruction*> operands;
    for (Instruction* operand : x->operands()) operands.push_back(local_.at(operand));
    Instruction* copy = CloneInto(*in_.module, computation_, x, operands, /*take_name=*/false);
    copy->set_sharding(nullptr);
    Annotate(copy, x);
    return copy;
  }

  // The sum over M copies of the micro-batch.
  Instruction* RepeatedSum(Instruction* x) {
    Instruction* own = local_.at(x->operand(0));
    if (state_.microbatches == 1 || !Phases::IsSum(x)) return own;
    Instruction* times = builder_.BroadcastScalar(
        builder_.Scalar(own->shape()->dtype(), static_cast<double>(state_.microbatches)),
        own->shape()->dims());
    return builder_.Multiply(own, times);
  }

  void Annotate(Instruction* made, const Instruction* x) {
    if (in_.shardings->is_fully_manual() || !made->shape()->IsArray()) return;
    if (const Sharding* s = in_.annotation(x)) {
      made->set_sharding(in_.shardings->Inside(made->shape()->rank(), s));
    }
  }

  // --- results

  void HandOn(std::vector<Instruction*>& results) {
    auto bundle = [&](const ValueSlots& slots, bool has, int64_t boundary) {
      std::vector<Instruction*> out(slots.size(), nullptr);
      if (has) {
        for (auto& [slot, x] : slots.values(static_cast<size_t>(boundary))) {
          out[slot] = local_.at(x);
        }
      }
      for (size_t i = 0; i < out.size(); ++i) {
        results.push_back(out[i] != nullptr ? out[i] : builder_.Zero(slots.shape(i)));
      }
    };
    bundle(state_.forward, pass_ == Pass::kForward && v_ + 1 < in_.stages->count(), v_);
    bundle(state_.backward, pass_ == Pass::kBackward && v_ > 0, v_ - 1);
  }

  void Save(std::vector<Instruction*>& results) {
    auto save = [&](const ValueSlots& slots, const Group& group, bool has, PassNumber row) {
      std::vector<Instruction*> out;
      for (int64_t i = 0; i < group.size; ++i) out.push_back(Element(group.begin + i));
      if (has) {
        for (auto& [slot, x] : slots.values(static_cast<size_t>(v_))) {
          out[slot] = SetRow(out[slot], local_.at(x), Number(row));
        }
      }
      results.insert(results.end(), out.begin(), out.end());
    };
    save(state_.saved, state_.saved_in, pass_ == Pass::kForward, PassNumber::kSaved);
    save(state_.delayed, state_.delayed_in, pass_ == Pass::kBackward, PassNumber::kDelayed);
  }

  void Accumulate(std::vector<Instruction*>& results) {
    std::vector<Instruction*> out;
    for (int64_t i = 0; i < state_.terms_in.size; ++i) {
      out.push_back(Element(state_.terms_in.begin + i));
    }
    if (pass_ != Pass::kNone) {
      for (const StageTerm& term : in_.stages->pass(pass_, v_).terms) {
        Instruction* sum = nullptr;
        Opcode combiner = in_.phases->accumulated()[term.accumulated].combiner;
        for (Instruction* x : term.values) {
          sum = sum == nullptr ? local_.at(x) : builder_.Binary(combiner, sum, local_.at(x));
        }
        Instruction*& buffer = out[state_.terms.SlotOf(static_cast<size_t>(v_), term.accumulated)];
        Instruction* before = Row(buffer, Number(PassNumber::kChunk));
        buffer = SetRow(buffer, builder_.Binary(combiner, before, sum), Number(PassNumber::kChunk));
      }
    }
    results.insert(results.end(), out.begin(), out.end());
  }

  // Results with examples: [1, M, tile], a tile a micro-batch.
  void WriteOutputs(std::vector<Instruction*>& results) {
    std::vector<Instruction*> out;
    for (int64_t i = 0; i < state_.outputs_in.size; ++i) {
      out.push_back(Element(state_.outputs_in.begin + i));
    }
    if (pass_ != Pass::kNone) {
      for (const Instruction* x : in_.stages->pass(pass_, v_).outputs) {
        Instruction*& buffer = out[state_.outputs.SlotOf(static_cast<size_t>(v_), x)];
        std::vector<int64_t> sizes(buffer->shape()->dims().begin(), buffer->shape()->dims().end());
        sizes[1] = 1;
        std::vector<Instruction*> starts(sizes.size(), Zero());
        starts[1] = Number(PassNumber::kMicrobatch);
        buffer = builder_.DynamicUpdateSlice(buffer, builder_.Reshape(local_.at(x), sizes), starts);
      }
    }
    results.insert(results.end(), out.begin(), out.end());
  }

  const StageFunctionInputs& in_;
  const RegionState& state_;
  Pass pass_;
  int64_t v_;
  Computation* computation_;
  Builder builder_;
  Instruction* parameter_;
  std::unordered_map<int64_t, Instruction*> elements_;
  std::unordered_map<const Instruction*, Instruction*> local_;
};

}  // namespace

int64_t StageFunctions::Branch(Pass pass, int64_t v) {
  if (pass == Pass::kNone) v = 0;
  auto [known, fresh] = index_.try_emplace({pass, v}, -1);
  if (!fresh) return known->second;
  Computation* made = FunctionBuilder(in_, pass, v).Run();
  auto equal = std::find_if(branches_.begin(), branches_.end(), [&](const Computation* other) {
    return SameComputation(*made, *other);
  });
  int64_t index = equal - branches_.begin();
  if (equal == branches_.end()) branches_.push_back(made);
  known->second = index;
  return index;
}

}  // namespace gshard::pipeline
