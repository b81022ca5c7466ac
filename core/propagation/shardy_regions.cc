#include "core/propagation/shardy_regions.h"

#include <algorithm>
#include <unordered_map>

#include "core/propagation/rules.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/custom_call.h"
#include "ir/metadata.h"
#include "ir/ops/shape_rules.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/shardy_attribute.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

constexpr std::string_view kEnter = "xla.sdy.GlobalToLocalShape";
constexpr std::string_view kLeave = "xla.sdy.LocalToGlobalShape";

bool IsMarker(const Instruction& x) {
  return IsCustomCallTo(x, kEnter) || IsCustomCallTo(x, kLeave);
}

// Where an instruction is: the mesh and those of its axes that are manual there, outermost first.
struct Region {
  ShardyMesh mesh;
  std::vector<std::string> manual;
};

const Instruction* BehindElement(const Instruction* x) {
  return x->opcode() == Opcode::kGetTupleElement ? x->operand(0) : x;
}

class RegionImport {
 public:
  RegionImport(Module& module, const ShardyMeshes& meshes) : module_(module), meshes_(meshes) {}

  Expected<void> Run() {
    // Callers before callees: a region is known before its body is looked at.
    std::vector<Computation*> order = CallPostOrder(module_);
    regions_[module_.entry()] = {};
    std::reverse(order.begin(), order.end());
    for (Computation* computation : order) {
      auto it = regions_.find(computation);
      if (it == regions_.end()) continue;
      if (Expected<void> ok = ImportInto(computation, Region(it->second)); !ok) return ok;
    }
    return {};
  }

 private:
  Diagnostic Error(const Instruction* x, std::string_view why) {
    return module_.ErrorAt(
        x, "E-SDY-003", fmt::format("cannot read the manual region of '{}': {}", x->name(), why));
  }

  Expected<void> ImportInto(Computation* computation, const Region& region) {
    std::vector<Instruction*> list;
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    if (Expected<void> ok = FindBodies(old, region); !ok) return ok;
    for (Instruction* x : old) {
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, Resolve(x->operand(i)));
      if (TakePiece(x)) continue;
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        auto whole = Whole(x->operand(i), region, list);
        if (!whole) return Fail(whole.error());
        x->set_operand(i, *whole);
      }
      if (IsMarker(*x)) {
        if (Expected<void> ok = Convert(x, region, list); !ok) return ok;
        continue;
      }
      list.push_back(x);
      // A body's call and the elements of its result are inside, too.
      auto body = body_calls_.find(BehindElement(x));
      const Region& where = body != body_calls_.end() ? body->second : region;
      if (Expected<void> ok = Visit(x, where); !ok) return ok;
    }
    auto root = Whole(Resolve(computation->root()), region, list);
    if (!root) return Fail(root.error());
    computation->SetInstructions(std::move(list));
    computation->set_root(*root);
    return {};
  }

  // A value itself; of a tuple that leaves a region, a tuple of the values that it became: XLA's
  // tuple simplifier has such tuples used whole.
  Expected<Instruction*> Whole(Instruction* x, const Region& region,
                               std::vector<Instruction*>& list) {
    auto it = pieces_.find(x);
    if (it == pieces_.end()) return x;
    if (IsCustomCallTo(*x, kEnter)) return Fail(Error(x, "its tuple enters whole"));
    Instruction* tuple =
        module_.Add(x->parent(), Opcode::kTuple, module_.UniqueName(x->name()), x->shape(),
                    std::span<Instruction* const>(it->second), NoAttributes{});
    tuple->set_metadata(x->metadata());
    tuple->set_source(x->source());
    list.push_back(tuple);
    if (Expected<void> ok = Visit(tuple, region); !ok) return Fail(ok.error());
    return tuple;
  }

  // The calls between markers, and the region each of them opens.
  Expected<void> FindBodies(const std::vector<Instruction*>& list, const Region& outer) {
    for (const Instruction* x : list) {
      if (x->opcode() == Opcode::kCall) {
        for (const Instruction* operand : x->operands()) {
          const Instruction* marker = BehindElement(operand);
          if (!IsCustomCallTo(*marker, kEnter)) continue;
          if (Expected<void> ok = OpenBody(x, marker, outer); !ok) return ok;
          break;
        }
      } else if (IsCustomCallTo(*x, kLeave)) {
        for (const Instruction* operand : x->operands()) {
          const Instruction* call = BehindElement(operand);
          if (call->opcode() != Opcode::kCall || body_calls_.count(call) != 0) continue;
          if (Expected<void> ok = OpenBody(call, x, outer); !ok) return ok;
        }
      }
    }
    return {};
  }

  Expected<void> OpenBody(const Instruction* call, const Instruction* marker, const Region& outer) {
    std::vector<ShardySharding> shardings;
    Region inside;
    if (Expected<void> ok = ReadMarker(marker, outer, shardings, inside); !ok) return ok;
    body_calls_[call] = std::move(inside);
    return {};
  }

  // Newer text of XLA has no attributes at the markers: the values before one that enters, and the
  // results of one that leaves, have shardings by mesh axes, and on the other side the shardings
  // name the manual axes. False if they do not.
  bool ReadMarkerShardings(const Instruction* marker, const Region& outer,
                           std::vector<ShardySharding>& shardings, Region& inside) const {
    const bool enters = IsCustomCallTo(*marker, kEnter);
    if (marker->operand_count() == 0) return false;
    // What has been visited is marked already: its region is known.
    const auto known = body_calls_.find(BehindElement(marker->operand(0)));
    if (enters || known == body_calls_.end()) {
      const Sharding* manual = enters ? LeafSharding(marker->sharding(), 0) : OfOperand(*marker, 0);
      if (manual == nullptr || manual->named == nullptr || manual->named->mesh == nullptr) {
        return false;
      }
      inside = InsideOf(*manual->named, outer);
    } else {
      inside = known->second;
    }
    std::vector<ShardySharding> list;
    for (int64_t k = 0; k < marker->operand_count(); ++k) {
      const Sharding* whole =
          enters ? OfOperand(*marker, k) : LeafSharding(marker->sharding(), static_cast<size_t>(k));
      const Shape* shape = marker->operand(k)->shape();
      if (whole == nullptr || whole->named == nullptr || whole->named->mesh == nullptr ||
          !shape->IsArray()) {
        return false;
      }
      list.push_back(ShardyShardingOf(*whole->named, shape->rank()));
    }
    shardings = std::move(list);
    return true;
  }

  // The region within `outer` whose values have a sharding with those manual axes.
  static Region InsideOf(const NamedSharding& named, const Region& outer) {
    Region inside = outer;
    inside.mesh = ShardyShardingOf(named, 0).mesh;
    for (const std::string& axis : ManualAxesOf(named)) {
      if (std::ranges::find(inside.manual, axis) == inside.manual.end()) {
        inside.manual.push_back(axis);
      }
    }
    return inside;
  }

  // An element of a tuple may leave it to the tuple.
  static const Sharding* OfOperand(const Instruction& x, int64_t k) {
    const Instruction* operand = x.operand(k);
    if (operand->sharding() != nullptr) return operand->sharding();
    if (operand->opcode() != Opcode::kGetTupleElement) return nullptr;
    const auto index = operand->attributes<GetTupleElementAttributes>().index;
    return LeafSharding(operand->operand(0)->sharding(), static_cast<size_t>(index));
  }

  Expected<void> ReadMarker(const Instruction* marker, const Region& outer,
                            std::vector<ShardySharding>& shardings, Region& inside) {
    std::string_view attributes = marker->frontend_attributes();
    if (FrontendAttribute(attributes, "xla.sdy.manual_axes").empty() &&
        ReadMarkerShardings(marker, outer, shardings, inside)) {
      return {};
    }
    std::string_view key =
        IsCustomCallTo(*marker, kEnter) ? "xla.sdy.in_shardings" : "xla.sdy.out_shardings";
    std::string text = FrontendAttribute(attributes, key);
    TextError error;
    if (!ReadShardyShardings(text, meshes_, shardings, &error)) {
      return Fail(Error(marker, fmt::format("{} = {}: {}", key, text, error.message)));
    }
    inside = outer;
    std::string axes = FrontendAttribute(attributes, "xla.sdy.manual_axes");
    if (!ReadShardyManualAxes(axes, inside.manual)) {
      return Fail(Error(marker, "xla.sdy.manual_axes = " + axes));
    }
    const Shape* shape = marker->shape();
    const size_t results = shape->IsTuple() ? shape->elements().size() : 1;
    if (static_cast<int64_t>(shardings.size()) != marker->operand_count() ||
        static_cast<int64_t>(results) != marker->operand_count()) {
      return Fail(Error(marker, fmt::format("{} shardings for {} operands and {} results",
                                            shardings.size(), marker->operand_count(), results)));
    }
    if (!shardings.empty()) inside.mesh = shardings[0].mesh;
    return {};
  }

  // A marker of n values as n pairs of a Sharding call on the side it comes from and a call that
  // changes sides.
  Expected<void> Convert(Instruction* x, const Region& outer, std::vector<Instruction*>& list) {
    std::vector<ShardySharding> shardings;
    Region inside;
    if (Expected<void> ok = ReadMarker(x, outer, shardings, inside); !ok) return ok;
    const bool enters = IsCustomCallTo(*x, kEnter);
    const Region& from = enters ? outer : inside;
    const Region& to = enters ? inside : outer;
    std::vector<Instruction*> results;
    for (int64_t k = 0; k < x->operand_count(); ++k) {
      const ShardySharding& sharding = shardings[static_cast<size_t>(k)];
      Instruction* operand = x->operand(k);
      auto here = Parse(x, sharding, from);
      if (!here) return Fail(here.error());
      auto beyond = Parse(x, sharding, to);
      if (!beyond) return Fail(beyond.error());
      const Shape* shape = x->shape()->IsTuple() ? x->shape()->element(k) : x->shape();
      if (!SameButForLengths(operand->shape(), shape)) {
        return Fail(Error(x, fmt::format("operand {} is {} on one side and {} on the other", k,
                                         ToString(operand->shape(), /*layouts=*/false),
                                         ToString(shape, /*layouts=*/false))));
      }
      Instruction* copy = AddCall(x, operand, operand->shape(), kShardingTarget);
      copy->set_sharding(*here);
      Instruction* border =
          AddCall(x, copy, shape, enters ? kEnterManualTarget : kLeaveManualTarget);
      border->set_sharding(*beyond);
      for (Instruction* made : {copy, border}) {
        SetOpenDims(made, sharding);
        list.push_back(made);
      }
      results.push_back(border);
    }
    if (x->shape()->IsTuple()) {
      pieces_[x] = std::move(results);
    } else {
      value_[x] = results[0];
    }
    return {};
  }

  Instruction* AddCall(const Instruction* origin, Instruction* operand, const Shape* shape,
                       std::string_view target) {
    CustomCallAttributes attributes;
    attributes.target = target;
    Instruction* const operands[] = {operand};
    Instruction* made =
        module_.Add(origin->parent(), Opcode::kCustomCall, module_.UniqueName(origin->name()),
                    shape, operands, attributes);
    made->set_metadata(origin->metadata());
    made->set_source(origin->source());
    return made;
  }

  void SetOpenDims(Instruction* x, const ShardySharding& sharding) {
    if (sharding.open_dims.empty() || x->sharding()->IsManual()) return;
    x->set_backend_config(module_.arena().Copy(std::string_view(
        fmt::format("\"unspecified_dims=[{}]\"", fmt::join(sharding.open_dims, ",")))));
  }

  Expected<const Sharding*> Parse(const Instruction* x, const ShardySharding& sharding,
                                  const Region& region) {
    tl::expected<const Sharding*, TextError> s =
        ParseSharding(module_.context(), MeshFormOf(sharding, region.manual));
    if (!s) return Fail(Error(x, s.error().message));
    return (*s)->IsManual() ? module_.context().Manual() : *s;
  }

  // The sharding of a value of a region of which nothing else is known.
  Expected<const Sharding*> ManualOnly(const Instruction* x, const Region& region, int64_t rank) {
    ShardySharding sharding;
    sharding.mesh = region.mesh;
    sharding.dims.resize(static_cast<size_t>(rank));
    return Parse(x, sharding, region);
  }

  Expected<void> Visit(Instruction* x, const Region& region) {
    const bool flow = x->opcode() == Opcode::kCall || x->opcode() == Opcode::kWhile ||
                      x->opcode() == Opcode::kConditional;
    for (Computation* called : x->called()) {
      if (!flow) continue;
      auto [it, fresh] = regions_.try_emplace(called, region);
      if (!fresh && it->second.manual != region.manual) {
        return Fail(Error(
            x, fmt::format("'{}' is called both with the manual axes [{}] and [{}]", called->name(),
                           fmt::join(it->second.manual, ", "), fmt::join(region.manual, ", "))));
      }
    }
    if (region.manual.empty()) return {};
    return Mark(x, region);
  }

  // Gives an instruction of a region its manual sharding. In a region of only some axes the rest
  // is for propagation to find, but for what nothing reaches.
  Expected<void> Mark(Instruction* x, const Region& region) {
    const Shape* shape = x->shape();
    auto base = ManualOnly(x, region, shape->IsArray() ? shape->rank() : 0);
    if (!base) return Fail(base.error());
    if ((*base)->IsManual()) {
      x->set_sharding(shape->IsTuple() ? module_.context().TupleOf(LeafShardings(shape, *base))
                                       : *base);
      return {};
    }
    std::string attribute = FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding");
    if (attribute.empty() || HasStaleShardyAttribute(*x)) {
      if (x->opcode() == Opcode::kPartitionId) x->set_sharding(*base);
      return {};
    }
    std::vector<ShardySharding> shardings;
    if (!ReadShardyShardings(attribute, meshes_, shardings) || shardings.size() != 1 ||
        !shape->IsArray()) {
      return Fail(Error(x, "xla.sdy.sharding = " + attribute));
    }
    auto s = Parse(x, shardings[0], region);
    if (!s) return Fail(s.error());
    x->set_sharding(*s);
    if (IsCustomCallTo(*x, kShardingTarget)) SetOpenDims(x, shardings[0]);
    return {};
  }

  // Elements of a tuple marker are the values it became.
  bool TakePiece(Instruction* x) {
    if (x->opcode() != Opcode::kGetTupleElement) return false;
    auto it = pieces_.find(x->operand(0));
    if (it == pieces_.end()) return false;
    value_[x] = it->second[static_cast<size_t>(x->attributes<GetTupleElementAttributes>().index)];
    return true;
  }

  Instruction* Resolve(Instruction* x) const {
    auto it = value_.find(x);
    return it == value_.end() ? x : it->second;
  }

  Module& module_;
  const ShardyMeshes& meshes_;
  std::unordered_map<const Computation*, Region> regions_;
  std::unordered_map<const Instruction*, Region> body_calls_;
  std::unordered_map<const Instruction*, Instruction*> value_;  // what stands for what is gone
  std::unordered_map<const Instruction*, std::vector<Instruction*>> pieces_;  // of tuple markers
};

}  // namespace

Expected<bool> ImportManualRegions(Module& module, const ShardyMeshes& meshes) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (!IsMarker(*x)) continue;
      if (Expected<void> ok = RegionImport(module, meshes).Run(); !ok) return Fail(ok.error());
      return true;
    }
  }
  return false;
}

}  // namespace gshard
