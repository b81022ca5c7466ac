#include "core/pipeline/emit/stage_functions.h"

#include <algorithm>

#include "core/analysis/combiner.h"
#include "core/pipeline/emit/manual_borders.h"
#include "core/pipeline/emit/pass_inputs.h"
#include "core/pipeline/emit/pass_values.h"
#include "core/pipeline/plan/clone.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/attribute_names.h"
#include "ir/equality.h"
#include "ir/metadata.h"

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
    case Pass::kRecompute:
      return "recompute";
    case Pass::kNone:
      break;
  }
  return "idle";
}

// Without what `gshard-opt grad` notes: the name of an instruction of IN, so that alike stages
// differ.
std::string_view WithoutAdjointNote(Arena& arena, std::string_view attributes) {
  if (attributes.find(kAdjointOfAttribute) == std::string_view::npos) return attributes;
  std::string_view kept;
  for (const auto& [key, value] : ParseFrontendAttributes(attributes)) {
    if (key == kAdjointOfAttribute) continue;
    kept = WithFrontendAttribute(arena, kept, key, FrontendAttribute(attributes, key));
  }
  return kept;
}

class FunctionBuilder {
 public:
  FunctionBuilder(const StageFunctionInputs& in, Pass pass, int64_t v)
      : in_(in),
        state_(*in.state),
        pass_(pass),
        v_(v),
        values_(*in.stages, pass, v),
        borders_(in.layers->regions(), *in.shardings, ManualBorders::Where::kStage),
        computation_(in.module->AddComputation(pass == Pass::kNone
                                                   ? std::string("idle")
                                                   : fmt::format("stage{}_{}", v, PassName(pass)))),
        builder_(*in.module, computation_) {
    parameter_ = builder_.Parameter(0, in.operand_shape, "state");
    if (in.results_of) FindResults(*in.results_of);
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
    return builder_.Reshape(builder_.DynamicSliceDim(buffer, 0, row, 1),
                            buffer->shape()->dims().subspan(1));
  }
  Instruction* SetRow(Instruction* buffer, Instruction* value, Instruction* row) {
    std::vector<int64_t> sizes(buffer->shape()->dims().begin(), buffer->shape()->dims().end());
    if (sizes[0] == 1) return builder_.Reshape(value, sizes);
    return UpdateRow(buffer, value, row);
  }
  // In place also where the buffer has one row only: other passes hand it on as it is, so that a
  // new array in its place would lie beside it.
  Instruction* UpdateRow(Instruction* buffer, Instruction* value, Instruction* row) {
    std::vector<int64_t> sizes(buffer->shape()->dims().begin(), buffer->shape()->dims().end());
    if (sizes[0] == 1) row = Zero();
    sizes[0] = 1;
    return builder_.DynamicUpdateDim(buffer, builder_.Reshape(value, sizes), 0, row);
  }
  Instruction* Zero() { return builder_.ScalarInt(DType::kS32, 0); }

  // --- inputs

  // What the pass is given; null: x is computed here.
  Instruction* Given(Instruction* x) {
    const PassInput input = FindPassInput(*in_.stages, state_, pass_, v_, x);
    switch (input.kind) {
      case PassInput::Kind::kNone:
        return nullptr;
      case PassInput::Kind::kExamples:
        return Examples(x, static_cast<size_t>(input.element));
      case PassInput::Kind::kMicrobatch:
        return builder_.Convert(Number(PassNumber::kMicrobatch), DType::kU32);
      case PassInput::Kind::kWhole:
        return borders_.Take(builder_, x, Element(input.element));
      case PassInput::Kind::kPiece:
        return borders_.Take(builder_, x, FromPack(Element(input.element), *input.place));
      case PassInput::Kind::kRow: {
        Instruction* buffer = Element(input.element);
        return borders_.Take(builder_, x, Row(buffer, Number(input.row)));
      }
    }
    return nullptr;
  }

  // --- packs, [repeats, length]

  std::vector<Instruction*> StartsOf(int64_t offset) {
    return {Number(PassNumber::kChunk), builder_.ScalarInt(DType::kS32, offset)};
  }
  template <typename Place>
  Instruction* FromPack(Instruction* pack, const Place& place) {
    if (pack->shape()->dim(0) > 1) return UpdatedPiece(pack, place);
    const int64_t end = place.offset + place.shape->element_count();
    return builder_.Reshape(builder_.SliceDim(pack, 1, place.offset, end), place.shape->dims());
  }
  // The piece at the address where IntoPack writes it: compilers see that both are the same place,
  // and update the pack without a copy.
  template <typename Place>
  Instruction* UpdatedPiece(Instruction* pack, const Place& place) {
    const int64_t sizes[] = {1, place.shape->element_count()};
    return builder_.Reshape(builder_.DynamicSlice(pack, StartsOf(place.offset), sizes),
                            place.shape->dims());
  }
  template <typename Place>
  Instruction* IntoPack(Instruction* pack, Instruction* value, const Place& place) {
    const int64_t sizes[] = {1, place.shape->element_count()};
    return builder_.DynamicUpdateSlice(pack, builder_.Reshape(value, sizes),
                                       StartsOf(place.offset));
  }

  // The micro-batch's rows: of each shard of the mesh its own.
  Instruction* Examples(Instruction* x, size_t k) {
    Instruction* own =
        MicrobatchRows(builder_, Element(state_.data_in.begin + static_cast<int64_t>(k)),
                       in_.data[k], state_.microbatches, Number(PassNumber::kMicrobatch));
    Annotate(own, x);
    return own;
  }

  // --- which results there are

  // Slots of results that the stage `StageFunctionInputs::results_of` fills.
  struct ResultSlots {
    std::unordered_set<size_t> forward, backward, saved, delayed, terms, outputs;
  };
  void FindResults(int64_t stage) {
    ResultSlots& slots = results_.emplace();
    const auto add = [](const auto& table, int64_t list, std::unordered_set<size_t>& to) {
      if (list < 0 || list >= static_cast<int64_t>(table.lists())) return;
      for (auto& [slot, value] : table.values(static_cast<size_t>(list))) to.insert(slot);
    };
    add(state_.forward, stage, slots.forward);
    add(state_.backward, stage - 1, slots.backward);
    add(state_.saved, stage, slots.saved);
    add(state_.delayed, stage, slots.delayed);
    add(state_.terms, stage, slots.terms);
    add(state_.outputs, stage, slots.outputs);
  }
  bool Has(std::unordered_set<size_t> ResultSlots::*of, size_t slot) const {
    return !results_ || ((*results_).*of).contains(slot);
  }
  bool HasTerm(const StageTerm& term) const {
    return !results_ ||
           Has(&ResultSlots::terms, state_.terms.SlotOf(static_cast<size_t>(v_), term.accumulated));
  }
  bool HasOutput(const Instruction* x) const {
    return Has(&ResultSlots::outputs, state_.outputs.SlotOf(static_cast<size_t>(v_), x));
  }

  // --- what is kept for a later pass

  // The buffers in which the pass keeps values, and the row of the micro-batch in them.
  struct Keeping {
    const ValueSlots* slots;
    Group group;
    PassNumber row;
  };
  std::unordered_set<size_t> ResultSlots::*SlotsOf(const Keeping& keeping) const {
    return keeping.slots == &state_.saved ? &ResultSlots::saved : &ResultSlots::delayed;
  }
  std::optional<Keeping> KeepingOfPass() const {
    const Pass saving = in_.stages->recomputes_ahead() ? Pass::kRecompute : Pass::kForward;
    if (pass_ == saving) return Keeping{&state_.saved, state_.saved_in, PassNumber::kSaved};
    if (pass_ != Pass::kBackward) return std::nullopt;
    return Keeping{&state_.delayed, state_.delayed_in, PassNumber::kDelayed};
  }

  // Kept values that go straight into their rows, where the rest of the pass reads them, so that
  // they are written once: what the kernel of a product writes. What the pass hands on is written
  // for that, too.
  void FindWrittenInPlace() {
    const std::optional<Keeping> keeping = KeepingOfPass();
    if (!keeping || !in_.layers->regions().empty() || !in_.shardings->is_fully_manual()) return;
    std::unordered_set<const Instruction*> results;
    for (const auto& [slots, boundary, of] :
         {std::tuple{&state_.forward, v_, &ResultSlots::forward},
          std::tuple{&state_.backward, v_ - 1, &ResultSlots::backward}}) {
      if (boundary < 0 || boundary + 1 >= in_.stages->count()) continue;
      for (const auto& [slot, x] : slots->values(static_cast<size_t>(boundary))) {
        if (Has(of, slot)) results.insert(x);
      }
    }
    const StagePass& own = in_.stages->pass(pass_, v_);
    results.insert(own.outputs.begin(), own.outputs.end());
    for (const StageTerm& term : own.terms) results.insert(term.values.begin(), term.values.end());
    for (const auto& [slot, x] : keeping->slots->values(static_cast<size_t>(v_))) {
      const bool is_apart = results.contains(x) || !Has(SlotsOf(*keeping), slot);
      if (in_.layers->IsWrittenByProduct(x) && !is_apart) in_place_.emplace(x, slot);
    }
  }

  // `made` of `value` as the rest of the pass reads it.
  Instruction* InPlace(const PassValue& value, Instruction* made) {
    const auto found = in_place_.find(value.first);
    if (found == in_place_.end() || value != values_.ResultOf(value.first)) return made;
    const Keeping keeping = *KeepingOfPass();
    Instruction* buffer = Element(keeping.group.begin + static_cast<int64_t>(found->second));
    Instruction*& written = written_[found->second];
    written = UpdateRow(buffer, made, Number(keeping.row));
    return Row(written, Number(keeping.row));
  }

  // --- what is computed here

  // Depth first from the targets: alike stages come out alike, wherever their text stands.
  void CloneAll() {
    const auto is_known = [&](const PassValue& value) {
      if (local_.contains(value)) return true;
      Instruction* given = value.second < 0 ? Given(value.first) : nullptr;
      if (given != nullptr) local_[value] = given;
      return given != nullptr;
    };
    FindWrittenInPlace();
    for (Instruction* target : Targets()) {
      values_.ForEachBehind(target, is_known,
                            [&](const PassValue& value, const std::vector<PassValue>& operands) {
                              local_[value] = InPlace(value, Make(value, operands));
                            });
    }
  }

  Instruction* Make(const PassValue& value, const std::vector<PassValue>& operands) {
    std::vector<Instruction*> values;
    for (const PassValue& operand : operands) values.push_back(local_.at(operand));
    if (values_.IsLayerInput(value)) {
      // Not before the cotangent is there, and not the same as what was computed before.
      Instruction* const both[] = {builder_.Tuple(values)};
      return builder_.GetTupleElement(
          builder_.Add(Opcode::kOptBarrier, both, NoAttributes{}, both[0]->shape()), 0);
    }
    Instruction* x = value.first;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = borders_.OperandOf(builder_, x, operands[i].first, values[i]);
    }
    return x->opcode() == Opcode::kAllReduce ? RepeatedSum(x, values[0]) : Copy(x, values);
  }

  Instruction* Local(Instruction* x) const { return local_.at(values_.ResultOf(x)); }
  // As it is handed on or kept.
  Instruction* HandedOn(const Instruction* x) {
    return borders_.HandOn(builder_, x, Local(const_cast<Instruction*>(x)));
  }

  Instruction* Copy(Instruction* x, const std::vector<Instruction*>& operands) {
    Instruction* copy = CloneInto(*in_.module, computation_, x, operands, /*take_name=*/false);
    copy->set_sharding(nullptr);
    copy->set_frontend_attributes(
        WithoutAdjointNote(in_.module->arena(), copy->frontend_attributes()));
    Annotate(copy, x);
    NoteLayer(copy, x);
    if (IsComputedAgain(x)) {
      // The name tells, as that of XLA's rematerialisation does.
      copy->set_name(in_.module->UniqueName(fmt::format("{}.remat", x->name())));
    }
    return copy;
  }

  void NoteLayer(const Instruction* copy, const Instruction* x) const {
    if (in_.notes == nullptr || in_.stages->StageOf(x) != v_) return;
    const int64_t first = in_.stages->first_layers()[static_cast<size_t>(v_)];
    const std::string_view how = in_.layers->IsBackward(x) ? "backward"
                                 : IsComputedAgain(x)      ? "again"
                                                           : "forward";
    (*in_.notes)[copy] = fmt::format("{} {}", in_.layers->LayerOf(x) - first, how);
  }

  // Forward values in a backward pass, but for the last stage's, whose forward pass that is.
  bool IsComputedAgain(const Instruction* x) const {
    if (pass_ == Pass::kNone || pass_ == Pass::kForward) return false;
    if (!in_.layers->IsPlaced(x) || in_.layers->IsBackward(x)) return false;
    const bool is_last = v_ + 1 == in_.stages->count();
    return !is_last || in_.stages->saves_values() || pass_ == Pass::kWeights;
  }

  // The sum over M copies of the micro-batch.
  Instruction* RepeatedSum(Instruction* x, Instruction* own) {
    if (state_.microbatches == 1 || !Phases::IsSum(x)) return own;
    Instruction* times = builder_.BroadcastScalar(
        builder_.Scalar(own->shape()->dtype(), static_cast<double>(state_.microbatches)),
        own->shape()->dims());
    return builder_.Multiply(own, times);
  }

  void Annotate(Instruction* made, const Instruction* x) {
    if (in_.shardings->is_fully_manual()) return;
    if (const Sharding* s = in_.annotation(x)) {
      made->set_sharding(borders_.Here(made->shape(), s));
    }
  }

  // --- results

  // What must be computed: the targets that are among the results.
  std::vector<Instruction*> Targets() const {
    std::vector<Instruction*> targets = in_.stages->TargetsOf(pass_, v_);
    if (!results_) return targets;
    std::unordered_set<const Instruction*> kept;
    const auto keep = [&](const ValueSlots& table, int64_t list,
                          std::unordered_set<size_t> ResultSlots::*of) {
      if (list < 0 || list >= static_cast<int64_t>(table.lists())) return;
      for (auto& [slot, x] : table.values(static_cast<size_t>(list))) {
        if (Has(of, slot)) kept.insert(x);
      }
    };
    keep(state_.forward, v_, &ResultSlots::forward);
    keep(state_.backward, v_ - 1, &ResultSlots::backward);
    keep(state_.saved, v_, &ResultSlots::saved);
    keep(state_.delayed, v_, &ResultSlots::delayed);
    for (const StageTerm& term : in_.stages->pass(pass_, v_).terms) {
      if (HasTerm(term)) kept.insert(term.values.begin(), term.values.end());
    }
    for (const Instruction* x : in_.stages->pass(pass_, v_).outputs) {
      if (HasOutput(x)) kept.insert(x);
    }
    std::erase_if(targets, [&](const Instruction* x) { return !kept.contains(x); });
    return targets;
  }

  void HandOn(std::vector<Instruction*>& results) {
    auto bundle = [&](const ValueSlots& slots, bool has, int64_t boundary,
                      std::unordered_set<size_t> ResultSlots::*of) {
      std::vector<Instruction*> out(slots.size(), nullptr);
      if (has) {
        for (auto& [slot, x] : slots.values(static_cast<size_t>(boundary))) {
          if (Has(of, slot)) out[slot] = HandedOn(x);
        }
      }
      for (size_t i = 0; i < out.size(); ++i) {
        results.push_back(out[i] != nullptr ? out[i] : builder_.Zero(slots.shape(i)));
      }
    };
    bundle(state_.forward, pass_ == Pass::kForward && v_ + 1 < in_.stages->count(), v_,
           &ResultSlots::forward);
    bundle(state_.backward, pass_ == Pass::kBackward && v_ > 0, v_ - 1, &ResultSlots::backward);
  }

  void Save(std::vector<Instruction*>& results) {
    const std::optional<Keeping> keeping = KeepingOfPass();
    for (const Group& group : {state_.saved_in, state_.delayed_in}) {
      std::vector<Instruction*> out;
      for (int64_t i = 0; i < group.size; ++i) out.push_back(Element(group.begin + i));
      if (keeping && keeping->group.begin == group.begin && group.size > 0) {
        for (auto& [slot, x] : keeping->slots->values(static_cast<size_t>(v_))) {
          if (!Has(SlotsOf(*keeping), slot)) continue;
          const auto written = written_.find(slot);
          out[slot] = written != written_.end()
                          ? written->second
                          : UpdateRow(out[slot], HandedOn(x), Number(keeping->row));
        }
      }
      results.insert(results.end(), out.begin(), out.end());
    }
  }

  void Accumulate(std::vector<Instruction*>& results) {
    std::vector<Instruction*> out;
    for (int64_t i = 0; i < state_.terms_in.size; ++i) {
      out.push_back(Element(state_.terms_in.begin + i));
    }
    if (pass_ != Pass::kNone) {
      for (const StageTerm& term : in_.stages->pass(pass_, v_).terms) {
        if (!HasTerm(term)) continue;
        Instruction* sum = nullptr;
        Opcode combiner = in_.phases->accumulated()[term.accumulated].combiner;
        for (Instruction* x : term.values) {
          sum = sum == nullptr ? Local(x) : builder_.Binary(combiner, sum, Local(x));
        }
        sum = borders_.HandOn(builder_, term.values[0], sum);
        sum = OfWork(sum, IdentityArray(builder_, sum->shape()->bare(), combiner));
        const size_t v = static_cast<size_t>(v_);
        if (const auto* place = state_.term_packs.Find(v, term.accumulated)) {
          Instruction*& pack = out[state_.terms.size() + place->pack];
          pack = IntoPack(pack, builder_.Binary(combiner, UpdatedPiece(pack, *place), sum), *place);
          continue;
        }
        Instruction*& buffer = out[state_.terms.SlotOf(v, term.accumulated)];
        Instruction* before = Row(buffer, Number(PassNumber::kChunk));
        buffer = SetRow(buffer, builder_.Binary(combiner, before, sum), Number(PassNumber::kChunk));
      }
    }
    results.insert(results.end(), out.begin(), out.end());
  }

  // `value`, unless the pass computes on padding.
  Instruction* OfWork(Instruction* value, Instruction* otherwise) {
    if (!state_.has_padding) return value;
    Instruction* works =
        builder_.Compare(ComparisonDirection::kNe, Number(PassNumber::kIsValid), Zero());
    return builder_.Select(builder_.BroadcastScalar(works, value->shape()->dims()), value,
                           otherwise);
  }

  // Results with examples: [1, M, tile], a tile a micro-batch.
  void WriteOutputs(std::vector<Instruction*>& results) {
    std::vector<Instruction*> out;
    for (int64_t i = 0; i < state_.outputs_in.size; ++i) {
      out.push_back(Element(state_.outputs_in.begin + i));
    }
    if (pass_ != Pass::kNone) {
      for (Instruction* x : in_.stages->pass(pass_, v_).outputs) {
        if (!HasOutput(x)) continue;
        Instruction*& buffer = out[state_.outputs.SlotOf(static_cast<size_t>(v_), x)];
        std::vector<int64_t> sizes(buffer->shape()->dims().begin(), buffer->shape()->dims().end());
        sizes[1] = 1;
        std::vector<Instruction*> starts(sizes.size(), Zero());
        starts[1] = Number(state_.has_padding ? PassNumber::kOutputRow : PassNumber::kMicrobatch);
        Instruction* tile = builder_.Reshape(Local(x), sizes);
        if (state_.has_padding) {
          tile = OfWork(tile, builder_.DynamicSlice(buffer, starts, sizes));
        }
        buffer = builder_.DynamicUpdateSlice(buffer, tile, starts);
      }
    }
    results.insert(results.end(), out.begin(), out.end());
  }

  const StageFunctionInputs& in_;
  const RegionState& state_;
  Pass pass_;
  int64_t v_;
  PassValues values_;
  ManualBorders borders_;
  Computation* computation_;
  Builder builder_;
  Instruction* parameter_;
  std::unordered_map<int64_t, Instruction*> elements_;
  std::map<PassValue, Instruction*> local_;
  std::unordered_map<const Instruction*, size_t> in_place_;  // slots of FindWrittenInPlace
  std::unordered_map<size_t, Instruction*> written_;         // buffers by slot
  std::optional<ResultSlots> results_;
};

}  // namespace

Computation* MakeStageFunction(const StageFunctionInputs& inputs, Pass pass, int64_t v) {
  return FunctionBuilder(inputs, pass, v).Run();
}

void NotePass(Module& module, Computation* function, Pass pass, std::span<const int64_t> stages,
              const LayerNotes& notes) {
  auto note = [&](Instruction* x, std::string_view key, std::string_view value) {
    x->set_frontend_attributes(
        WithFrontendAttribute(module.arena(), x->frontend_attributes(), key, value));
  };
  std::string text = pass == Pass::kNone ? "idle" : fmt::format("{} ", PassName(pass));
  if (pass != Pass::kNone) text += fmt::format("{}", fmt::join(stages, ","));
  note(function->root(), kStageAttribute, text);
  for (Instruction* x : function->instructions()) {
    if (auto it = notes.find(x); it != notes.end()) note(x, kLayerAttribute, it->second);
  }
}

void StageFunctions::NotePasses() {
  for (size_t i = 0; i < branches_.size(); ++i) {
    Pass of = Pass::kNone;
    std::vector<int64_t> stages;
    for (const auto& [key, index] : index_) {
      if (index != static_cast<int64_t>(i)) continue;
      of = key.first;
      stages.push_back(key.second);
    }
    NotePass(*in_.module, branches_[i], of, stages, notes_);
  }
}

int64_t StageFunctions::Branch(Pass pass, int64_t v) {
  if (pass == Pass::kNone) v = 0;
  auto [known, fresh] = index_.try_emplace({pass, v}, -1);
  if (!fresh) return known->second;
  const std::vector<int64_t> signature = signatures_.Of(pass, v);
  if (!signature.empty()) {
    auto [same, is_first] = of_signature_.try_emplace(signature, -1);
    if (!is_first) return known->second = same->second;
  }
  Computation* made = MakeStageFunction(in_, pass, v);
  auto equal = std::find_if(branches_.begin(), branches_.end(), [&](const Computation* other) {
    return SameComputation(*made, *other);
  });
  int64_t index = equal - branches_.begin();
  if (equal == branches_.end()) branches_.push_back(made);
  known->second = index;
  if (!signature.empty()) of_signature_[signature] = index;
  return index;
}

}  // namespace gshard::pipeline
