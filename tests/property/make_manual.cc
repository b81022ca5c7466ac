// Manual regions: what every device does with its own tile, and the same said of the whole array.
//
// A region has a twin: the program without shardings computes the same by reshapes, reductions and
// slices, and a choice takes one or the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/property/program_maker.h"

namespace gshard::property {

// One array cut over the whole mesh; what happens along one mesh axis that cuts one dim.
struct ProgramMaker::ManualRegion {
  size_t whole = 0, local = 0;  // the array, one device's tile
  ArrayType type, tile;
  Placement placement;
  Placement joined;  // without the axis along `dim`
  // Inside: manual altogether, or along the axis only, the others being the partitioner's.
  Placement inside;
  size_t dim = 0, axis = 0;  // `axis` alone cuts `dim`
  int64_t count = 1;         // devices along the axis
};

namespace {

Placement Manual() {
  Placement placement;
  placement.kind = Placement::Kind::kManual;
  return placement;
}

}  // namespace

size_t ProgramMaker::EmitManual(const ManualRegion& region, Opcode opcode, ArrayType type,
                                std::vector<size_t> operands, std::string attributes) {
  Node node;
  node.opcode = opcode;
  node.placements = {region.inside};
  if (region.inside.kind == Placement::Kind::kTiled) {
    node.placements[0].dims.resize(type.dims.size());
  }
  node.types = {std::move(type)};
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.in_region = true;
  return Emit(std::move(node));
}

ProgramMaker::ManualRegion ProgramMaker::EnterRegion() {
  ManualRegion region;
  region.whole = AnyNumeric(1);
  region.type = region.tile = TypeOf(region.whole);
  Placement& placement = region.placement;
  placement.kind = Placement::Kind::kTiled;
  placement.mesh = program_.mesh;
  placement.dims.resize(region.type.dims.size());
  region.dim = Index(placement.dims.size());
  region.axis = Index(placement.mesh.size());
  region.count = placement.mesh[region.axis];
  placement.dims[region.dim] = {region.axis};
  for (size_t axis = 0; axis < placement.mesh.size(); ++axis) {
    const size_t dim = Index(placement.dims.size());
    if (axis != region.axis && dim != region.dim && Chance(50)) placement.dims[dim].push_back(axis);
  }
  region.joined = placement;
  region.joined.dims[region.dim].clear();
  const bool is_subgroup = program_.mesh.size() > 1 && Chance(50);
  region.inside = is_subgroup ? placement : Manual();
  if (is_subgroup) {
    region.inside.dims[region.dim].clear();
    region.inside.manual = {region.axis};
  }
  for (size_t d = 0; d < placement.dims.size(); ++d) {
    for (size_t axis : placement.dims[d]) {
      if (is_subgroup && axis != region.axis) continue;
      if (region.tile.dims[d] % placement.mesh[axis] != 0) throw Rejected();
      region.tile.dims[d] /= placement.mesh[axis];
    }
  }
  Node cut;
  cut.opcode = Opcode::kCustomCall;
  cut.types = {region.type};
  cut.operands = {region.whole};
  cut.attributes = ", custom_call_target=\"Sharding\"";
  cut.placements = {placement};
  const size_t tiled = Emit(std::move(cut));
  Node enter;
  enter.opcode = Opcode::kCustomCall;
  enter.placements = {options_.shardy ? placement : region.inside};
  enter.types = {region.tile};
  enter.operands = {tiled};
  enter.attributes = ", custom_call_target=\"SPMDFullToShardShape\"";
  enter.in_region = true;
  MarkBorder(enter, region);
  region.local = Emit(std::move(enter));
  return region;
}

// Shardy's borders say both sides: the sharding of the whole array, and what is manual inside. Dims
// may take more axes if some are left to the partitioner.
void ProgramMaker::MarkBorder(Node& node, const ManualRegion& region) {
  if (!options_.shardy) return;
  const bool enters = node.attributes.find("FullToShard") != std::string::npos;
  node.attributes =
      fmt::format(", custom_call_target=\"xla.sdy.{}Shape\", custom_call_has_side_effect=true",
                  enters ? "GlobalToLocal" : "LocalToGlobal");
  if (region.inside.kind == Placement::Kind::kManual) {
    for (size_t axis = 0; axis < program_.mesh.size(); ++axis) node.border_axes.push_back(axis);
    return;
  }
  node.border_axes = {region.axis};
  Placement& placement = node.placements[0];
  for (size_t d = 0; d < placement.dims.size(); ++d) placement.open.push_back(Chance(50));
}

// The array whose tiles are `local`; without shardings `whole` instead.
void ProgramMaker::LeaveRegion(const ManualRegion& region, const Placement& placement, size_t local,
                               size_t whole) {
  Node full;
  full.opcode = Opcode::kCustomCall;
  full.types = {TypeOf(whole)};
  full.operands = {local};
  full.attributes = ", custom_call_target=\"SPMDShardToFullShape\"";
  full.placements = {placement};
  full.in_region = true;  // its twin is as good
  MarkBorder(full, region);
  const size_t tiled = Emit(std::move(full));
  Node choice;
  choice.opcode = Opcode::kCopy;
  choice.types = {TypeOf(whole)};
  choice.operands = {whole, tiled};
  choice.is_choice = true;
  Emit(std::move(choice));
}

// Devices that differ only along the axis, in its order.
std::vector<Sizes> ProgramMaker::GroupsAlong(size_t axis) const {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < program_.mesh.size(); ++i) stride *= program_.mesh[i];
  const int64_t count = program_.mesh[axis];
  std::vector<Sizes> groups;
  for (int64_t device = 0; device < program_.devices; ++device) {
    if (device / stride % count != 0) continue;
    Sizes& group = groups.emplace_back();
    for (int64_t i = 0; i < count; ++i) group.push_back(device + i * stride);
  }
  return groups;
}

size_t ProgramMaker::EmitCollective(Opcode opcode, ArrayType type, const ManualRegion& region,
                                    std::string attributes) {
  const bool permutes =
      opcode == Opcode::kCollectivePermute || opcode == Opcode::kCollectivePermuteStart;
  const bool gathers = opcode == Opcode::kAllGather || opcode == Opcode::kAllGatherStart;
  const bool folds = opcode == Opcode::kAllReduce || opcode == Opcode::kAllReduceStart ||
                     opcode == Opcode::kReduceScatter;
  Node node;
  node.opcode = opcode;
  node.operands = {region.local};
  node.placements = {region.inside};
  node.in_region = true;
  std::vector<std::string> groups;
  for (const Sizes& group : GroupsAlong(region.axis)) {
    if (permutes) {
      for (size_t i = 1; i < group.size(); ++i) {
        groups.push_back(fmt::format("{{{},{}}}", group[i - 1], group[i]));
      }
    } else {
      groups.push_back(fmt::format("{{{}}}", fmt::join(group, ",")));
    }
  }
  node.attributes =
      fmt::format(", channel_id={}, {}={{{}}}", program_.next_id + 1,
                  permutes ? "source_target_pairs" : "replica_groups", fmt::join(groups, ","));
  if (folds) {
    node.combiner = Combiner(Opcode::kAdd, type.dtype);
    node.fold_opcode = Opcode::kAdd;
    node.fold = region.count;
  }
  if (folds || gathers) node.attributes += ", use_global_device_ids=true";
  node.attributes += attributes;
  node.types = {std::move(type)};
  // What these start has the operand, too.
  if (opcode == Opcode::kAllGatherStart || opcode == Opcode::kCollectivePermuteStart) {
    node.tuple = true;
    node.types.insert(node.types.begin(), region.tile);
    node.placements.push_back(region.inside);
  }
  return Emit(std::move(node));
}

// The whole array with the cut dim as (tiles, tile).
size_t ProgramMaker::SplitByTiles(const ManualRegion& region) {
  ArrayType split = region.type;
  split.dims[region.dim] /= region.count;
  split.dims.insert(split.dims.begin() + static_cast<std::ptrdiff_t>(region.dim), region.count);
  return Emit(Opcode::kReshape, split, {region.whole});
}

size_t ProgramMaker::SumOfTiles(const ManualRegion& region) {
  const size_t split = SplitByTiles(region);
  Node sum;
  sum.opcode = Opcode::kReduce;
  sum.types = {region.type};
  sum.types[0].dims[region.dim] /= region.count;
  sum.operands = {split, Scalar(region.type.dtype, 0)};
  sum.attributes = fmt::format(", dimensions={{{}}}", region.dim);
  sum.combiner = Combiner(Opcode::kAdd, region.type.dtype);
  sum.fold = region.count;
  return Emit(std::move(sum));
}

// Zeros in front.
size_t ProgramMaker::ShiftedByOneTile(const ManualRegion& region) {
  const int64_t size = region.type.dims[region.dim] / region.count;
  std::vector<std::string> padding(region.type.dims.size(), "0_0");
  padding[region.dim] = fmt::format("{}_{}", size, -size);
  return Emit(Opcode::kPad, region.type, {region.whole, Scalar(region.type.dtype, 0)},
              fmt::format(", padding={}", fmt::join(padding, "x")));
}

// Piece i of the exchanged dim of device j comes from piece j of device i.
size_t ProgramMaker::ExchangeTiles(const ManualRegion& region, size_t other) {
  Sizes split = region.type.dims;
  Sizes places;  // in `split`, of the two dims of pieces
  for (size_t d = region.type.dims.size(); d-- > 0;) {
    if (d != region.dim && d != other) continue;
    split[d] /= region.count;
    split.insert(split.begin() + static_cast<std::ptrdiff_t>(d), region.count);
  }
  const size_t first = std::min(region.dim, other), second = std::max(region.dim, other) + 1;
  Sizes permutation;
  for (size_t d = 0; d < split.size(); ++d) permutation.push_back(static_cast<int64_t>(d));
  std::swap(permutation[first], permutation[second]);
  const ArrayType pieces{region.type.dtype, split};
  const size_t cut = Emit(Opcode::kReshape, pieces, {region.whole});
  const size_t swapped = Emit(Opcode::kTranspose, pieces, {cut},
                              fmt::format(", dimensions={{{}}}", fmt::join(permutation, ",")));
  return Emit(Opcode::kReshape, region.type, {swapped});
}

void ProgramMaker::MakeManual() {
  if (options_.for_xla || body_ != 0) throw Rejected();
  const ManualRegion region = EnterRegion();
  const ArrayType& tile = region.tile;
  ArrayType one_tile = region.type;
  one_tile.dims[region.dim] /= region.count;
  // A dim that is not cut and can be.
  std::vector<size_t> others;
  for (size_t d = 0; d < tile.dims.size(); ++d) {
    if (region.placement.dims[d].empty() && tile.dims[d] % region.count == 0) others.push_back(d);
  }
  switch (Below(9)) {
    case 0:
      LeaveRegion(region, region.placement,
                  EmitManual(region, Opcode::kNegate, tile, {region.local}),
                  Emit(Opcode::kNegate, region.type, {region.whole}));
      return;
    case 1:
      LeaveRegion(region, region.joined, EmitCollective(Opcode::kAllReduce, tile, region),
                  SumOfTiles(region));
      return;
    case 2: {
      ArrayType gathered = tile;
      gathered.dims[region.dim] *= region.count;
      const size_t local = EmitCollective(Opcode::kAllGather, gathered, region,
                                          fmt::format(", dimensions={{{}}}", region.dim));
      LeaveRegion(region, region.joined, local, Emit(Opcode::kCopy, region.type, {region.whole}));
      return;
    }
    case 3: {
      const size_t other = Pick(others);
      const size_t local = EmitCollective(Opcode::kAllToAll, tile, region,
                                          fmt::format(", dimensions={{{}}}", other));
      LeaveRegion(region, region.placement, local, ExchangeTiles(region, other));
      return;
    }
    case 4: {
      const size_t other = Pick(others);
      ArrayType scattered = tile;
      scattered.dims[other] /= region.count;
      Placement moved = region.joined;
      moved.dims[other] = {region.axis};
      const size_t local = EmitCollective(Opcode::kReduceScatter, scattered, region,
                                          fmt::format(", dimensions={{{}}}", other));
      LeaveRegion(region, moved, local, SumOfTiles(region));
      return;
    }
    case 5: {
      const size_t shifted = ShiftedByOneTile(region);
      LeaveRegion(region, region.placement,
                  EmitCollective(Opcode::kCollectivePermute, tile, region), shifted);
      return;
    }
    case 6: {  // everybody gets the first one's
      std::vector<std::string> parts;
      for (size_t d = 0; d < one_tile.dims.size(); ++d) {
        parts.push_back(fmt::format("[0:{}]", one_tile.dims[d]));
      }
      const size_t first = Emit(Opcode::kSlice, one_tile, {region.whole},
                                fmt::format(", slice={{{}}}", fmt::join(parts, ", ")));
      LeaveRegion(region, region.joined, EmitCollective(Opcode::kCollectiveBroadcast, tile, region),
                  first);
      return;
    }
    case 7: {  // one replica: the number is zero
      const ArrayType scalar{tile.dtype, {}};
      const size_t id = EmitManual(region, Opcode::kReplicaId, {DType::kU32, {}}, {});
      const size_t number = EmitManual(region, Opcode::kConvert, scalar, {id});
      const size_t numbers =
          EmitManual(region, Opcode::kBroadcast, tile, {number}, ", dimensions={}");
      LeaveRegion(region, region.placement,
                  EmitManual(region, Opcode::kAdd, tile, {region.local, numbers}),
                  Emit(Opcode::kCopy, region.type, {region.whole}));
      return;
    }
    default:
      AddPlaceNumbers(region);
  }
}

size_t ProgramMaker::ManualConstant(const ManualRegion& region, ArrayType type, std::string payload,
                                    int64_t magnitude) {
  Node node;
  node.opcode = Opcode::kConstant;
  node.placements = {region.inside};
  if (region.inside.kind == Placement::Kind::kTiled) {
    node.placements[0].dims.resize(type.dims.size());
  }
  node.types = {std::move(type)};
  node.payload = std::move(payload);
  node.magnitude = static_cast<double>(magnitude);
  node.in_region = true;
  return Emit(std::move(node));
}

// A device's number along the axis.
size_t ProgramMaker::PlaceNumber(const ManualRegion& region) {
  int64_t stride = 1;
  for (size_t i = region.axis + 1; i < program_.mesh.size(); ++i) stride *= program_.mesh[i];
  const ArrayType word{DType::kU32, {}};
  const auto constant = [&](int64_t value) {
    return ManualConstant(region, word, fmt::format("{}", value), value);
  };
  const size_t id = EmitManual(region, Opcode::kPartitionId, word, {});
  const size_t row = EmitManual(region, Opcode::kDivide, word, {id, constant(stride)});
  const size_t place = EmitManual(region, Opcode::kRemainder, word, {row, constant(region.count)});
  return EmitManual(region, Opcode::kMinimum, word, {place, constant(16)});
}

// Adds to each tile its number along the axis.
void ProgramMaker::AddPlaceNumbers(const ManualRegion& region) {
  const size_t bounded = PlaceNumber(region);
  const size_t number = EmitManual(region, Opcode::kConvert, {region.tile.dtype, {}}, {bounded});
  const size_t numbers =
      EmitManual(region, Opcode::kBroadcast, region.tile, {number}, ", dimensions={}");
  const size_t local = EmitManual(region, Opcode::kAdd, region.tile, {region.local, numbers});

  const size_t split = SplitByTiles(region);
  const ArrayType split_type = TypeOf(split);
  Node iota;
  iota.opcode = Opcode::kIota;
  iota.types = {{DType::kU32, split_type.dims}};
  iota.attributes = fmt::format(", iota_dimension={}", region.dim);
  iota.magnitude = static_cast<double>(region.count);
  const size_t places = Emit(Opcode::kConvert, split_type, {Emit(std::move(iota))});
  const size_t sum = Emit(Opcode::kAdd, split_type, {split, places});
  LeaveRegion(region, region.placement, local, Emit(Opcode::kReshape, region.type, {sum}));
}

// Piece i of a device's tile goes to the i-th of its group, where it becomes the piece of the
// sender's number.
void ProgramMaker::MakeManualExchange() {
  if (options_.for_xla || body_ != 0) throw Rejected();
  const ManualRegion region = EnterRegion();
  const int64_t count = region.count;
  const int64_t tile = region.type.dims[region.dim] / count;
  if (tile % count != 0) throw Rejected();
  size_t local = 0;
  if (region.dim == 0 && region.inside.kind == Placement::Kind::kManual && Chance(60)) {
    const int64_t piece = tile / count;
    const ArrayType list{DType::kS32, {count}};
    Sizes starts, sizes(static_cast<size_t>(count), piece);
    for (int64_t i = 0; i < count; ++i) starts.push_back(i * piece);
    const auto constant = [&](const Sizes& values) {
      return ManualConstant(region, list, fmt::format("{{{}}}", fmt::join(values, ", ")), tile);
    };
    const size_t place =
        EmitManual(region, Opcode::kConvert, {DType::kS32, {}}, {PlaceNumber(region)});
    const size_t places = EmitManual(region, Opcode::kBroadcast, list, {place}, ", dimensions={}");
    const size_t own = EmitManual(region, Opcode::kMultiply, list, {places, constant(sizes)});
    const size_t zero = ManualConstant(region, {region.tile.dtype, {}}, "0", 0);
    const size_t empty =
        EmitManual(region, Opcode::kBroadcast, region.tile, {zero}, ", dimensions={}");
    std::vector<std::string> groups;
    for (const Sizes& group : GroupsAlong(region.axis)) {
      groups.push_back(fmt::format("{{{}}}", fmt::join(group, ",")));
    }
    local =
        EmitManual(region, Opcode::kRaggedAllToAll, region.tile,
                   {region.local, empty, constant(starts), constant(sizes), own, constant(sizes)},
                   fmt::format(", channel_id={}, replica_groups={{{}}}", program_.next_id + 1,
                               fmt::join(groups, ",")));
  } else {
    local = EmitCollective(Opcode::kAllToAll, region.tile, region,
                           fmt::format(", dimensions={{{}}}", region.dim));
  }
  const auto at = static_cast<std::ptrdiff_t>(region.dim);
  Sizes split = region.type.dims, permutation;
  split[region.dim] = tile / count;
  split.insert(split.begin() + at, {count, count});
  for (size_t d = 0; d < split.size(); ++d) permutation.push_back(static_cast<int64_t>(d));
  std::swap(permutation[region.dim], permutation[region.dim + 1]);
  const ArrayType pieces{region.type.dtype, split};
  const size_t cut = Emit(Opcode::kReshape, pieces, {region.whole});
  const size_t swapped = Emit(Opcode::kTranspose, pieces, {cut},
                              fmt::format(", dimensions={{{}}}", fmt::join(permutation, ",")));
  LeaveRegion(region, region.placement, local, Emit(Opcode::kReshape, region.type, {swapped}));
}

size_t ProgramMaker::EmitAsync(Opcode start, Opcode done, ArrayType type,
                               const ManualRegion& region, std::string attributes) {
  const size_t started = EmitCollective(start, type, region, std::move(attributes));
  return EmitManual(region, done, std::move(type), {started});
}

// Collectives that begin at one place of the program and end at another.
void ProgramMaker::MakeManualAsync() {
  if (options_.for_xla || body_ != 0) throw Rejected();
  const ManualRegion region = EnterRegion();
  if (region.inside.kind != Placement::Kind::kManual) throw Rejected();
  const ArrayType& tile = region.tile;
  switch (Below(3)) {
    case 0:
      LeaveRegion(region, region.joined,
                  EmitAsync(Opcode::kAllReduceStart, Opcode::kAllReduceDone, tile, region),
                  SumOfTiles(region));
      return;
    case 1: {
      ArrayType gathered = tile;
      gathered.dims[region.dim] *= region.count;
      const size_t local = EmitAsync(Opcode::kAllGatherStart, Opcode::kAllGatherDone, gathered,
                                     region, fmt::format(", dimensions={{{}}}", region.dim));
      LeaveRegion(region, region.joined, local, Emit(Opcode::kCopy, region.type, {region.whole}));
      return;
    }
    default:
      LeaveRegion(
          region, region.placement,
          EmitAsync(Opcode::kCollectivePermuteStart, Opcode::kCollectivePermuteDone, tile, region),
          ShiftedByOneTile(region));
  }
}

}  // namespace gshard::property
