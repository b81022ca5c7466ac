#include "ir/input/async_collectives.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/custom_call.h"
#include "ir/lexer.h"
#include "ir/metadata.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

constexpr std::string_view kStart = "all-gather-start";
constexpr std::string_view kDone = "all-gather-done";
constexpr std::string_view kConfig = "async_collective_config";

// {"all_gather_dimension": 0, "replica_groups": [[0, 1]], "use_global_device_ids": true,
// "channel_id": 1}; nothing if it is not of that form.
std::optional<CollectiveAttributes> ReadConfig(Module& module, std::string_view text) {
  CollectiveAttributes attributes;
  attributes.dimension = -1;
  Lexer lexer(text);
  if (!lexer.Consume('{')) return std::nullopt;
  while (!lexer.Consume('}')) {
    const std::string key = Unquoted(lexer.String());
    if (key.empty() || !lexer.Consume(':')) return std::nullopt;
    bool ok = false;
    if (key == "all_gather_dimension") {
      ok = lexer.Integer(attributes.dimension) == Lexer::Number::kOk;
    } else if (key == "channel_id") {
      ok = lexer.Integer(attributes.channel_id) == Lexer::Number::kOk;
    } else if (key == "use_global_device_ids") {
      const std::string_view word = lexer.Identifier();
      attributes.use_global_device_ids = word == "true";
      ok = word == "true" || word == "false";
    } else if (key == "replica_groups") {
      lexer.SkipSpace();
      std::string groups(lexer.Balanced());
      std::ranges::replace(groups, '[', '{');
      std::ranges::replace(groups, ']', '}');
      auto parsed = ParseReplicaGroups(groups);
      ok = parsed.has_value();
      if (ok) attributes.replica_groups = module.Own(*std::move(parsed));
    }
    if (!ok) return std::nullopt;
    lexer.Consume(',');
  }
  if (attributes.dimension < 0) return std::nullopt;
  return attributes;
}

class Rewriting {
 public:
  explicit Rewriting(Module& module) : module_(module) {}

  void Run(Computation* computation) {
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    const auto is_start = [](const Instruction* x) { return IsCustomCallTo(*x, kStart); };
    if (std::ranges::none_of(old, is_start)) return;
    for (Instruction* x : old) {
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, Resolve(x->operand(i)));
      if (is_start(x)) {
        list_.push_back(Start(x));
      } else if (IsCustomCallTo(*x, kDone) && x->operand_count() == 1 &&
                 gathers_.contains(x->operand(0)) &&
                 Compatible(x->shape(), x->operand(0)->shape())) {
        value_of_[x] = x->operand(0);
      } else {
        list_.push_back(x);
      }
    }
    Instruction* root = Resolve(computation->root());
    computation->SetInstructions(std::exchange(list_, {}));
    computation->set_root(root);
  }

 private:
  Instruction* Start(Instruction* x) {
    const auto attributes =
        ReadConfig(module_, FrontendAttribute(x->frontend_attributes(), kConfig));
    if (!attributes || x->operand_count() != 1 || !x->shape()->IsArray() ||
        attributes->dimension >= x->shape()->rank()) {
      return x;
    }
    Instruction* gather =
        module_.Add(x->parent(), Opcode::kAllGather, module_.UniqueName(x->name()), x->shape(),
                    x->operands(), *attributes);
    gather->set_metadata(x->metadata());
    gather->set_source(x->source());
    gather->set_sharding(x->sharding());
    gathers_[gather] = x;
    value_of_[x] = gather;
    return gather;
  }

  Instruction* Resolve(Instruction* x) const {
    const auto it = value_of_.find(x);
    return it == value_of_.end() ? x : it->second;
  }

  Module& module_;
  std::vector<Instruction*> list_;
  std::unordered_map<const Instruction*, Instruction*> value_of_;
  std::unordered_map<const Instruction*, const Instruction*> gathers_;  // and what they stand for
};

}  // namespace

void RewriteAsyncCollectives(Module& module) {
  Rewriting rewriting(module);
  for (Computation* computation : module.computations()) rewriting.Run(computation);
}

}  // namespace gshard
