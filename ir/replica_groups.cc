#include "ir/replica_groups.h"

#include <algorithm>
#include <numeric>

#include "ir/device_text.h"
#include "ir/named_sharding.h"

namespace gshard {

ReplicaGroups ReplicaGroups::FromTiles(TileAssignment groups, Form form) {
  CheckInternal(groups.rank() == 2, "replica groups are groups by members");
  ReplicaGroups result;
  result.form_ = form;
  result.tiles_ = std::make_shared<TileAssignment>(std::move(groups));
  return result;
}

ReplicaGroups ReplicaGroups::FromLists(std::vector<std::vector<int64_t>> lists) {
  if (lists.empty()) return {};
  ReplicaGroups result;
  result.form_ = Form::kLists;
  const size_t size = lists[0].size();
  if (size > 0 && std::ranges::all_of(lists, [size](const auto& l) { return l.size() == size; })) {
    std::vector<int64_t> flat;
    flat.reserve(lists.size() * size);
    for (const std::vector<int64_t>& list : lists)
      flat.insert(flat.end(), list.begin(), list.end());
    if (TileAssignment::IsPermutation(flat)) {
      const std::vector<int64_t> dims = {static_cast<int64_t>(lists.size()),
                                         static_cast<int64_t>(size)};
      return FromTiles(TileAssignment::List(dims, std::move(flat)), Form::kLists);
    }
  }
  result.lists_ = std::make_shared<std::vector<std::vector<int64_t>>>(std::move(lists));
  return result;
}

std::vector<std::vector<int64_t>> ReplicaGroups::ToLists(int64_t device_count) const {
  if (lists_ != nullptr) return *lists_;
  const std::vector<int64_t> flat =
      tiles_ != nullptr ? tiles_->ToList()
                        : TileAssignment::Iota(std::vector<int64_t>{device_count}).ToList();
  const int64_t size = GroupSize(device_count);
  std::vector<std::vector<int64_t>> lists;
  for (auto from = flat.begin(); from != flat.end(); from += size)
    lists.emplace_back(from, from + size);
  return lists;
}

int64_t ReplicaGroups::GroupCount() const {
  if (lists_ != nullptr) return static_cast<int64_t>(lists_->size());
  return tiles_ != nullptr ? tiles_->dim(0) : 1;
}

int64_t ReplicaGroups::GroupSize(int64_t device_count, int64_t group) const {
  if (lists_ != nullptr) return static_cast<int64_t>((*lists_)[static_cast<size_t>(group)].size());
  return tiles_ != nullptr ? tiles_->dim(1) : device_count;
}

bool ReplicaGroups::operator==(const ReplicaGroups& other) const {
  if (tiles_ != nullptr && other.tiles_ != nullptr) return *tiles_ == *other.tiles_;
  if (lists_ != nullptr && other.lists_ != nullptr) return *lists_ == *other.lists_;
  return IsAll() && other.IsAll();
}

namespace {

bool ReadLists(DeviceTextReader& in, ReplicaGroups& groups) {
  std::vector<std::vector<int64_t>> lists;
  if (!in.lex.Consume('}')) {
    do {
      if (!in.Expect('{', "'{' and the members of a group")) return false;
      std::vector<int64_t>& list = lists.emplace_back();
      if (in.lex.Consume('}')) continue;
      if (!in.IntegerList(list, 0, INT64_MAX, '}', "a device number")) return false;
    } while (in.lex.Consume(','));
    if (!in.Expect('}', "',' or '}'")) return false;
  }
  groups = ReplicaGroups::FromLists(std::move(lists));
  return true;
}

bool ReadIota(DeviceTextReader& in, ReplicaGroups& groups) {
  const char* start = in.lex.position();
  std::vector<int64_t> dims, reshape_dims, permutation;
  if (!in.Dims(dims, "the number and size of groups")) return false;
  if (dims.size() != 2) {
    return in.Fail(start, in.lex.position(),
                   "expected two dims: the number of groups and their size");
  }
  if (!in.lex.Consume("<=")) return in.FailHere("expected '<='");
  if (!in.IotaOrder(dims[0] * dims[1], reshape_dims, permutation)) return false;
  groups = ReplicaGroups::FromTiles(TileAssignment::Iota(dims, reshape_dims, permutation));
  return true;
}

bool ReadMesh(DeviceTextReader& in, ReplicaGroups& groups) {
  Mesh mesh;
  if (!in.MeshBody(mesh)) return false;
  in.lex.Consume(',');
  in.lex.SkipSpace();
  const char* start = in.lex.position();
  std::vector<AxisRef> refs, used;
  if (!in.AxisList(mesh, refs, used, nullptr)) return false;
  if (refs.empty())
    return in.Fail(start, in.lex.position(), "expected an axis that the groups vary");
  Canonicalise(mesh, refs);
  groups = ReplicaGroups::FromTiles(GroupsAlong(mesh, refs));
  std::string text = "mesh";
  AppendMeshBody(text, mesh);
  text += ' ';
  AppendAxes(text, mesh, refs, ",");
  groups.set_mesh_text(std::move(text));
  return true;
}

}  // namespace

tl::expected<ReplicaGroups, TextError> ParseReplicaGroups(std::string_view text) {
  DeviceTextReader in(text);
  ReplicaGroups groups;
  bool ok = false;
  if (in.lex.Consume('{')) {
    ok = ReadLists(in, groups);
  } else if (in.lex.Peek() == '[') {
    ok = ReadIota(in, groups);
  } else if (in.lex.ConsumeWord("mesh")) {
    ok = ReadMesh(in, groups);
  } else {
    in.FailHere("expected {{0,1},..}, [groups,members]<=[..] or mesh[..] {'axis'}");
  }
  if (!ok || !in.ExpectEnd()) return tl::unexpected<TextError>(in.error());
  return groups;
}

std::string ToString(const ReplicaGroups& groups) {
  switch (groups.form()) {
    case ReplicaGroups::Form::kAll:
      return "{}";
    case ReplicaGroups::Form::kMesh:
      return groups.mesh_text();
    case ReplicaGroups::Form::kIota:
      return groups.tiles()->ToString();
    case ReplicaGroups::Form::kLists:
      break;
  }
  std::string out = "{";
  for (const std::vector<int64_t>& list : groups.ToLists(0)) {
    if (out.size() > 1) out += ',';
    out += '{';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out += ',';
      AppendInteger(out, list[i]);
    }
    out += '}';
  }
  out += '}';
  return out;
}

}  // namespace gshard
