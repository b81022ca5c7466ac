#include "ir/stablehlo/import/op_table.h"

#include <string>

#include "ir/stablehlo/import/converters.h"

namespace gshard::stablehlo {
namespace {

constexpr OpRow kRows[] = {
#define GSHARD_STABLEHLO_OP(name, opcode, converter) {name, Opcode::opcode, converter},
#include "ir/stablehlo/import/ops.def"
#undef GSHARD_STABLEHLO_OP
};

}  // namespace

std::span<const OpRow> AllRows() { return kRows; }

const OpRow* FindRow(std::string_view name) {
  static const ViewMap<const OpRow*> rows = [] {
    ViewMap<const OpRow*> map;
    for (const OpRow& row : kRows) map.emplace(row.name, &row);
    return map;
  }();
  auto it = rows.find(name);
  if (it == rows.end() && name.starts_with("mhlo.")) {
    // MHLO, which XLA's dumps still have, is the older dialect of both.
    for (const std::string_view dialect : {"stablehlo", "chlo"}) {
      std::string other(dialect);
      other += name.substr(4);
      it = rows.find(other);
      if (it != rows.end()) break;
    }
  }
  return it != rows.end() ? it->second : nullptr;
}

}  // namespace gshard::stablehlo
