#include "ir/builder.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ir/printer.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

using Ints = std::vector<int64_t>;

struct Fixture {
  std::shared_ptr<Context> ctx = std::make_shared<Context>();
  Module module{"m", ctx};
  Computation* entry = module.AddComputation("e");
  Builder b{module, entry};

  Fixture() {
    module.set_entry(entry);
    module.header().num_partitions = 4;
  }
  const Shape* F32(const Ints& dims) { return ctx->Array(DType::kF32, dims); }
  // Makes `root` the root; the module must verify. Returns the text of the root's computation.
  std::string Finish(Instruction* root) {
    entry->set_root(root);
    const Expected<void> ok = VerifyModule(module);
    CHECK((ok ? "" : ok.error().message) == "");
    std::string text;
    AppendComputation(text, *entry);
    return text;
  }
};

std::string Line(const Instruction* instruction) { return ToString(*instruction); }

TEST_CASE_METHOD(Fixture, "every method builds what it says", "[ir][builder]") {
  Instruction* x = b.Parameter(0, F32({4, 8}), "x");
  Instruction* i = b.Parameter(1, ctx->Scalar(DType::kS32), "i");
  Instruction* zero = b.Scalar(DType::kF32, 0);
  CHECK(Line(x) == "%x = f32[4,8] parameter(0)");
  CHECK(Line(zero) == "%constant = f32[] constant(0)");
  CHECK(Line(b.ScalarInt(DType::kU64, -1)) == "%constant.1 = u64[] constant(18446744073709551615)");
  CHECK(Line(b.IntegerTable(DType::kS32, Ints{3, 1})) == "%constant.2 = s32[2] constant({3, 1})");
  CHECK(Line(b.Zero(F32({2}))) == "%broadcast = f32[2] broadcast(%constant), dimensions={}");
  CHECK(Line(b.Iota(ctx->Array(DType::kS32, Ints{4, 8}), 1)) ==
        "%iota = s32[4,8] iota(), iota_dimension=1");
  CHECK(Line(b.PartitionId()) == "%partition-id = u32[] partition-id()");
  CHECK(Line(b.Convert(x, DType::kBF16)) == "%convert = bf16[4,8] convert(%x)");
  Instruction* less = b.Compare(ComparisonDirection::kLt, x, x);
  CHECK(Line(less) == "%compare = pred[4,8] compare(%x, %x), direction=LT");
  CHECK(Line(b.Select(less, x, b.Add(x, x))) == "%select = f32[4,8] select(%compare, %x, %add)");
  CHECK(Line(b.Binary(Opcode::kRemainder, x, x)) == "%remainder = f32[4,8] remainder(%x, %x)");
  CHECK(Line(b.Subtract(x, x)) == "%subtract = f32[4,8] subtract(%x, %x)");
  CHECK(Line(b.Multiply(x, x)) == "%multiply = f32[4,8] multiply(%x, %x)");
  CHECK(Line(b.Minimum(x, x)) == "%minimum = f32[4,8] minimum(%x, %x)");
  CHECK(Line(b.Maximum(x, x)) == "%maximum = f32[4,8] maximum(%x, %x)");
  CHECK(Line(b.And(less, less)) == "%and = pred[4,8] and(%compare, %compare)");
  CHECK(Line(b.Clamp(zero, x, zero)) == "%clamp = f32[4,8] clamp(%constant, %x, %constant)");
  CHECK(Line(b.Broadcast(x, Ints{8, 2, 4}, Ints{2, 0})) ==
        "%broadcast.1 = f32[8,2,4] broadcast(%x), dimensions={2,0}");
  CHECK(Line(b.Reshape(x, Ints{32})) == "%reshape = f32[32] reshape(%x)");
  CHECK(Line(b.Transpose(x, Ints{1, 0})) ==
        "%transpose = f32[8,4] transpose(%x), dimensions={1,0}");
  CHECK(Line(b.Slice(x, Ints{1, 0}, Ints{4, 8}, Ints{1, 3})) ==
        "%slice = f32[3,3] slice(%x), slice={[1:4:1], [0:8:3]}");
  CHECK(Line(b.SliceDim(x, 1, 2, 6)) == "%slice.1 = f32[4,4] slice(%x), slice={[0:4], [2:6]}");
  Instruction* starts[] = {i, i};
  Instruction* part = b.DynamicSlice(x, starts, Ints{2, 8});
  CHECK(Line(part) ==
        "%dynamic-slice = f32[2,8] dynamic-slice(%x, %i, %i), dynamic_slice_sizes={2,8}");
  CHECK(Line(b.DynamicUpdateSlice(x, part, starts)) ==
        "%dynamic-update-slice = f32[4,8] dynamic-update-slice(%x, %dynamic-slice, %i, %i)");
  CHECK(Line(b.PadDimension(x, zero, 1, 2, -1)) ==
        "%pad = f32[4,9] pad(%x, %constant), padding=0_0x2_-1");
  Instruction* parts[] = {x, x};
  CHECK(Line(b.Concatenate(parts, 0)) ==
        "%concatenate = f32[8,8] concatenate(%x, %x), dimensions={0}");
  Computation* add = b.BinaryComputation(Opcode::kAdd, DType::kF32);
  CHECK(Line(b.Reduce(x, zero, Ints{0}, add)) ==
        "%reduce = f32[8] reduce(%x, %constant), dimensions={0}, to_apply=%add_f32");
  Instruction* tuple = b.Tuple(parts);
  CHECK(Line(tuple) == "%tuple = (f32[4,8], f32[4,8]) tuple(%x, %x)");
  Instruction* barrier = b.Add(Opcode::kOptBarrier, {tuple});
  Instruction* element = b.GetTupleElement(barrier, 1);
  CHECK(Line(element) == "%get-tuple-element = f32[4,8] get-tuple-element(%opt-barrier), index=1");
  Finish(element);
}

TEST_CASE_METHOD(Fixture, "collectives over partitions", "[ir][builder]") {
  Instruction* x = b.Parameter(0, F32({4, 8}), "x");
  Computation* add = b.BinaryComputation(Opcode::kAdd, DType::kF32);
  const ReplicaGroups pairs = ReplicaGroups::FromTiles(TileAssignment::Iota(Ints{2, 2}));
  CHECK(Line(b.AllReduce(x, pairs, add)) ==
        "%all-reduce = f32[4,8] all-reduce(%x), channel_id=1, replica_groups=[2,2]<=[4], "
        "use_global_device_ids=true, to_apply=%add_f32");
  CHECK(Line(b.AllGather(x, 1, pairs, 2)) ==
        "%all-gather = f32[4,16] all-gather(%x), channel_id=2, replica_groups=[2,2]<=[4], "
        "dimensions={1}, use_global_device_ids=true");
  CHECK(Line(b.ReduceScatter(x, 0, pairs, 2, add)) ==
        "%reduce-scatter = f32[2,8] reduce-scatter(%x), channel_id=3, replica_groups=[2,2]<=[4], "
        "use_global_device_ids=true, dimensions={0}, to_apply=%add_f32");
  CHECK(Line(b.AllToAll(x, 0, pairs)) ==
        "%all-to-all = f32[4,8] all-to-all(%x), channel_id=4, replica_groups=[2,2]<=[4], "
        "dimensions={0}");
  const DevicePair shift[] = {{0, 1}, {1, 0}};
  Instruction* last = b.CollectivePermute(x, shift);
  CHECK(Line(last) ==
        "%collective-permute = f32[4,8] collective-permute(%x), channel_id=5, "
        "source_target_pairs={{0,1},{1,0}}");
  Finish(last);
}

TEST_CASE_METHOD(Fixture, "identities return their operand", "[ir][builder]") {
  Instruction* x = b.Parameter(0, F32({4, 8}), "x");
  Instruction* y = b.Parameter(1, F32({4, 8}), "y");
  Instruction* i = b.ScalarInt(DType::kS32, 0);
  Instruction* zero = b.Scalar(DType::kF32, 0);
  Instruction* less = b.Compare(ComparisonDirection::kLt, x, y);
  Instruction* starts[] = {i, i};
  CHECK(b.Convert(x, DType::kF32) == x);
  CHECK(b.Select(less, y, y) == y);
  CHECK(b.Broadcast(x, Ints{4, 8}, Ints{0, 1}) == x);
  CHECK(b.BroadcastScalar(zero, {}) == zero);
  CHECK(b.Zero(ctx->Scalar(DType::kF32)) == zero);
  CHECK(b.Reshape(x, Ints{4, 8}) == x);
  CHECK(b.Transpose(x, Ints{0, 1}) == x);
  CHECK(b.Slice(x, Ints{0, 0}, Ints{4, 8}) == x);
  CHECK(b.SliceDim(x, 0, 0, 4) == x);
  CHECK(b.DynamicSlice(x, starts, Ints{4, 8}) == x);
  CHECK(b.DynamicUpdateSlice(x, y, starts) == y);
  CHECK(b.PadDimension(x, zero, 0, 0, 0) == x);
  Instruction* one[] = {x};
  CHECK(b.Concatenate(one, 0) == x);
  Instruction* two[] = {x, y};
  CHECK(b.GetTupleElement(b.Tuple(two), 1) == y);
  // A broadcast of equal dims that is not the identity, and a slice with strides, stay.
  Instruction* square = b.Parameter(2, F32({4, 4}), "s");
  CHECK(b.Broadcast(square, Ints{4, 4}, Ints{1, 0}) != square);
  CHECK(b.Slice(x, Ints{0, 0}, Ints{4, 8}, Ints{1, 2}) != x);
}

TEST_CASE_METHOD(Fixture, "reshapes of reshapes", "[ir][builder]") {
  Instruction* x = b.Parameter(0, F32({4, 8}), "x");
  Instruction* flat = b.Reshape(x, Ints{32});
  CHECK(b.Reshape(flat, Ints{32}) == flat);
  CHECK(b.Reshape(flat, Ints{4, 8}) == x);
  CHECK(b.Reshape(flat, Ints{2, 16})->operand(0) == x);
}

TEST_CASE_METHOD(Fixture, "scalars are made once", "[ir][builder]") {
  CHECK(b.Scalar(DType::kF32, 1) == b.Scalar(DType::kF32, 1));
  CHECK(b.Scalar(DType::kF32, 1) != b.Scalar(DType::kBF16, 1));
  CHECK(b.Scalar(DType::kF32, 0.0) != b.Scalar(DType::kF32, -0.0));
  CHECK(b.ScalarInt(DType::kS64, INT64_MAX) == b.ScalarInt(DType::kS64, INT64_MAX));
  CHECK(b.ScalarInt(DType::kS64, INT64_MAX) != b.ScalarInt(DType::kS64, INT64_MAX - 1));
  CHECK(b.ScalarInt(DType::kF32, 2) == b.Scalar(DType::kF32, 2));
  CHECK(b.PartitionId() == b.PartitionId());
}

TEST_CASE_METHOD(Fixture, "combiners are shared and stand before callers", "[ir][builder]") {
  Computation* add = b.BinaryComputation(Opcode::kAdd, DType::kF32);
  CHECK(b.BinaryComputation(Opcode::kAdd, DType::kF32) == add);
  CHECK(Builder(module, entry).BinaryComputation(Opcode::kAdd, DType::kF32) == add);
  CHECK(b.BinaryComputation(Opcode::kMaximum, DType::kF32) != add);
  CHECK(b.BinaryComputation(Opcode::kAdd, DType::kBF16) != add);
  CHECK(module.computations().size() == 4);
  CHECK(module.computations().back() == entry);
}

TEST_CASE_METHOD(Fixture, "clones take other operands", "[ir][builder]") {
  Instruction* x = b.Parameter(0, F32({4, 8}), "x");
  Instruction* y = b.Parameter(1, F32({2, 8}), "y");
  Instruction* half = b.Convert(x, DType::kBF16);
  half->set_frontend_attributes("{a=\"1\"}");
  half->set_metadata("{op_name=\"n\"}");
  Instruction* operands[] = {y};
  Instruction* clone = b.CloneWith(half, operands);
  CHECK(Line(clone) ==
        "%convert.1 = bf16[2,8] convert(%y), frontend_attributes={a=\"1\"}, "
        "metadata={op_name=\"n\"}");
  Instruction* broadcast = b.Broadcast(x, Ints{4, 8, 2}, Ints{0, 1});
  CHECK(Line(b.CloneWith(broadcast, operands, F32({2, 8, 2}))) ==
        "%broadcast.1 = f32[2,8,2] broadcast(%y), dimensions={0,1}");
  Instruction* reshape = b.Reshape(x, Ints{32});
  // Sizes of collectives follow from their groups.
  const ReplicaGroups pairs = ReplicaGroups::FromTiles(TileAssignment::Iota(Ints{2, 2}));
  CHECK(b.CloneWith(b.AllGather(x, 0, pairs, 2), operands)->shape() == F32({4, 8}));
  Computation* add = b.BinaryComputation(Opcode::kAdd, DType::kF32);
  CHECK(b.CloneWith(b.ReduceScatter(x, 0, pairs, 2, add), operands)->shape() == F32({1, 8}));
  CHECK_THROWS_AS(b.CloneWith(reshape, operands), InternalError);
  CHECK(b.CloneWith(reshape, operands, F32({16}))->shape() == F32({16}));
}

TEST_CASE_METHOD(Fixture, "the origin gives place and metadata", "[ir][builder]") {
  Instruction* x = b.Parameter(0, F32({4}), "x");
  x->set_metadata("{op_name=\"from\"}");
  x->set_source({3, 9});
  b.set_origin(x);
  Instruction* y = b.Add(x, x);
  CHECK(y->metadata() == x->metadata());
  CHECK(y->source().begin == 3);
  b.set_origin(nullptr);
  CHECK(b.Add(x, x)->metadata().empty());
}

TEST_CASE_METHOD(Fixture, "ill-formed use throws", "[ir][builder]") {
  Instruction* x = b.Parameter(0, F32({4}), "x");
  Instruction* y = b.Parameter(1, F32({5}), "y");
  CHECK_THROWS_AS(b.Add(x, y), InternalError);
  CHECK_THROWS_AS(b.Reshape(x, Ints{5}), InternalError);
  CHECK_THROWS_AS(b.Transpose(x, Ints{1, 0}), InternalError);
  CHECK_THROWS_AS(b.ReduceScatter(x, 0, {}, 3, b.BinaryComputation(Opcode::kAdd, DType::kF32)),
                  InternalError);
}

}  // namespace
}  // namespace gshard
