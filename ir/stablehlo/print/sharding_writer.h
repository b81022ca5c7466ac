// Shardings as MLIR text: Shardy's over the module's meshes, or GSPMD's strings where a sharding
// has no such spelling (or the user wants them).
#ifndef GSHARD_IR_STABLEHLO_PRINT_SHARDING_WRITER_H_
#define GSHARD_IR_STABLEHLO_PRINT_SHARDING_WRITER_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/shardy_text.h"

namespace gshard::stablehlo {

class ShardingWriter {
 public:
  // Looks for meshes in the module's header and shardings. If one of the shardings cannot be
  // spelled by them, all are written as GSPMD's.
  ShardingWriter(const Module& module, bool gspmd);

  bool gspmd() const { return gspmd_; }
  // What is wrong with an xla.sdy.sharding that cannot be read; nothing if all can.
  const std::optional<Diagnostic>& error() const { return error_; }
  // That of the instruction, or of its xla.sdy.sharding where it has no other (XLA's text of
  // Shardy's shardings has both, or that one); null: neither.
  const Sharding* Of(const Instruction* x) const;
  // `sdy.mesh @mesh = <["x"=2]>`, one line each. With GSPMD's shardings: where manual regions,
  // which are Shardy's always, name meshes.
  std::string MeshLines() const;
  // Is this `#sdy.sharding_per_value<[..]>` one of so many values, over the module's meshes?
  bool CanRead(const std::string& per_value, int64_t count) const;
  // `<@mesh, [{"x"}, {}]>` of a leaf; `x`, if given, may know it by xla.sdy.sharding.
  std::string ShardyText(const Sharding* leaf, const Instruction* x, int64_t rank) const;
  // `sdy.sharding = ..` or `mhlo.sharding = ".."` of an argument or result; empty: nothing to say.
  std::string ArgumentAttribute(const Sharding* leaf, const Instruction* x, int64_t rank) const;
  // The same of an operation whose results are those leaves of `x`; empty: all.
  std::string OperationAttribute(const Instruction* x, std::span<const size_t> leaves = {}) const;

 private:
  struct NamedMesh {
    std::string name;
    std::string text;  // `<["x"=2]>`
    const Mesh* mesh = nullptr;
  };
  void AddMesh(const Mesh* mesh, std::string name, std::string text);
  void FindMeshes();
  void ReadAttribute(const Instruction* x);
  ShardyMeshes Meshes() const;
  bool CanSpell(const Sharding* leaf) const;
  const NamedMesh* MeshFor(const Sharding* leaf, const NamedSharding** named) const;

  const Module& module_;
  int64_t devices_;
  bool gspmd_;
  bool has_manual_regions_ = false;
  std::vector<NamedMesh> meshes_;
  ShardyMeshes declared_;  // by the header's xla.sdy.meshes, which attributes name
  // By xla.sdy.sharding, of instructions that have no other.
  std::unordered_map<const Instruction*, const Sharding*> by_attribute_;
  std::optional<Diagnostic> error_;
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_PRINT_SHARDING_WRITER_H_
