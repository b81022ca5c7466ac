#include "core/pipeline/emit/shift_region.h"

#include <algorithm>
#include <array>
#include <functional>

#include "core/analysis/combiner.h"
#include "core/pipeline/emit/stage_difference.h"
#include "core/pipeline/emit/stage_ring.h"
#include "fmt/format.h"
#include "ir/equality.h"

namespace gshard::pipeline {
namespace {

using Values = std::vector<Instruction*>;

// Causes of transfers: the buffer moves on, and what goes into it and comes out of it goes around
// the ring beside it.
constexpr std::string_view kActivationsMove = "activations for the next stage";
constexpr std::string_view kGradientsMove = "gradients for the stage before";
constexpr std::string_view kInputsMove = "inputs on their way to the first stage";
constexpr std::string_view kResultsMove = "results on their way from the last stage";
constexpr std::string_view kGradientsMoveIn = "gradients on their way to the last stage";
constexpr std::string_view kGradientsMoveOut = "gradients on their way from the first stage";

// What a loop carries beside its counter.
struct Carried {
  Values weights, shared, data, inputs, saved, terms, outputs;  // as RegionState's groups
  Values ring;                                                  // what a stage is handed
  Values feed, feed_store;    // towards the first stage that computes
  Values drain, drain_store;  // from the last one

  std::array<Values*, 12> Groups() {
    return {&weights, &shared, &data, &inputs,     &saved, &terms,
            &outputs, &ring,   &feed, &feed_store, &drain, &drain_store};
  }
};

Instruction* Row(Builder& b, Instruction* buffer, Instruction* row) {
  return b.DynamicSliceDim(buffer, 0, row, 1);
}

void SetRow(Builder& b, Instruction*& buffer, Instruction* value, Instruction* row) {
  std::vector<int64_t> sizes(value->shape()->dims().begin(), value->shape()->dims().end());
  sizes.insert(sizes.begin(), 1);
  buffer = b.DynamicUpdateDim(buffer, b.Reshape(value, sizes), 0, row);
}

Instruction* WithoutFirstDim(Builder& b, Instruction* x) {
  return b.Reshape(x, x->shape()->dims().subspan(1));
}

class ShiftBuilder {
 public:
  explicit ShiftBuilder(ShiftInputs inputs)
      : in_(std::move(inputs)),
        module_(*in_.alike.functions.module),
        context_(module_.context()),
        stages_(*in_.alike.functions.stages),
        clock_(in_.clock),
        ring_(*in_.alike.functions.shardings),
        outer_(module_, in_.entry) {
    SetShapes(in_.before, 1, 1);
    SetShapes(in_.alike, Rows() + 1, 1);
    SetShapes(in_.after, 1, 1);
  }

  Expected<ShiftResults> Run() {
    const size_t entry_begin = in_.entry->instructions().size();
    const int64_t last = stages_.count() - 1;
    Expected<Computation*> forward = Alike(Pass::kForward);
    if (!forward) return Fail(std::move(forward.error()));
    Carried before = Outside(in_.before, Pass::kForward, 0, {}, "before");
    Carried alike = Forward(*forward, before.drain_store);
    Values outputs = Delivered(alike);
    const Pass last_pass = stages_.has_backward() ? Pass::kBackward : Pass::kForward;
    Carried after = Outside(in_.after, last_pass, last, outputs, "after");
    if (stages_.has_backward()) {
      Expected<Computation*> backward = Alike(Pass::kBackward);
      if (!backward) return Fail(std::move(backward.error()));
      alike = Backward(*backward, std::move(alike), after.drain_store);
      const StagePass& own = stages_.pass(Pass::kBackward, 0);
      if (!own.terms.empty() || !own.outputs.empty()) {
        before =
            Outside(in_.before, Pass::kBackward, 0, alike.drain_store, "before_backward", &before);
      }
    }
    ShiftResults results;
    results.before = {before.terms, before.outputs, {}};
    results.alike = {alike.terms, alike.outputs, {}};
    results.after = {after.terms, after.outputs, {}};
    auto list = in_.entry->instructions().subspan(entry_begin);
    results.alike.made.assign(list.begin(), list.end());
    for (Instruction* x : results.alike.made) {
      ring_.MarkManual(x);
      if (x->opcode() != Opcode::kWhile) continue;
      for (Computation* called : x->called()) ring_.MarkManual(called);
    }
    return results;
  }

 private:
  // Passes of one stage: a row of what is kept each; one more row is for padding.
  int64_t Rows() const { return clock_.repeats * clock_.microbatches; }

  // --- shapes and first values

  const Shape* Stacked(int64_t rows, const Shape* shape) {
    std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
    dims.insert(dims.begin(), rows);
    return context_.Array(shape->dtype(), dims);
  }

  template <typename Slots>
  std::vector<const Shape*> Stacks(const Slots& slots, int64_t rows) {
    std::vector<const Shape*> shapes;
    for (const Shape* shape : slots.shapes()) shapes.push_back(Stacked(rows, shape));
    return shapes;
  }

  std::vector<const Shape*> OutputShapes(const RegionInputs& in) {
    const RegionState& state = *in.functions.state;
    const bool outside = &in != &in_.alike;
    std::vector<const Shape*> shapes;
    for (const Shape* shape : state.outputs.shapes()) {
      int64_t rows = outside ? clock_.groups() : clock_.microbatches;
      shapes.push_back(Stacked(1, Stacked(rows, shape)));
    }
    return shapes;
  }

  // The tuple that the functions of these layers take.
  void SetShapes(RegionInputs& in, int64_t forward_rows, int64_t backward_rows) {
    const RegionState& state = *in.functions.state;
    std::vector<const Shape*> all(static_cast<size_t>(state.number_count()),
                                  context_.Scalar(DType::kS32));
    auto add = [&](const std::vector<const Shape*>& list) {
      all.insert(all.end(), list.begin(), list.end());
    };
    auto shapes = [](const Values& list) {
      std::vector<const Shape*> out;
      for (const Instruction* x : list) out.push_back(x->shape()->bare());
      return out;
    };
    add(Stacks(state.forward, forward_rows)), add(Stacks(state.backward, backward_rows));
    add(shapes(in.weights)), add(shapes(in.shared)), add(shapes(in.data));
    add(Stacks(state.saved, Rows() + 1)), add(Stacks(state.delayed, 1));
    add(Stacks(state.terms, state.repeats)), add(OutputShapes(in));
    in.functions.operand_shape = context_.Tuple(all);
  }

  Values Zeros(const std::vector<const Shape*>& shapes) {
    Values out;
    for (const Shape* shape : shapes) out.push_back(outer_.Zero(shape));
    return out;
  }

  Values FirstTerms(const RegionInputs& in) {
    const RegionState& state = *in.functions.state;
    const std::vector<Accumulated>& accumulated = in.functions.phases->accumulated();
    std::vector<Opcode> combiner(state.terms.size(), Opcode::kAdd);
    for (size_t v = 0; v < state.terms.lists(); ++v) {
      for (auto& [slot, index] : state.terms.values(v))
        combiner[slot] = accumulated[index].combiner;
    }
    Values out;
    std::vector<const Shape*> shapes = Stacks(state.terms, state.repeats);
    for (size_t i = 0; i < shapes.size(); ++i) {
      out.push_back(IdentityArray(outer_, shapes[i], combiner[i]));
    }
    return out;
  }

  Carried FirstOf(const RegionInputs& in) {
    Carried c;
    c.weights = in.weights, c.shared = in.shared, c.data = in.data;
    c.terms = FirstTerms(in);
    c.outputs = Zeros(OutputShapes(in));
    return c;
  }

  // --- the one function of all stages

  // Of the stage as which most compute the first that does not.
  Diagnostic Unlike(Pass pass) const {
    const int64_t end = stages_.count() - 1;
    std::vector<const Computation*> own = {nullptr};
    for (int64_t v = 1; v < end; ++v)
      own.push_back(MakeStageFunction(in_.alike.functions, pass, v));
    const auto function = [&](int64_t v) -> const Computation& {
      return *own[static_cast<size_t>(v)];
    };
    int64_t usual = 1, most = 0;
    for (int64_t v = 1; v < end && 2 * most < end; ++v) {
      int64_t alike = 0;
      for (int64_t other = 1; other < end; ++other) {
        alike += SameComputation(function(v), function(other));
      }
      if (alike > most) usual = v, most = alike;
    }
    StageFunctionInputs inputs = in_.alike.functions;
    int64_t odd = 1;
    for (; odd + 1 < end; ++odd) {
      inputs.results_of = odd;
      if (!SameComputation(function(odd), function(usual)) &&
          !SameComputation(function(odd), *MakeStageFunction(inputs, pass, usual))) {
        break;
      }
    }
    return UnlikeStages(
        module_,
        fmt::format("stages {} and {} of the shifting buffer ({} pass of layers {} and {})",
                    usual - 1, odd - 1, pass == Pass::kForward ? "forward" : "backward",
                    LayersOf(usual), LayersOf(odd)),
        function(usual), function(odd));
  }

  // "3", "2..3": as the report numbers them.
  std::string LayersOf(int64_t v) const {
    const int64_t first = stages_.first_layers()[static_cast<size_t>(v)];
    const int64_t last = stages_.first_layers()[static_cast<size_t>(v) + 1] - 1;
    return first == last ? fmt::format("{}", first) : fmt::format("{}..{}", first, last);
  }

  // How much a stage hands on, and how many results it has in all.
  std::pair<size_t, size_t> ResultsOf(Pass pass, int64_t v) const {
    const bool is_forward = pass == Pass::kForward;
    const auto& bundle = is_forward ? stages_.forward_bundle(v) : stages_.backward_bundle(v - 1);
    return {bundle.size(), stages_.TargetsOf(pass, v).size()};
  }

  // Of the stage with most results: the first stage may have no use for a cotangent, nor the last
  // for what only alike layers share, and frozen layers have no gradients of weights. Every other
  // stage must compute the same, but for those.
  Expected<Computation*> Alike(Pass pass) {
    int64_t best = 1;
    for (int64_t v = 1; v + 1 < stages_.count(); ++v) {
      if (ResultsOf(pass, v) > ResultsOf(pass, best)) best = v;
    }
    StageFunctionInputs inputs = in_.alike.functions;
    LayerNotes notes;
    inputs.notes = &notes;
    Computation* function = MakeStageFunction(inputs, pass, best);
    inputs.notes = nullptr;
    for (int64_t v = 1; v + 1 < stages_.count(); ++v) {
      if (v == best) continue;
      Computation* own = MakeStageFunction(in_.alike.functions, pass, v);
      if (SameComputation(*own, *function)) continue;
      inputs.results_of = v;
      Computation* like_own = MakeStageFunction(inputs, pass, best);
      if (SameComputation(*own, *like_own)) continue;
      return Fail(Unlike(pass));
    }
    std::vector<int64_t> all;
    for (int64_t v = 1; v + 1 < stages_.count(); ++v) all.push_back(v);
    NotePass(*inputs.module, function, pass, all, notes);
    return function;
  }

  // --- calls

  struct PassResult {
    Values forward, backward, saved, terms, outputs;
  };

  PassResult Call(Builder& b, const RegionInputs& in, Computation* function, const Values& numbers,
                  const Values& forward, const Values& backward, const Carried& c) {
    const RegionState& state = *in.functions.state;
    Values operands = numbers;
    for (const Values* list : {&forward, &backward, &c.weights, &c.shared, &c.data, &c.saved}) {
      operands.insert(operands.end(), list->begin(), list->end());
    }
    for (const Shape* shape : Stacks(state.delayed, 1)) operands.push_back(b.Zero(shape));
    for (const Values* list : {&c.terms, &c.outputs}) {
      operands.insert(operands.end(), list->begin(), list->end());
    }
    Instruction* const tuple[] = {b.Tuple(operands)};
    Computation* const called[] = {function};
    Instruction* done =
        b.Add(Opcode::kCall, tuple, CallAttributes{}, function->root()->shape(), called, "pass");
    auto take = [&](const Group& group) {
      Values out;
      for (int64_t i = 0; i < group.size; ++i) {
        out.push_back(b.GetTupleElement(done, group.begin + i));
      }
      return out;
    };
    return {take(state.forward_out), take(state.backward_out), take(state.saved_out),
            take(state.terms_out), take(state.outputs_out)};
  }

  using Turn = std::function<void(Builder&, Instruction* turn, Carried&)>;

  // A loop of the entry whose turns change `c`.
  Carried Loop(std::string_view name, Carried c, int64_t turns, const Turn& turn) {
    Values init = {outer_.ScalarInt(DType::kS32, 0)};
    for (const Values* group : c.Groups()) init.insert(init.end(), group->begin(), group->end());
    Instruction* first = outer_.Tuple(init);
    auto unpack = [&](Builder& b, Instruction* tuple) {
      Carried out = c;
      int64_t at = 1;
      for (Values* group : out.Groups()) {
        for (Instruction*& x : *group) x = b.GetTupleElement(tuple, at++);
      }
      return out;
    };
    Computation* body = module_.AddComputation(name);
    Builder b(module_, body);
    Instruction* state = b.Parameter(0, first->shape(), "state");
    Carried inside = unpack(b, state);
    Instruction* count = b.GetTupleElement(state, 0);
    turn(b, count, inside);
    Values next = {b.Add(count, b.ScalarInt(DType::kS32, 1))};
    for (const Values* group : inside.Groups())
      next.insert(next.end(), group->begin(), group->end());
    body->set_root(b.Tuple(next));
    Computation* condition = module_.AddComputation(fmt::format("{}_left", name));
    Builder test(module_, condition);
    Instruction* counted = test.Parameter(0, first->shape(), "state");
    condition->set_root(test.Compare(ComparisonDirection::kLt, test.GetTupleElement(counted, 0),
                                     test.ScalarInt(DType::kS32, turns)));
    Computation* const called[] = {condition, body};
    Instruction* const operands[] = {first};
    Instruction* loop =
        outer_.Add(Opcode::kWhile, operands, NoAttributes{}, first->shape(), called, name);
    return unpack(outer_, loop);
  }

  // --- layers outside the buffer

  // One pass over all micro-batches, K at a time. `given` are stores, a row a group, of what
  // crosses the boundary to these layers; what they hand on is stored alike (drain_store).
  Carried Outside(RegionInputs& in, Pass pass, int64_t v, const Values& given,
                  std::string_view name, const Carried* earlier = nullptr) {
    LayerNotes notes;
    in.functions.notes = &notes;
    Computation* function = MakeStageFunction(in.functions, pass, v);
    in.functions.notes = nullptr;
    NotePass(*in.functions.module, function, pass, std::vector<int64_t>{v}, notes);
    const RegionState& state = *in.functions.state;
    Carried c = FirstOf(in);
    if (earlier != nullptr) c.terms = earlier->terms, c.outputs = earlier->outputs;
    c.feed_store = given;
    const bool hands_forward = v == 0 && pass == Pass::kForward;
    const bool hands_backward = v != 0 && pass == Pass::kBackward;
    if (hands_forward) c.drain_store = Zeros(Stacks(state.forward, clock_.groups()));
    if (hands_backward) c.drain_store = Zeros(Stacks(state.backward, clock_.groups()));
    return Loop(
        name, std::move(c), clock_.groups(), [&](Builder& b, Instruction* turn, Carried& t) {
          auto number = [&](int64_t value) { return b.ScalarInt(DType::kS32, value); };
          Instruction* i = b.Add(b.Multiply(turn, number(clock_.stages)), ring_.Coordinate(b));
          Instruction* valid = b.Compare(ComparisonDirection::kLt, i, number(clock_.microbatches));
          Instruction* clamped = b.Minimum(i, number(clock_.microbatches - 1));
          Values numbers = {clamped,
                            number(0),
                            number(0),
                            number(0),
                            number(0),
                            number(0),
                            b.Convert(valid, DType::kS32),
                            turn};
          Values rows;
          for (Instruction* store : t.feed_store) rows.push_back(Row(b, store, turn));
          Values none_forward, none_backward;
          for (const Shape* shape : Stacks(state.forward, 1)) none_forward.push_back(b.Zero(shape));
          for (const Shape* shape : Stacks(state.backward, 1))
            none_backward.push_back(b.Zero(shape));
          const bool from_forward = v != 0, from_backward = v == 0 && pass == Pass::kBackward;
          PassResult done = Call(b, in, function, numbers, from_forward ? rows : none_forward,
                                 from_backward ? rows : none_backward, t);
          t.terms = done.terms, t.outputs = done.outputs;
          const Values& out = hands_forward ? done.forward : done.backward;
          for (size_t s = 0; s < t.drain_store.size(); ++s)
            SetRow(b, t.drain_store[s], out[s], turn);
        });
  }

  // --- the buffer

  // What a device has at a tick, as ShiftClock::At says.
  struct Now {
    Instruction *valid, *microbatch, *repeat, *row;
    Instruction *is_first, *is_last;  // of the chain of all stages, at this tick
    Instruction *loads, *group_in;    // a group of micro-batches starts at the first stage
    Instruction *stores, *group_out;  // one has left the last stage
  };

  Now At(Builder& b, Instruction* tick) {
    auto number = [&](int64_t value) { return b.ScalarInt(DType::kS32, value); };
    auto equals = [&](Instruction* x, int64_t value) {
      return b.Compare(ComparisonDirection::kEq, x, number(value));
    };
    auto at_least = [&](Instruction* x, int64_t value) {
      return b.Compare(ComparisonDirection::kGe, x, number(value));
    };
    auto quotient = [&](Instruction* x, int64_t by) {
      return b.Binary(Opcode::kDivide, x, number(by));
    };
    auto remainder = [&](Instruction* x, int64_t by) {
      return b.Binary(Opcode::kRemainder, x, number(by));
    };
    const int64_t k = clock_.stages, period = clock_.group_ticks();
    Instruction* stage = ring_.Coordinate(b);
    Instruction* since = b.Subtract(tick, stage);
    Instruction* clamped = b.Clamp(number(0), since, number(clock_.last_start()));
    Instruction* within = remainder(clamped, period);
    Instruction* i = b.Add(b.Multiply(quotient(clamped, period), number(k)), remainder(within, k));
    Now now;
    now.repeat = quotient(within, k);
    now.valid = b.And(b.Compare(ComparisonDirection::kEq, since, clamped),
                      b.Compare(ComparisonDirection::kLt, i, number(clock_.microbatches)));
    now.microbatch = b.Minimum(i, number(clock_.microbatches - 1));
    now.row = b.Select(now.valid,
                       b.Add(b.Multiply(now.repeat, number(clock_.microbatches)), now.microbatch),
                       number(Rows()));
    now.is_first = b.And(equals(stage, 0), equals(now.repeat, 0));
    now.is_last = b.And(equals(stage, k - 1), equals(now.repeat, clock_.repeats - 1));
    now.loads = equals(remainder(tick, period), 0);
    now.group_in = quotient(tick, period);
    Instruction* left = b.Subtract(tick, number(k - 1 + (clock_.repeats - 1) * k));
    now.stores = b.And(at_least(left, 0), equals(remainder(left, period), k - 1));
    now.group_out = quotient(left, period);
    return now;
  }

  Instruction* Choose(Builder& b, Instruction* condition, Instruction* a, Instruction* otherwise) {
    return b.Select(b.BroadcastScalar(condition, a->shape()->dims()), a, otherwise);
  }

  // Row of a store, or the one more that is nobody's.
  Instruction* StoreRow(Builder& b, Instruction* condition, Instruction* group) {
    return b.Select(condition, group, b.ScalarInt(DType::kS32, clock_.groups()));
  }

  Values Numbers(Builder& b, const Now& now) {
    Instruction* zero = b.ScalarInt(DType::kS32, 0);
    return {
        now.microbatch, now.repeat, now.row, zero, now.row, zero, b.Convert(now.valid, DType::kS32),
        now.microbatch};
  }

  Carried Forward(Computation* function, const Values& fed) {
    const RegionState& state = *in_.alike.functions.state;
    Carried c = FirstOf(in_.alike);
    c.inputs = Zeros(Stacks(state.forward, Rows() + 1));
    c.saved = Zeros(Stacks(state.saved, Rows() + 1));
    c.feed_store = fed;
    c.drain_store = Zeros(Stacks(state.forward, clock_.groups() + 1));
    // Padding is computed on real values, so that it has no NaNs of its own making.
    for (Instruction* store : fed) {
      Instruction* own = WithoutFirstDim(outer_, outer_.SliceDim(store, 0, 0, 1));
      c.ring.push_back(own), c.feed.push_back(own), c.drain.push_back(own);
    }
    return Loop(
        "tick", std::move(c), clock_.ticks(), [&](Builder& b, Instruction* tick, Carried& t) {
          const Now now = At(b, tick);
          for (size_t s = 0; s < t.ring.size(); ++s) {
            Instruction* loaded = WithoutFirstDim(b, Row(b, t.feed_store[s], now.group_in));
            t.feed[s] = Choose(b, now.loads, loaded, t.feed[s]);
            SetRow(b, t.inputs[s], Choose(b, now.is_first, t.feed[s], t.ring[s]), now.row);
          }
          Values none;
          for (const Shape* shape : Stacks(state.backward, 1)) none.push_back(b.Zero(shape));
          PassResult done = Call(b, in_.alike, function, Numbers(b, now), t.inputs, none, t);
          t.saved = done.saved, t.terms = done.terms, t.outputs = done.outputs;
          for (size_t s = 0; s < t.ring.size(); ++s) {
            Instruction* left = ring_.Send(b, t.drain[s], -1, /*wraps=*/true, kResultsMove);
            t.drain[s] = Choose(b, now.is_last, done.forward[s], left);
            SetRow(b, t.drain_store[s], t.drain[s], StoreRow(b, now.stores, now.group_out));
            t.ring[s] = ring_.Send(b, done.forward[s], 1, /*wraps=*/true, kActivationsMove);
            t.feed[s] = ring_.Send(b, t.feed[s], -1, /*wraps=*/true, kInputsMove);
          }
        });
  }

  // The last group's way back to its devices: an incomplete one has some left to go.
  int64_t StepsLeft() const { return clock_.stages - 1 - clock_.last_member(); }

  // A row a group of what left the last stage: by device, its own micro-batch.
  Values Delivered(const Carried& c) {
    Values out;
    Instruction* last = outer_.ScalarInt(DType::kS32, clock_.groups() - 1);
    for (size_t s = 0; s < c.drain.size(); ++s) {
      Instruction* store = outer_.SliceDim(c.drain_store[s], 0, 0, clock_.groups());
      if (StepsLeft() > 0) {
        Instruction* left =
            ring_.Send(outer_, c.drain[s], -StepsLeft(), /*wraps=*/true, kResultsMove);
        SetRow(outer_, store, left, last);
      }
      out.push_back(store);
    }
    return out;
  }

  // The forward loop with time reversed: what was stored is loaded, and the other way round.
  Carried Backward(Computation* function, Carried c, const Values& fed) {
    const RegionState& state = *in_.alike.functions.state;
    c.feed_store = fed;
    c.drain_store = Zeros(Stacks(state.backward, clock_.groups() + 1));
    c.ring.clear(), c.feed.clear(), c.drain.clear();
    for (Instruction* store : fed) {
      const int64_t rows = clock_.groups();
      Instruction* own = WithoutFirstDim(outer_, outer_.SliceDim(store, 0, rows - 1, rows));
      c.feed.push_back(ring_.Send(outer_, own, StepsLeft(), /*wraps=*/true, kGradientsMoveIn));
      c.ring.push_back(own), c.drain.push_back(own);
    }
    Carried done = Loop(
        "backward_tick", std::move(c), clock_.ticks(),
        [&](Builder& b, Instruction* turn, Carried& t) {
          Instruction* tick = b.Subtract(b.ScalarInt(DType::kS32, clock_.ticks() - 1), turn);
          const Now now = At(b, tick);
          Values given;
          for (size_t s = 0; s < t.ring.size(); ++s) {
            Instruction* loaded = WithoutFirstDim(b, Row(b, t.feed_store[s], now.group_out));
            t.feed[s] = Choose(b, now.stores, loaded, t.feed[s]);
            Instruction* x = Choose(b, now.is_last, t.feed[s], t.ring[s]);
            std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
            dims.insert(dims.begin(), 1);
            given.push_back(b.Reshape(x, dims));
          }
          PassResult pass = Call(b, in_.alike, function, Numbers(b, now), t.inputs, given, t);
          t.terms = pass.terms, t.outputs = pass.outputs;
          for (size_t s = 0; s < t.ring.size(); ++s) {
            Instruction* back = ring_.Send(b, t.drain[s], 1, /*wraps=*/true, kGradientsMoveOut);
            t.drain[s] = Choose(b, now.is_first, pass.backward[s], back);
            SetRow(b, t.drain_store[s], t.drain[s], StoreRow(b, now.loads, now.group_in));
            t.ring[s] = ring_.Send(b, pass.backward[s], -1, /*wraps=*/true, kGradientsMove);
            t.feed[s] = ring_.Send(b, t.feed[s], 1, /*wraps=*/true, kGradientsMoveIn);
          }
        });
    for (Instruction*& store : done.drain_store) {
      store = outer_.SliceDim(store, 0, 0, clock_.groups());
    }
    return done;
  }

  ShiftInputs in_;
  Module& module_;
  Context& context_;
  const StageGraph& stages_;
  ShiftClock clock_;
  StageRing ring_;
  Builder outer_;
};

}  // namespace

Expected<ShiftResults> EmitShiftRegion(ShiftInputs inputs) {
  return ShiftBuilder(std::move(inputs)).Run();
}

}  // namespace gshard::pipeline
