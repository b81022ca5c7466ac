// Shardings as MLIR text: Shardy's over the module's meshes, or GSPMD's strings where a sharding
// has no such spelling (or the user wants them).
#ifndef GSHARD_IR_STABLEHLO_PRINT_SHARDING_WRITER_H_
#define GSHARD_IR_STABLEHLO_PRINT_SHARDING_WRITER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace gshard::stablehlo {

class ShardingWriter {
 public:
  // Looks for meshes in the module's header and shardings. If one of the shardings cannot be
  // spelled by them, all are written as GSPMD's.
  ShardingWriter(const Module& module, bool gspmd);

  bool gspmd() const { return gspmd_; }
  // `sdy.mesh @mesh = <["x"=2]>`, one line each.
  std::string MeshLines() const;
  // `<@mesh, [{"x"}, {}]>` of a leaf; `x`, if given, may know it by xla.sdy.sharding.
  std::string ShardyText(const Sharding* leaf, const Instruction* x, int64_t rank) const;
  // `sdy.sharding = ..` or `mhlo.sharding = ".."` of an argument or result; empty: nothing to say.
  std::string ArgumentAttribute(const Sharding* leaf, const Instruction* x, int64_t rank) const;
  // The same of an operation with results of the leaves of `x`.
  std::string OperationAttribute(const Instruction* x) const;

 private:
  struct NamedMesh {
    std::string name;
    std::string text;  // `<["x"=2]>`
    const Mesh* mesh = nullptr;
  };
  void AddMesh(const Mesh* mesh, std::string name, std::string text);
  void FindMeshes();
  bool CanSpell(const Sharding* leaf) const;
  const NamedMesh* MeshFor(const Sharding* leaf, const NamedSharding** named) const;

  const Module& module_;
  bool gspmd_;
  std::vector<NamedMesh> meshes_;
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_PRINT_SHARDING_WRITER_H_
