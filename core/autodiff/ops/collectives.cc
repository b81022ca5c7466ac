// Collectives of manual regions: every device's value is a variable of its own, so the transpose of
// what is sent is sent back.
//
//   all-reduce(x), add     x += all-reduce(c)         all-gather      x += reduce-scatter(c), add
//   reduce-scatter(x), add x += all-gather(c)         all-to-all      x += all-to-all(c), dims
//   swapped collective-permute     x += the permute of c with sources and targets exchanged

#include <fmt/format.h>

#include <algorithm>

#include "core/autodiff/combiners.h"
#include "core/autodiff/emit.h"
#include "core/autodiff/manual_region.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {
namespace {

CollectiveAttributes Fresh(const Instruction* x, ReverseScope& scope) {
  CollectiveAttributes attributes = x->attributes<CollectiveAttributes>();
  if (attributes.channel_id != 0) attributes.channel_id = scope.module().NextChannelId();
  attributes.constrain_layout = false;
  return attributes;
}

Instruction* AllReduce(const Instruction* x, Instruction* c, ReverseScope& scope, Opcode opcode) {
  Builder& b = scope.builder();
  CollectiveAttributes attributes = Fresh(x, scope);
  attributes.dimension = -1;
  // As all-reduce reads groups: other collectives may go by partition without saying so.
  Computation* called[] = {b.BinaryComputation(opcode, c->shape()->dtype())};
  Instruction* operands[] = {c};
  return b.Add(Opcode::kAllReduce, operands, attributes, nullptr, called);
}

// One operand of an all-reduce.
Expected<void> ReduceOne(Instruction* x, Instruction* operand, int64_t leaf, Instruction* c,
                         ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  const std::optional<Opcode> combiner = ReductionOf(*x->called(0));
  if (combiner == Opcode::kAdd) {
    scope.Add(operand, AllReduce(x, c, scope, Opcode::kAdd));
    return {};
  }
  if (!combiner) {
    return Fail(scope.ErrorAt(x, "E-GRAD-006",
                              fmt::format("the reduction of {} has no derivative: add, multiply, "
                                          "maximum and minimum have",
                                          OpcodeName(x->opcode()))));
  }
  Instruction* value = scope.Value(operand);
  const DType dtype = value->shape()->dtype();
  if (combiner == Opcode::kMultiply) {
    Instruction* is_zero = e.Equal(value, e.Like(value, 0));
    Instruction* zeros = AllReduce(x, b.Convert(is_zero, dtype), scope, Opcode::kAdd);
    Instruction* nonzero = b.Select(is_zero, e.Like(value, 1), value);
    Instruction* product = AllReduce(x, nonzero, scope, Opcode::kMultiply);
    Instruction* total = e.Mul(AllReduce(x, c, scope, Opcode::kAdd), product);
    Instruction* none = e.Where(e.Equal(zeros, e.Like(zeros, 0)), e.Div(total, nonzero));
    Instruction* one = e.Where(e.Equal(zeros, e.Like(zeros, 1)), total);
    scope.Add(operand, b.Select(is_zero, one, none));
    return {};
  }
  Builder forward(scope.module(), x->parent());
  Instruction* y = scope.Available(LeafValue(forward, scope.Editable(x), leaf));
  Instruction* best = b.Convert(e.Equal(value, y), dtype);
  Instruction* count = AllReduce(x, best, scope, Opcode::kAdd);
  scope.Add(operand, e.Mul(best, e.Div(AllReduce(x, c, scope, Opcode::kAdd), count)));
  return {};
}

Expected<void> ReduceAll(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  for (size_t i = 0; i < adjoints.size(); ++i) {
    Instruction* operand = x->operand(static_cast<int64_t>(i));
    if (adjoints[i] == nullptr || !scope.Wants(operand)) continue;
    auto done = ReduceOne(x, operand, static_cast<int64_t>(i), adjoints[i], scope);
    if (!done) return done;
  }
  return {};
}

void GatherOne(const Instruction* x, Instruction* operand, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  Computation* called[] = {b.BinaryComputation(Opcode::kAdd, c->shape()->dtype())};
  Instruction* operands[] = {c};
  scope.Add(operand, b.Add(Opcode::kReduceScatter, operands, Fresh(x, scope),
                           operand->shape()->bare(), called));
}

void PermuteOne(const Instruction* x, Instruction* operand, Instruction* c, ReverseScope& scope) {
  CollectiveAttributes attributes = Fresh(x, scope);
  std::vector<DevicePair> pairs;
  for (const DevicePair& pair : attributes.source_target_pairs) {
    pairs.push_back({pair.target, pair.source});
  }
  attributes.source_target_pairs = scope.module().arena().Copy(pairs);
  Instruction* operands[] = {c};
  scope.Add(operand, scope.builder().Add(Opcode::kCollectivePermute, operands, attributes,
                                         operand->shape()->bare()));
}

// Groups of partitions, as a collective-broadcast has them, as an all-reduce names them: by
// devices.
void NameDevices(Instruction* all_reduce, Module& module) {
  auto& attributes = all_reduce->mutable_attributes<CollectiveAttributes>();
  const int64_t partitions = module.DeviceCount();
  const ReplicaGroups all;
  const ReplicaGroups& groups =
      attributes.replica_groups != nullptr ? *attributes.replica_groups : all;
  std::vector<std::vector<int64_t>> lists;
  for (int64_t replica = 0; replica < std::max<int64_t>(module.header().replica_count, 1);
       ++replica) {
    for (std::vector<int64_t> group : groups.ToLists(partitions)) {
      for (int64_t& member : group) member += replica * partitions;
      lists.push_back(std::move(group));
    }
  }
  attributes.replica_groups = module.Own(ReplicaGroups::FromLists(std::move(lists)));
  attributes.use_global_device_ids = true;
}

}  // namespace

Expected<void> GradAllReduce(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  return ReduceAll(x, adjoints, scope);
}

Expected<void> GradAllGather(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  for (size_t i = 0; i < adjoints.size(); ++i) {
    Instruction* operand = x->operand(static_cast<int64_t>(i));
    if (adjoints[i] != nullptr && scope.Wants(operand)) {
      GatherOne(x, operand, adjoints[i], scope);
    }
  }
  return {};
}

// Other reductions than sums: all-reduce of the whole, then the own part.
Expected<void> GradReduceScatter(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  if (ReductionOf(*x->called(0)) != Opcode::kAdd) {
    return Fail(scope.ErrorAt(x, "E-GRAD-006",
                              "only a reduce-scatter that adds has a derivative here; write "
                              "others as all-reduce and dynamic-slice"));
  }
  for (size_t i = 0; i < adjoints.size(); ++i) {
    Instruction* operand = x->operand(static_cast<int64_t>(i));
    if (adjoints[i] == nullptr || !scope.Wants(operand)) continue;
    Instruction* operands[] = {adjoints[i]};
    scope.Add(operand,
              b.Add(Opcode::kAllGather, operands, Fresh(x, scope), operand->shape()->bare()));
  }
  return {};
}

// Piece k of dim d goes to device k, which has it as its piece from the sender: its own inverse. In
// the tuple form operand k goes to device k.
Expected<void> GradAllToAll(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  if (!x->shape()->IsTuple()) {
    Instruction* operands[] = {adjoints[0]};
    scope.Add(x->operand(0),
              b.Add(Opcode::kAllToAll, operands, Fresh(x, scope), x->operand(0)->shape()->bare()));
    return {};
  }
  std::vector<Instruction*> operands;
  std::vector<const Shape*> shapes;
  for (size_t i = 0; i < adjoints.size(); ++i) {
    const Shape* shape = x->operand(static_cast<int64_t>(i))->shape()->bare();
    operands.push_back(adjoints[i] != nullptr ? adjoints[i] : b.Zero(shape));
    shapes.push_back(shape);
  }
  Instruction* back =
      b.Add(Opcode::kAllToAll, operands, Fresh(x, scope), b.context().Tuple(shapes));
  for (size_t i = 0; i < adjoints.size(); ++i) {
    scope.Add(x->operand(static_cast<int64_t>(i)),
              b.GetTupleElement(back, static_cast<int64_t>(i)));
  }
  return {};
}

Expected<void> GradCollectivePermute(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  if (x->operand_count() != 1) {
    return Fail(
        scope.ErrorAt(x, "E-GRAD-003", "derivatives cannot follow a collective-permute in place"));
  }
  if (adjoints[0] != nullptr) PermuteOne(x, x->operand(0), adjoints[0], scope);
  return {};
}

// The first device of a group sends; it gets the sum of what the others have.
Expected<void> GradCollectiveBroadcast(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  const auto& attributes = x->attributes<CollectiveAttributes>();
  const bool by_partition = attributes.channel_id != 0;
  Instruction* self = by_partition ? b.PartitionId()
                                   : b.Add(Opcode::kReplicaId, {}, b.context().Scalar(DType::kU32));
  if (by_partition) self->set_sharding(ManualRegionOf(x, 0, b.context()));
  Instruction* is_source = nullptr;
  if (attributes.replica_groups != nullptr) {
    for (const std::vector<int64_t>& group :
         attributes.replica_groups->ToLists(scope.module().DeviceCount())) {
      if (group.empty()) continue;
      Instruction* here = e.Equal(self, b.ScalarInt(DType::kU32, group[0]));
      is_source = is_source == nullptr ? here : b.Binary(Opcode::kOr, is_source, here);
    }
  }
  if (is_source == nullptr) is_source = e.Equal(self, b.ScalarInt(DType::kU32, 0));
  for (size_t i = 0; i < adjoints.size(); ++i) {
    Instruction* operand = x->operand(static_cast<int64_t>(i));
    if (adjoints[i] == nullptr || !scope.Wants(operand)) continue;
    Instruction* sum = AllReduce(x, adjoints[i], scope, Opcode::kAdd);
    if (by_partition) NameDevices(sum, scope.module());
    Instruction* mask = b.BroadcastScalar(is_source, sum->shape()->dims());
    scope.Add(operand, e.Where(mask, sum));
  }
  return {};
}

// Rows go back to where they came from: offsets and sizes of senders and receivers exchanged. Where
// they are, only the other side knows: an all-to-all of its offsets tells. A row that goes to
// several devices has a place for what each sends back, and these are added. The adjoint of the
// output's old contents is what nobody wrote over.
Expected<void> GradRaggedAllToAll(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  Instruction* c = adjoints[0];
  const int64_t flat[] = {x->operand(2)->shape()->element_count()};
  auto list = [&](int64_t i) { return b.Reshape(scope.Value(x->operand(i)), flat); };
  auto exchanged = [&](Instruction* offsets) {
    CollectiveAttributes attributes = Fresh(x, scope);
    attributes.dimension = 0;
    Instruction* operands[] = {offsets};
    return b.Add(Opcode::kAllToAll, operands, attributes, offsets->shape()->bare());
  };
  Instruction* arrived_at = exchanged(list(4));
  Instruction* received = list(5);
  if (Instruction* input = x->operand(0); scope.Wants(input)) {
    const int64_t rows = input->shape()->dim(0);
    Instruction* offsets = list(2);
    Instruction* place = e.Mul(b.Iota(offsets->shape()->bare(), 0), static_cast<double>(rows));
    std::vector<int64_t> dims(input->shape()->dims().begin(), input->shape()->dims().end());
    dims[0] *= flat[0];
    Instruction* places = b.Zero(b.context().Array(c->shape()->dtype(), dims));
    Instruction* operands[] = {
        c, places, arrived_at, received, exchanged(e.Add(offsets, place)), list(3)};
    Instruction* back =
        b.Add(Opcode::kRaggedAllToAll, operands, Fresh(x, scope), places->shape()->bare());
    dims[0] = rows;
    dims.insert(dims.begin(), flat[0]);
    const int64_t over[] = {0};
    scope.Add(input, e.Sum(b.Reshape(back, dims), over));
  }
  if (Instruction* output = x->operand(1); scope.Wants(output)) {
    const int64_t dims[] = {flat[0], output->shape()->dim(0)};
    const int64_t over_rows[] = {1}, over_pieces[] = {0};
    Instruction* row = b.Iota(b.context().Array(received->shape()->dtype(), dims), 1);
    Instruction* begin = e.Spread(arrived_at, dims, over_rows);
    Instruction* end = e.Spread(e.Add(arrived_at, received), dims, over_rows);
    Instruction* is_in =
        b.Binary(Opcode::kAnd, b.Compare(ComparisonDirection::kGe, row, begin), e.Less(row, end));
    Instruction* count = e.Sum(b.Convert(is_in, DType::kS32), over_pieces);
    Instruction* is_new = e.Greater(count, e.Like(count, 0));
    const int64_t first[] = {0};
    scope.Add(output, e.WhereNot(b.Broadcast(is_new, c->shape()->dims(), first), c));
  }
  return {};
}

// all-reduce-done(all-reduce-start(a)) and its like: as the synchronous collective.
Expected<void> GradCollectiveDone(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Instruction* start = x->operand(0);
  switch (start->opcode()) {
    case Opcode::kAllReduceStart:
      for (size_t i = 0; i < adjoints.size(); ++i) {
        Instruction* operand = start->operand(static_cast<int64_t>(i));
        if (adjoints[i] == nullptr || !scope.Wants(operand)) continue;
        if (ReductionOf(*start->called(0)) != Opcode::kAdd) {
          return Fail(scope.ErrorAt(start, "E-GRAD-006",
                                    "only an asynchronous all-reduce that adds has a derivative"));
        }
        scope.Add(operand, AllReduce(start, adjoints[i], scope, Opcode::kAdd));
      }
      return {};
    case Opcode::kAllGatherStart:
      for (size_t i = 0; i < adjoints.size(); ++i) {
        Instruction* operand = start->operand(static_cast<int64_t>(i));
        if (adjoints[i] != nullptr && scope.Wants(operand)) {
          GatherOne(start, operand, adjoints[i], scope);
        }
      }
      return {};
    default:
      if (adjoints[0] != nullptr) PermuteOne(start, start->operand(0), adjoints[0], scope);
      return {};
  }
}

}  // namespace gshard
