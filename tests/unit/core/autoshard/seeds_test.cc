// The plans of known styles: what they cut of small networks.

#include "core/autoshard/seeds.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "core/autoshard/plan_space.h"
#include "ir/parser.h"

namespace gshard::autoshard {
namespace {

// How each style cuts what it annotates: "data,_" by "style: name".
std::map<std::string, std::string> SpecsOfStyles(const std::string& text,
                                                 const std::vector<MeshAxis>& mesh) {
  const auto module = *ParseModule(SourceText::FromString("t.hlo", text));
  const PlanSpace space(*module, std::vector<const Sharding*>(module->instruction_limit()), mesh);
  std::map<std::string, std::string> specs;
  for (const NamedPlan& style : StylePlans(space, false, false)) {
    for (size_t g = 0; g < space.groups().size(); ++g) {
      const Group& group = space.groups()[g];
      const auto& cut = group.options[static_cast<size_t>(style.plan.choices[g])];
      if (!cut) continue;
      for (const Computation* computation : module->computations()) {
        for (const Instruction* x : computation->instructions()) {
          if (std::ranges::find(group.members, x->id()) == group.members.end()) continue;
          specs[style.name + ": " + std::string(x->name())] = SpecText(mesh, group.shape, *cut);
        }
      }
    }
  }
  return specs;
}

using Expected = std::vector<std::pair<std::string, std::string>>;

void CheckSpecs(std::map<std::string, std::string> specs, const Expected& expected) {
  for (const auto& [name, spec] : expected) {
    CAPTURE(name);
    CHECK(specs[name] == spec);
  }
}

}  // namespace

TEST_CASE("tensor parallelism splits what stands around the stream", "[autoshard]") {
  // x [batch, model], w1 [model, hidden], w2 [hidden, model]; both weights are returned updated.
  const char* const kText = R"(HloModule mlp, input_output_alias={ {0}: (1, {}), {1}: (2, {}) }
ENTRY e {
  x = f32[64,256] parameter(0)
  w1 = f32[256,1024] parameter(1)
  w2 = f32[1024,256] parameter(2)
  h = f32[64,1024] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[64,256] dot(h, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,256] add(x, y)
  d = f32[64,1024] dot(s, w2), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  g1 = f32[256,1024] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  g2 = f32[1024,256] dot(h, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  v1 = f32[256,1024] subtract(w1, g1)
  v2 = f32[1024,256] subtract(w2, g2)
  ROOT r = (f32[256,1024], f32[1024,256]) tuple(v1, v2)
})";
  const std::string stream = "FSDP and tensor parallel, stream cut, over b: ";
  CheckSpecs(SpecsOfStyles(kText, {{"a", 4}, {"b", 2}}),
             {
                 {"tensor parallel over b: x", "a,_"},
                 {"tensor parallel over b: w1", "_,b"},
                 {"tensor parallel over b: w2", "b,_"},
                 {"tensor parallel over b: h", "a,b"},
                 {"tensor parallel over b: y", "a,_"},
                 {"tensor parallel over b: g2", "b,_"},
                 {"FSDP and tensor parallel over b: w1", "a,b"},
                 {stream + "x", "a,b"},
                 {stream + "h", "a,b"},
                 {stream + "y", "a,b"},
                 {stream + "w2", "b,a"},
                 {"tensor parallel over a: h", "b,a"},
             });
}

TEST_CASE("tensor parallelism cuts tables in their vocabulary and leaves heads that do not divide",
          "[autoshard]") {
  // Of 2 heads no axis of 4 is in whole parts: the scores are left to propagation. A batch of 6
  // along 4 is padded by 2, but not in an argument.
  const char* const kText = R"(HloModule attention
ENTRY e {
  tokens = s32[6,32] parameter(0)
  table = f32[4096,64] parameter(1)
  wq = f32[64,2,32] parameter(2)
  wo = f32[2,32,64] parameter(3)
  x = f32[6,32,64] gather(table, tokens), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,64}
  q = f32[6,32,2,32] dot(x, wq), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  scores = f32[6,2,32,32] dot(q, q), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  mixed = f32[6,2,32,32] dot(scores, q), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
  y = f32[6,32,64] dot(mixed, wo), lhs_contracting_dims={1,3}, rhs_contracting_dims={0,1}
  wi = f32[64,256] parameter(4)
  r = f32[6,32,64] add(x, y)
  ROOT h = f32[6,32,256] dot(r, wi), lhs_contracting_dims={2}, rhs_contracting_dims={0}
})";
  const std::string style = "tensor parallel over b: ";
  CheckSpecs(SpecsOfStyles(kText, {{"a", 4}, {"b", 4}}), {{style + "table", "b,_"},
                                                          {style + "tokens", ""},
                                                          {style + "q", "a,_,_,b"},
                                                          {style + "scores", ""},
                                                          {style + "y", "a,_,_"}});
}

TEST_CASE("expert parallelism cuts experts along one axis and examples along all", "[autoshard]") {
  // Groups of tokens [G, S, M] are dispatched to experts [E, M, H]. The mask has examples: it is no
  // weight, and the batch dim of its products is none of experts.
  const char* const kText = R"(HloModule moe
ENTRY e {
  tokens = s32[16,8] parameter(0)
  table = f32[512,64] parameter(1)
  wi = f32[4,64,256] parameter(2)
  wo = f32[4,256,64] parameter(3)
  mask = f32[16,8,4,8] parameter(4)
  x = f32[16,8,64] gather(table, tokens), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, slice_sizes={1,64}
  sent = f32[16,4,8,64] dot(mask, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}
  h = f32[4,16,8,256] dot(sent, wi), lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
  o = f32[4,16,8,64] dot(h, wo), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
  ROOT y = f32[16,8,64] dot(mask, o), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2,3}, rhs_contracting_dims={0,2}
})";
  const std::string style = "expert parallel over b: ";
  CheckSpecs(SpecsOfStyles(kText, {{"a", 4}, {"b", 2}}), {{style + "tokens", "a+b,_"},
                                                          {style + "table", ""},
                                                          {style + "wi", "b,_,_"},
                                                          {style + "sent", "a+b,_,_,_"},
                                                          {style + "h", "b,a,_,_"},
                                                          {style + "o", "b,a,_,_"},
                                                          {style + "y", ""},
                                                          {"FSDP and " + style + "wi", "b,_,a"}});
}

}  // namespace gshard::autoshard
