#include "core/op_dims/rule_text.h"

#include <cctype>
#include <charconv>
#include <map>
#include <string>

namespace gshard {
namespace {

class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : text_(text) {}

  std::optional<DimRelation> Read() {
    constexpr std::string_view kName = "#sdy.op_sharding_rule<";
    if (text_.starts_with(kName)) text_.remove_prefix(kName.size());
    if (!Tensors(relation_.operands) || !Eat("->") || !Tensors(relation_.results)) return {};
    if (!relation_.factors.empty() && !Sizes()) return {};
    for (;;) {
      if (Eat("reduction=")) {
        if (!ForEachFactor([](Factor& f) { f.kind = FactorKind::kReduction; })) return {};
      } else if (Eat("need_replication=")) {
        if (!ForEachFactor([](Factor& f) { f.kind = FactorKind::kNeedReplication; })) return {};
      } else if (Eat("permutation=")) {
        if (!ForEachFactor([](Factor& f) { f.kind = FactorKind::kPermutation; })) return {};
      } else if (Eat("blocked_propagation=")) {
        if (!ForEachFactor([](Factor& f) { f.blocked = true; })) return {};
      } else {
        break;
      }
    }
    if (Eat(",") && !Eat("custom")) return {};
    Eat(">");
    Skip();
    if (!text_.empty()) return {};
    return std::move(relation_);
  }

 private:
  void Skip() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_[0])) != 0) {
      text_.remove_prefix(1);
    }
  }
  bool Eat(std::string_view token) {
    Skip();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }

  // A letter from i on; z is followed by z_1, z_2, ..
  bool Letter(std::string& name) {
    Skip();
    if (text_.empty() || std::islower(static_cast<unsigned char>(text_[0])) == 0) return false;
    size_t length = 1;
    if (text_.size() > 1 && text_[1] == '_') {
      length = 2;
      while (length < text_.size() && std::isdigit(static_cast<unsigned char>(text_[length])) != 0) {
        ++length;
      }
    }
    name = text_.substr(0, length);
    text_.remove_prefix(length);
    return true;
  }

  // ([i, jk], [])
  bool Tensors(std::vector<std::vector<FactorList>>& tensors) {
    if (!Eat("(")) return false;
    while (!Eat(")")) {
      if (!Eat("[")) return false;
      std::vector<FactorList>& dims = tensors.emplace_back();
      while (!Eat("]")) {
        FactorList& dim = dims.emplace_back();
        std::string name;
        while (Letter(name)) dim.push_back(IndexOf(name));
        if (dim.empty()) return false;
        Eat(",");
      }
      Eat(",");
    }
    return true;
  }

  int IndexOf(const std::string& name) {
    const auto [it, fresh] = index_.try_emplace(name, static_cast<int>(relation_.factors.size()));
    if (fresh) relation_.factors.push_back({kNoSize});
    return it->second;
  }

  // {i=8, j=32}: every factor has a size.
  bool Sizes() {
    if (!Eat("{")) return false;
    while (!Eat("}")) {
      std::string name;
      if (!Letter(name) || !Eat("=")) return false;
      const auto it = index_.find(name);
      if (it == index_.end()) return false;
      int64_t& size = relation_.factors[static_cast<size_t>(it->second)].size;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      Eat(",");
    }
    for (const Factor& factor : relation_.factors) {
      if (factor.size == kNoSize) return false;
    }
    return true;
  }

  template <typename Change>
  bool ForEachFactor(const Change& change) {
    if (!Eat("{")) return false;
    while (!Eat("}")) {
      std::string name;
      if (!Letter(name)) return false;
      const auto it = index_.find(name);
      if (it == index_.end()) return false;
      change(relation_.factors[static_cast<size_t>(it->second)]);
      Eat(",");
    }
    return true;
  }

  static constexpr int64_t kNoSize = -1;  // sizes may be 0: optional operands are empty arrays

  std::string_view text_;
  DimRelation relation_;
  std::map<std::string, int> index_;
};

}  // namespace

std::optional<DimRelation> ReadRule(std::string_view text) { return RuleReader(text).Read(); }

}  // namespace gshard
