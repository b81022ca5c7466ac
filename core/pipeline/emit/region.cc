#include "core/pipeline/emit/region.h"

#include <algorithm>

#include "core/analysis/combiner.h"
#include "core/pipeline/emit/stage_ring.h"
#include "core/pipeline/emit/tick_table.h"

namespace gshard::pipeline {
namespace {

class RegionBuilder {
 public:
  explicit RegionBuilder(RegionInputs inputs)
      : in_(std::move(inputs)),
        module_(*in_.functions.module),
        context_(module_.context()),
        state_(*in_.functions.state),
        schedule_(*in_.schedule),
        ring_(*in_.functions.shardings),
        functions_((SetShapes(), in_.functions)) {}

  RegionResults Run() {
    const size_t entry_begin = in_.entry->instructions().size();
    Builder outer(module_, in_.entry);
    TickTable table = MakeTickTable(
        schedule_, state_.depths, [&](Pass pass, int64_t v) { return functions_.Branch(pass, v); });
    Instruction* init = Initial(outer);
    Computation* body = Body(table, init->shape());
    Computation* condition = Condition(init->shape());
    Computation* const called[] = {condition, body};
    Instruction* const operands[] = {init};
    Instruction* loop =
        outer.Add(Opcode::kWhile, operands, NoAttributes{}, init->shape(), called, "pipeline");
    RegionResults results;
    for (int64_t i = 0; i < state_.terms_in.size; ++i) {
      results.terms.push_back(outer.GetTupleElement(loop, terms_at_ + i));
    }
    for (int64_t i = 0; i < state_.outputs_in.size; ++i) {
      results.outputs.push_back(outer.GetTupleElement(loop, outputs_at_ + i));
    }
    auto list = in_.entry->instructions().subspan(entry_begin);
    results.made.assign(list.begin(), list.end());
    functions_.NotePasses();
    ring_.MarkManual(body), ring_.MarkManual(condition);
    for (Computation* branch : functions_.branches()) ring_.MarkManual(branch);
    for (Instruction* x : results.made) ring_.MarkManual(x);
    return results;
  }

 private:
  // --- shapes of the carried buffers

  const Shape* Stacked(int64_t rows, const Shape* shape) {
    std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
    dims.insert(dims.begin(), rows);
    return context_.Array(shape->dtype(), dims);
  }

  int64_t Rows(int64_t depth) const { return state_.repeats * depth; }

  void SetShapes() {
    auto stacked = [&](const auto& slots, int64_t rows, std::vector<const Shape*>& out) {
      for (const Shape* shape : slots.shapes()) out.push_back(Stacked(rows, shape));
    };
    // One row more than there are micro-batches to keep: what arrives and is nobody's.
    const BufferDepths& depths = state_.depths;
    auto rows = [&](const SharedRows& shared, int64_t depth) {
      return shared.row.empty() ? Rows(depth) : shared.count;
    };
    stacked(state_.forward, rows(depths.forward_rows, depths.forward_input) + 1, forward_);
    stacked(state_.backward, Rows(state_.depths.backward_input) + 1, backward_);
    stacked(state_.saved, rows(depths.saved_rows, depths.saved), saved_);
    stacked(state_.delayed, Rows(state_.depths.delayed), delayed_);
    stacked(state_.terms, state_.repeats, terms_);
    stacked(state_.term_packs, state_.repeats, terms_);
    for (const Shape* shape : state_.outputs.shapes()) {
      outputs_.push_back(Stacked(1, Stacked(state_.microbatches, shape)));
    }
    std::vector<const Shape*> all(kPassNumbers, context_.Scalar(DType::kS32));
    auto add = [&](const std::vector<const Shape*>& list) {
      all.insert(all.end(), list.begin(), list.end());
    };
    auto shapes = [](const std::vector<Instruction*>& list) {
      std::vector<const Shape*> out;
      for (const Instruction* x : list) out.push_back(x->shape()->bare());
      return out;
    };
    add(forward_), add(backward_);
    add(shapes(in_.weights)), add(shapes(in_.shared)), add(shapes(in_.data));
    add(saved_), add(delayed_), add(terms_), add(outputs_);
    in_.functions.operand_shape = context_.Tuple(all);
  }

  // The value an accumulator starts from.
  Instruction* Neutral(Builder& b, const Shape* shape, size_t slot) {
    Opcode combiner = Opcode::kAdd;
    for (size_t v = 0; v < state_.terms.lists(); ++v) {
      for (auto& [at, accumulated] : state_.terms.values(v)) {
        if (at == slot) combiner = in_.functions.phases->accumulated()[accumulated].combiner;
      }
    }
    return IdentityArray(b, shape, combiner);
  }

  // Carried: tick, forward buffers, backward buffers, weights, shared, data, saved, delayed, terms,
  // outputs: a pass's operands with the tick for the numbers. Then the cotangents that leave in the
  // next turn and, where they travel through its first tick, their rows at the neighbour.
  Instruction* Initial(Builder& b) {
    std::vector<Instruction*> all = {b.ScalarInt(DType::kS32, 0)};
    auto zeros = [&](const std::vector<const Shape*>& shapes) {
      for (const Shape* shape : shapes) all.push_back(b.Zero(shape));
    };
    zeros(forward_), zeros(backward_);
    for (const auto* list : {&in_.weights, &in_.shared, &in_.data}) {
      all.insert(all.end(), list->begin(), list->end());
    }
    zeros(saved_), zeros(delayed_);
    terms_at_ = static_cast<int64_t>(all.size());
    for (size_t i = 0; i < terms_.size(); ++i) all.push_back(Neutral(b, terms_[i], i));
    outputs_at_ = static_cast<int64_t>(all.size());
    zeros(outputs_);
    held_at_ = static_cast<int64_t>(all.size());
    if (schedule_.holds_cotangents || schedule_.overlaps_transfers) {
      for (const Shape* shape : state_.backward.shapes()) all.push_back(b.Zero(shape));
    }
    if (schedule_.overlaps_transfers) {  // of a buffer's last row, which is nobody's
      all.push_back(b.ScalarInt(DType::kS32, Rows(state_.depths.backward_input)));
    }
    return b.Tuple(all);
  }

  Computation* Condition(const Shape* shape) {
    Computation* c = module_.AddComputation("ticks_left");
    Builder b(module_, c);
    Instruction* state = b.Parameter(0, shape, "state");
    c->set_root(b.Compare(ComparisonDirection::kLt, b.GetTupleElement(state, 0),
                          b.ScalarInt(DType::kS32, static_cast<int64_t>(schedule_.ticks.size()))));
    return c;
  }

  // One period of ticks.
  Computation* Body(const TickTable& table, const Shape* shape) {
    Computation* c = module_.AddComputation(schedule_.period == 1 ? "tick" : "ticks");
    Builder b(module_, c);
    Instruction* state = b.Parameter(0, shape, "state");
    Values carried;
    for (int64_t i = 0; i < static_cast<int64_t>(shape->elements().size()); ++i) {
      carried.push_back(b.GetTupleElement(state, i));
    }
    Instruction* values = EmitTable(b, table);
    Instruction* stage = ring_.Coordinate(b);
    Instruction* const first_tick = carried[0];
    auto later = [&](int64_t ticks) {
      return ticks == 0 ? first_tick : b.Add(first_tick, b.ScalarInt(DType::kS32, ticks));
    };
    auto numbers_of = [&](int64_t phase) {
      return EmitLookup(b, table, values, later(phase), stage);
    };
    if (schedule_.overlaps_transfers) {
      const TickNumbers forward = numbers_of(0), backward = numbers_of(1);
      carried = OverlappedTurn(b, forward, backward, std::move(carried));
    } else {
      for (int64_t phase = 0; phase < schedule_.period; ++phase) {
        carried = Tick(b, numbers_of(phase), std::move(carried), phase);
      }
    }
    carried[0] = later(schedule_.period);
    c->set_root(b.Tuple(carried));
    return c;
  }

  using Values = std::vector<Instruction*>;

  // What a pass returns, by the tick's numbers; buffers that it wrote are in `carried` then.
  Instruction* Run(Builder& b, const TickNumbers& numbers, Values& carried) {
    Values operands = numbers.pass;
    operands.insert(operands.end(), carried.begin() + 1, carried.begin() + held_at_);
    Instruction* done = RunBranch(b, numbers.branch, b.Tuple(operands));
    auto take = [&](const Group& out, const Group& in) {
      for (int64_t i = 0; i < out.size; ++i) {
        carried[CarriedAt(in, i)] = b.GetTupleElement(done, out.begin + i);
      }
    };
    take(state_.saved_out, state_.saved_in);
    take(state_.delayed_out, state_.delayed_in);
    take(state_.terms_out, state_.terms_in);
    take(state_.outputs_out, state_.outputs_in);
    return done;
  }

  static size_t CarriedAt(const Group& in, int64_t i) {
    return static_cast<size_t>(in.begin + i - kPassNumbers + 1);
  }

  Values Elements(Builder& b, Instruction* done, const Group& out) {
    Values values;
    for (int64_t i = 0; i < out.size; ++i) values.push_back(b.GetTupleElement(done, out.begin + i));
    return values;
  }

  // What arrives of what neighbours hand on; null where nothing does.
  Values SendForward(Builder& b, const Values& values, int64_t phase) {
    return Send(b, values, 1, SendersOf(schedule_, phase).forward,
                "activations for the next stage");
  }
  Values SendBackward(Builder& b, const Values& values, int64_t phase) {
    return Send(b, values, -1, SendersOf(schedule_, phase).backward,
                "gradients for the stage before");
  }
  Values Send(Builder& b, const Values& values, int64_t step, const std::vector<bool>& from,
              std::string_view cause) {
    Values arrived;
    for (Instruction* value : values) arrived.push_back(ring_.Send(b, value, step, from, cause));
    return arrived;
  }

  // Puts what has arrived into row `row` of its buffers.
  void Store(Builder& b, const Values& arrived, const Group& in, Instruction* row,
             Values& carried) {
    for (size_t i = 0; i < arrived.size(); ++i) {
      if (arrived[i] == nullptr) continue;
      Instruction*& buffer = carried[CarriedAt(in, static_cast<int64_t>(i))];
      std::vector<int64_t> sizes(arrived[i]->shape()->dims().begin(),
                                 arrived[i]->shape()->dims().end());
      sizes.insert(sizes.begin(), 1);
      buffer = b.DynamicUpdateDim(buffer, b.Reshape(arrived[i], sizes), 0, row);
    }
  }

  // What is carried after one tick. What its pass hands on goes to the neighbours; cotangents that
  // are held go a tick later.
  Values Tick(Builder& b, const TickNumbers& numbers, Values carried, int64_t phase) {
    Instruction* done = Run(b, numbers, carried);
    Values cotangents = Elements(b, done, state_.backward_out);
    if (schedule_.holds_cotangents) {
      std::swap_ranges(cotangents.begin(), cotangents.end(), carried.begin() + held_at_);
    }
    const Values onward = SendForward(b, Elements(b, done, state_.forward_out), phase);
    Store(b, onward, state_.forward_in, numbers.forward_arrival, carried);
    const Values back = SendBackward(b, cotangents, phase);
    Store(b, back, state_.backward_in, numbers.backward_arrival, carried);
    return carried;
  }

  // What is carried after a tick of forward passes and one of backward passes. Cotangents of the
  // turn before travel through the one, activations through the other: what arrives is stored when
  // the pass is over, which does not read it.
  Values OverlappedTurn(Builder& b, const TickNumbers& forward, const TickNumbers& backward,
                        Values carried) {
    const auto held = carried.begin() + held_at_;
    const Values back = SendBackward(b, Values(held, carried.end() - 1), 1);
    Instruction* const row_back = carried.back();
    Instruction* done = Run(b, forward, carried);
    Store(b, back, state_.backward_in, row_back, carried);
    const Values onward = SendForward(b, Elements(b, done, state_.forward_out), 0);
    done = Run(b, backward, carried);
    Store(b, onward, state_.forward_in, forward.forward_arrival, carried);
    std::ranges::copy(Elements(b, done, state_.backward_out), carried.begin() + held_at_);
    carried.back() = backward.backward_arrival;
    return carried;
  }

  Instruction* RunBranch(Builder& b, Instruction* branch, Instruction* tuple) {
    const std::vector<Computation*>& branches = functions_.branches();
    std::vector<Instruction*> operands(branches.size() + 1, tuple);
    operands[0] = branch;
    return b.Add(Opcode::kConditional, operands, NoAttributes{}, branches[0]->root()->shape(),
                 branches, "pass");
  }

  RegionInputs in_;
  Module& module_;
  Context& context_;
  const RegionState& state_;
  const Schedule& schedule_;
  StageRing ring_;
  std::vector<const Shape*> forward_, backward_, saved_, delayed_, terms_, outputs_;
  StageFunctions functions_;
  int64_t terms_at_ = 0, outputs_at_ = 0, held_at_ = 0;  // of the loop's tuple
};

}  // namespace

RegionResults EmitRegion(RegionInputs inputs) { return RegionBuilder(std::move(inputs)).Run(); }

}  // namespace gshard::pipeline
