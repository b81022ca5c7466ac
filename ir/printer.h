// Module -> HLO text that XLA's parser accepts. Deterministic; print(parse(x)) is a fixpoint.
#ifndef GSHARD_IR_PRINTER_H_
#define GSHARD_IR_PRINTER_H_

#include <string>

#include "ir/module.h"

namespace gshard {

struct PrintOptions {
  bool metadata = true;  // metadata={}, debug tables, statistics, origin
  bool layouts = true;
  // Off: names lose their numeric suffixes where that stays unambiguous, and channel ids go; for
  // diffs.
  bool ids = true;
  bool named = false;  // keep {@pod, ..} sugar and the header's meshes=
  // With `named`: off, what only parts of axes ('model':(1)2) can say is spelled devices=[..].
  bool sub_axes = true;
  bool tiles = false;  // every sharding as devices=[..], for XLA versions without mesh forms
};

std::string PrintModule(const Module& module, const PrintOptions& options = {});
void AppendComputation(std::string& out, const Computation& computation,
                       const PrintOptions& options = {});
// One instruction without newline and indentation.
void AppendInstruction(std::string& out, const Instruction& instruction,
                       const PrintOptions& options = {});
std::string ToString(const Instruction& instruction);

}  // namespace gshard

#endif  // GSHARD_IR_PRINTER_H_
