// Finds or infers the mesh of a module. See meshes.h.

#include "core/analysis/meshes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

std::vector<int64_t> SizesOf(const std::vector<MeshAxis>& axes) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
  return sizes;
}

// The meshes of `xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}` that list no device ids.
std::vector<const Mesh*> ShardyMeshes(Context& ctx, std::string_view text) {
  std::vector<const Mesh*> meshes;
  constexpr std::string_view kOpen = "#sdy.mesh<[";
  for (size_t at = text.find(kOpen); at != std::string_view::npos; at = text.find(kOpen, at)) {
    at += kOpen.size();
    size_t close = text.find(']', at);
    if (close == std::string_view::npos) break;
    std::string_view list = text.substr(at, close - at);
    Mesh mesh;
    while (true) {
      size_t quote = list.find('"');
      size_t end = quote == std::string_view::npos ? quote : list.find('"', quote + 1);
      if (end == std::string_view::npos || end + 2 > list.size()) break;
      int64_t size = 0;
      std::string_view rest = list.substr(end + 2);
      auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
      if (error != std::errc() || size < 1) break;
      std::string_view name = list.substr(quote + 1, end - quote - 1);
      if (name.ends_with('\\')) name.remove_suffix(1);  // the attribute is a string: \"x\"=2
      mesh.axes.push_back({std::string(name), size});
      list = rest.substr(static_cast<size_t>(stop - rest.data()));
    }
    bool plain = text.substr(close, 2) == "]>";
    if (plain && !mesh.axes.empty()) {
      mesh.name = "mesh";
      mesh.devices = TileAssignment::Iota(SizesOf(mesh.axes));
      meshes.push_back(ctx.Intern(std::move(mesh)));
    }
  }
  return meshes;
}

void ForEachLeaf(const Sharding* sharding, auto&& visit) {
  if (sharding == nullptr) return;
  if (!sharding->IsTuple()) return visit(sharding);
  for (const Sharding* leaf : sharding->elements) visit(leaf);
}

// Cuts 1 = c0 < c1 < .. < ck = N of the device numbers such that every axis of every sharding spans
// whole pieces [c_i, c_j); axis i of the mesh then has size c_{i+1} / c_i.
const Mesh* InferMesh(Module& module, int64_t devices) {
  std::set<int64_t> cuts = {1, devices};
  std::set<const Sharding*> seen;
  for (Computation* computation : module.computations()) {
    for (Instruction* instruction : computation->instructions()) {
      ForEachLeaf(instruction->sharding(), [&](const Sharding* leaf) {
        if (!leaf->IsTiled() || !leaf->tiles.has_axes() || !seen.insert(leaf).second) return;
        for (int64_t dim = 0; dim < leaf->tiles.rank(); ++dim) {
          auto axes = leaf->tiles.AxesOfDim(dim);
          if (!axes) continue;
          for (const DeviceAxis& axis : *axes) {
            cuts.insert(axis.stride);
            cuts.insert(axis.stride * axis.size);
          }
        }
      });
    }
  }
  Mesh mesh;
  std::vector<int64_t> chain(cuts.rbegin(), cuts.rend());
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    if (chain[i] % chain[i + 1] != 0) {  // pieces that do not nest: one axis for all
      chain = {devices, 1};
      mesh.axes.clear();
      i = 0;
    }
    mesh.axes.push_back({fmt::format("axis{}", mesh.axes.size()), chain[i] / chain[i + 1]});
  }
  mesh.devices = TileAssignment::Iota(SizesOf(mesh.axes));
  return module.context().Intern(std::move(mesh));
}

// Calls visit(axis, coordinate) for each axis of the mesh, minor to major.
template <typename Visit>
void ForEachCoordinate(const Mesh& mesh, int64_t device, Visit visit) {
  int64_t index = mesh.devices.FlatIndexOf(device);
  for (size_t axis = mesh.axes.size(); axis-- > 0;) {
    visit(axis, index % mesh.axes[axis].size);
    index /= mesh.axes[axis].size;
  }
}

// Coordinates taken along each mesh axis by `members` -> names; empty if they are no full product.
std::vector<std::string> AxesSpanned(const Mesh& mesh, std::span<const int64_t> members) {
  std::vector<std::vector<bool>> taken;
  for (const MeshAxis& axis : mesh.axes) taken.emplace_back(static_cast<size_t>(axis.size));
  for (int64_t device : members) {
    if (device < 0 || device >= mesh.device_count()) return {};
    ForEachCoordinate(mesh, device, [&](size_t axis, int64_t coordinate) {
      taken[axis][static_cast<size_t>(coordinate)] = true;
    });
  }
  std::vector<std::string> names;
  int64_t product = 1;
  for (size_t i = 0; i < taken.size(); ++i) {
    const int64_t count = std::ranges::count(taken[i], true);
    if (count == 1) continue;
    product *= count;
    const int64_t size = mesh.axes[i].size;
    const auto first = std::ranges::find(taken[i], true);
    const int64_t step = std::find(std::next(first), taken[i].end(), true) - first;
    if (count == size) {
      names.push_back(mesh.axes[i].name);
    } else if (size % (step * count) == 0) {
      names.push_back(fmt::format("{}:({}){}", mesh.axes[i].name, size / (step * count), count));
    } else {
      return {};
    }
  }
  if (product != static_cast<int64_t>(members.size())) return {};
  return names;
}

}  // namespace

const Mesh* NamedMesh(Module& module) {
  const int64_t devices = module.DeviceCount();
  Context& ctx = module.context();
  std::vector<const Mesh*> declared = module.header().meshes;
  std::string recorded = FrontendAttribute(module.header().frontend_attributes, kMeshesAttribute);
  if (!recorded.empty()) {
    if (auto meshes = ParseMeshes(ctx, recorded)) {
      declared.insert(declared.end(), meshes->begin(), meshes->end());
    }
  }
  for (const Mesh* mesh : ShardyMeshes(ctx, module.header().frontend_attributes)) {
    declared.push_back(mesh);
  }
  for (const Mesh* mesh : declared) {
    if (mesh->device_count() == devices) return mesh;
  }
  const Mesh* used = nullptr;
  for (Computation* computation : module.computations()) {
    for (Instruction* instruction : computation->instructions()) {
      ForEachLeaf(instruction->sharding(), [&](const Sharding* leaf) {
        const Mesh* mesh = leaf->named == nullptr ? nullptr : leaf->named->mesh;
        if (used == nullptr && mesh != nullptr && mesh->device_count() == devices) used = mesh;
      });
      if (used != nullptr) return used;
    }
  }
  return nullptr;
}

const Mesh* MainMesh(Module& module) {
  const int64_t devices = module.DeviceCount();
  if (devices <= 1) return nullptr;
  if (const Mesh* named = NamedMesh(module)) return named;
  const std::string recorded =
      FrontendAttribute(module.header().frontend_attributes, kInferredMeshAttribute);
  if (!recorded.empty()) {
    auto meshes = ParseMeshes(module.context(), recorded);
    if (meshes && meshes->size() == 1 && meshes->front()->device_count() == devices) {
      return meshes->front();
    }
  }
  return InferMesh(module, devices);
}

void RecordInferredMesh(Module& module) {
  const int64_t devices = module.DeviceCount();
  if (devices <= 1 || NamedMesh(module) != nullptr) return;
  Mesh mesh = *InferMesh(module, devices);
  if (mesh.axes.size() <= 1) return;
  mesh.name = "mesh";
  const Mesh* named = module.context().Intern(std::move(mesh));
  ModuleHeader& header = module.header();
  header.frontend_attributes =
      WithFrontendAttribute(module.arena(), header.frontend_attributes, kInferredMeshAttribute,
                            ToString(std::span<const Mesh* const>(&named, 1)));
}

void DeclareMainMesh(Module& module) {
  std::vector<const Mesh*>& declared = module.header().meshes;
  const int64_t devices = module.DeviceCount();
  auto spans_all = [&](const Mesh* mesh) { return mesh->device_count() == devices; };
  if (std::any_of(declared.begin(), declared.end(), spans_all)) return;
  const Mesh* main = MainMesh(module);
  if (main == nullptr || main->axes.empty()) return;
  Mesh named = *main;
  if (named.name.empty()) named.name = "mesh";
  auto is_taken = [&](const Mesh* mesh) { return mesh->name == named.name; };
  while (std::any_of(declared.begin(), declared.end(), is_taken)) named.name += '_';
  declared.push_back(module.context().Intern(std::move(named)));
}

std::vector<std::string> AxesOfGroups(const Mesh& mesh, const TileAssignment& groups) {
  std::vector<int64_t> members;
  int64_t size = groups.rank() == 2 ? groups.dim(1) : groups.device_count();
  for (int64_t member = 0; member < size; ++member) members.push_back(groups.DeviceAtFlat(member));
  return AxesSpanned(mesh, members);
}

std::vector<std::string> AxesOfPairs(const Mesh& mesh, std::span<const DevicePair> pairs) {
  struct Digit {
    size_t axis;
    uint32_t stride, size;
    uint32_t Of(uint32_t device) const { return device / stride % size; }
  };
  std::vector<Digit> still;  // axes along which no pair has moved yet
  auto stride = static_cast<uint32_t>(mesh.device_count());
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const auto size = static_cast<uint32_t>(mesh.axes[axis].size);
    stride /= size;
    if (size > 1) still.push_back({axis, stride, size});
  }
  const std::span<const DeviceAxis> order = mesh.devices.axes();
  const bool is_in_order = mesh.devices.has_axes() && order.size() == 1 && order[0].stride == 1;
  const auto index_of = [&](int64_t device) {
    return static_cast<uint32_t>(is_in_order ? device : mesh.devices.FlatIndexOf(device));
  };
  std::vector<bool> moved(mesh.axes.size());
  for (const DevicePair& pair : pairs) {
    if (std::max(pair.source, pair.target) >= mesh.device_count()) return {};
    if (still.empty()) continue;
    const uint32_t from = index_of(pair.source), to = index_of(pair.target);
    std::erase_if(still, [&](const Digit& digit) {
      if (digit.Of(from) == digit.Of(to)) return false;
      moved[digit.axis] = true;
      return true;
    });
  }
  std::vector<std::string> names;
  for (size_t axis = 0; axis < moved.size(); ++axis) {
    if (moved[axis]) names.push_back(mesh.axes[axis].name);
  }
  return names;
}

}  // namespace gshard
