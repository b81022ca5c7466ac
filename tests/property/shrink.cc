// Steps that make a program smaller: fewer results, nodes, annotations, mesh axes.
#include "tests/property/shrink.h"

#include <algorithm>

namespace gshard::property {
namespace {

class Shrinker {
 public:
  Shrinker(Program program, int budget, const std::function<bool(const Program&)>& fails)
      : program_(std::move(program)), budget_(budget), fails_(fails) {}

  Program Run() {
    bool changed = true;
    while (changed && budget_ > 0) {
      changed = false;
      changed |= FewerResults();
      changed |= FewerNodes();
      changed |= FewerPlacements();
      changed |= SmallerMesh();
      changed |= FewerFlags();
    }
    return std::move(program_);
  }

 private:
  // Takes `candidate` if it fails too.
  bool Try(Program candidate) {
    if (budget_ <= 0) return false;
    --budget_;
    RemoveUnused(candidate);
    if (!fails_(candidate)) return false;
    program_ = std::move(candidate);
    return true;
  }

  // The root: one of its operands, or a tuple without one of them.
  bool FewerResults() {
    bool changed = false;
    for (bool again = true; again;) {
      again = false;
      const Node root = program_.entry().nodes[program_.entry().root];
      if (root.opcode != Opcode::kTuple) break;
      for (size_t operand : root.operands) {
        if (program_.entry().nodes[operand].tuple) continue;
        Program candidate = program_;
        candidate.entry().root = operand;
        if (Try(std::move(candidate))) {
          again = changed = true;
          break;
        }
      }
      for (size_t i = 0; !again && root.operands.size() > 1 && i < root.operands.size(); ++i) {
        Program candidate = program_;
        Node& node = candidate.entry().nodes[candidate.entry().root];
        const auto at = static_cast<std::ptrdiff_t>(i);
        node.operands.erase(node.operands.begin() + at);
        node.types.erase(node.types.begin() + at);
        if (!node.placements.empty()) node.placements.erase(node.placements.begin() + at);
        if (Try(std::move(candidate))) again = changed = true;
      }
    }
    return changed;
  }

  static void Forward(Body& body, size_t from, size_t to) {
    for (Node& node : body.nodes) {
      std::replace(node.operands.begin(), node.operands.end(), from, to);
    }
    if (body.root == from) body.root = to;
  }

  bool FewerNodes() {
    bool changed = false;
    for (size_t b = 0; b < program_.bodies.size(); ++b) {
      for (size_t i = program_.bodies[b].nodes.size(); i-- > 0;) {
        if (i >= program_.bodies[b].nodes.size()) continue;
        changed |= WithoutNode(b, i);
      }
    }
    return changed;
  }

  // What decides how often a while-loop runs: its condition, and what the body does to the counter
  // (the first element of the state). Without it the loop would not end.
  bool DecidesTrips(size_t b, size_t i) const {
    for (const Body& body : program_.bodies) {
      for (const Node& node : body.nodes) {
        if (node.opcode != Opcode::kWhile) continue;
        if (node.called[0] == b) return true;
        if (node.called[1] == b && IsReadBy(program_.bodies[b], Counter(program_.bodies[b]), i)) {
          return true;
        }
      }
    }
    return false;
  }

  static size_t Counter(const Body& body) { return body.nodes[body.root].operands[0]; }

  static bool IsReadBy(const Body& body, size_t reader, size_t i) {
    if (reader == i) return true;
    const std::vector<size_t>& operands = body.nodes[reader].operands;
    return std::any_of(operands.begin(), operands.end(),
                       [&](size_t operand) { return IsReadBy(body, operand, i); });
  }

  bool WithoutNode(size_t b, size_t i) {
    const Node node = program_.bodies[b].nodes[i];
    if (node.opcode == Opcode::kParameter || DecidesTrips(b, i)) return false;
    // An operand of the same type, or the operand as the result.
    for (size_t operand : node.operands) {
      const Node& other = program_.bodies[b].nodes[operand];
      const bool same = other.types == node.types && other.tuple == node.tuple;
      if (!same && (b != 0 || i != program_.entry().root || other.tuple)) continue;
      Program candidate = program_;
      Forward(candidate.bodies[b], i, operand);
      if (Try(std::move(candidate))) return true;
    }
    if (node.tuple) return false;
    const bool is_root = b == 0 && i == program_.entry().root;
    if (b == 0 && !is_root && !node.operands.empty()) {
      Program candidate = program_;
      Node& parameter = candidate.bodies[b].nodes[i];
      parameter.opcode = Opcode::kParameter;
      parameter.operands.clear();
      parameter.called.clear();
      parameter.attributes.clear();
      parameter.combiner.clear();
      if (Try(std::move(candidate))) return true;
    }
    if (b != 0 && !node.operands.empty() && node.type().dtype != DType::kPred) {
      // A broadcast of one.
      Program candidate = program_;
      Node one;
      one.opcode = Opcode::kConstant;
      one.types = {{node.type().dtype, {}}};
      one.payload = IsComplex(node.type().dtype) ? "(1, 0)" : "1";
      one.magnitude = 1;
      one.id = candidate.next_id++;
      Body& body = candidate.bodies[b];
      body.nodes.insert(body.nodes.begin() + static_cast<std::ptrdiff_t>(i), one);
      for (Node& other : body.nodes) {
        for (size_t& operand : other.operands) operand += operand >= i ? 1 : 0;
      }
      body.root += body.root >= i ? 1 : 0;
      Node& filled = body.nodes[i + 1];
      if (filled.type().dims.empty()) {
        Forward(body, i + 1, i);
      } else {
        filled.opcode = Opcode::kBroadcast;
        filled.operands = {i};
        filled.called.clear();
        filled.combiner.clear();
        filled.attributes = ", dimensions={}";
      }
      if (Try(std::move(candidate))) return true;
    }
    return false;
  }

  // No annotation; a replicated one; one without one of its axes; the devices in order.
  bool FewerPlacements() {
    bool changed = false;
    for (size_t b = 0; b < program_.bodies.size(); ++b) {
      for (size_t i = 0; i < program_.bodies[b].nodes.size(); ++i) {
        if (program_.bodies[b].nodes[i].in_group) {
          Program alone = program_;
          alone.bodies[b].nodes[i].in_group = false;
          changed |= Try(std::move(alone));
        }
        if (program_.bodies[b].nodes[i].placements.empty()) continue;
        Program candidate = program_;
        candidate.bodies[b].nodes[i].placements.clear();
        if (program_.bodies[b].nodes[i].opcode != Opcode::kCustomCall &&
            Try(std::move(candidate))) {
          changed = true;
          continue;
        }
        for (size_t leaf = 0; leaf < program_.bodies[b].nodes[i].placements.size(); ++leaf) {
          changed |= SimplerPlacement(b, i, leaf);
        }
      }
    }
    return changed;
  }

  bool SimplerPlacement(size_t b, size_t i, size_t leaf) {
    bool changed = false;
    auto attempt = [&](auto&& change) {
      Program candidate = program_;
      change(candidate.bodies[b].nodes[i].placements[leaf]);
      const bool taken = Try(std::move(candidate));
      changed |= taken;
      return taken;
    };
    auto placement = [&]() -> const Placement& {
      return program_.bodies[b].nodes[i].placements[leaf];
    };
    if (placement().kind == Placement::Kind::kReplicated) return false;
    if (attempt([](Placement& p) {
          p = {};
          p.kind = Placement::Kind::kReplicated;
        }))
      return true;
    if (placement().kind != Placement::Kind::kTiled) return changed;
    if (placement().unreduced) attempt([](Placement& p) { p.unreduced = false; });
    if (!placement().order.empty()) attempt([](Placement& p) { p.order.clear(); });
    if (!placement().replicated.empty()) attempt([](Placement& p) { p.replicated.clear(); });
    if (!placement().priorities.empty()) attempt([](Placement& p) { p.priorities.clear(); });
    for (size_t d = 0; d < placement().open.size(); ++d) {
      if (placement().open[d]) attempt([&](Placement& p) { p.open[d] = false; });
    }
    for (size_t d = 0; d < placement().dims.size(); ++d) {
      for (size_t a = placement().dims[d].size(); a-- > 0;) {
        attempt([&](Placement& p) {
          p.dims[d].erase(p.dims[d].begin() + static_cast<std::ptrdiff_t>(a));
        });
      }
    }
    return changed;
  }

  // Without one axis: for placements on the program's own mesh in device order.
  bool SmallerMesh() {
    bool changed = false;
    for (size_t axis = program_.mesh.size(); axis-- > 0;) {
      if (program_.mesh.size() < 2) break;
      Program candidate = program_;
      const int64_t size = candidate.mesh[axis];
      candidate.mesh.erase(candidate.mesh.begin() + static_cast<std::ptrdiff_t>(axis));
      candidate.devices /= size;
      bool possible = true;
      for (Body& body : candidate.bodies) {
        for (Node& node : body.nodes) {
          possible &= node.border_axes.empty();
          for (Placement& p : node.placements)
            possible &= DropAxis(p, axis, program_.mesh, candidate.devices);
        }
      }
      changed |= possible && Try(std::move(candidate));
    }
    // Fewer devices along an axis.
    for (size_t axis = 0; axis < program_.mesh.size(); ++axis) {
      const int64_t size = program_.mesh[axis];
      for (int64_t smaller : {int64_t{2}, size / 2, size - 1}) {
        if (smaller < 2 || smaller >= program_.mesh[axis]) continue;
        Program candidate = program_;
        candidate.mesh[axis] = smaller;
        candidate.devices = Product(candidate.mesh);
        bool possible = true;
        for (Body& body : candidate.bodies) {
          for (Node& node : body.nodes) {
            for (Placement& p : node.placements) {
              if (p.kind == Placement::Kind::kMaximal) p.device %= candidate.devices;
              if (p.kind != Placement::Kind::kTiled) continue;
              possible &= p.mesh == program_.mesh && p.order.empty();
              p.mesh = candidate.mesh;
            }
          }
        }
        if (possible && Try(std::move(candidate))) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  static bool DropAxis(Placement& p, size_t axis, const Sizes& mesh, int64_t devices) {
    if (p.kind == Placement::Kind::kMaximal) p.device %= devices;
    if (p.kind != Placement::Kind::kTiled) return true;
    if (p.mesh != mesh || !p.order.empty()) return false;
    p.mesh.erase(p.mesh.begin() + static_cast<std::ptrdiff_t>(axis));
    std::erase(p.replicated, axis);
    for (size_t& a : p.replicated) a -= a > axis ? 1 : 0;
    for (std::vector<size_t>& dim : p.dims) {
      std::erase(dim, axis);
      for (size_t& a : dim) a -= a > axis ? 1 : 0;
    }
    return true;
  }

  bool FewerFlags() {
    bool changed = false;
    for (bool Program::*flag :
         {&Program::propagate_to_output, &Program::propagate_to_parameters, &Program::has_nan}) {
      if (!(program_.*flag)) continue;
      Program candidate = program_;
      candidate.*flag = false;
      changed |= Try(std::move(candidate));
    }
    return changed;
  }

  Program program_;
  int budget_;
  const std::function<bool(const Program&)>& fails_;
};

}  // namespace

Program Shrink(Program program, int budget, const std::function<bool(const Program&)>& fails) {
  return Shrinker(std::move(program), budget, fails).Run();
}

}  // namespace gshard::property
