// Parses HLO text, propagates, and answers by name: for the tests of propagation.
#ifndef GSHARD_TESTS_UNIT_CORE_PROPAGATION_PROPAGATED_H_
#define GSHARD_TESTS_UNIT_CORE_PROPAGATION_PROPAGATED_H_

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "core/propagation/propagation.h"
#include "core/transforms/inline_calls.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/sharding_text.h"

namespace gshard {

inline std::unique_ptr<Module> Parsed(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  if (!module) FAIL(Render(module.error()));
  return std::move(*module);
}

inline Instruction* Named(const Module& module, std::string_view name) {
  for (const Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      if (x->name() == name) return x;
    }
  }
  FAIL("no instruction " << name);
  return nullptr;
}

inline std::string ShardingOf(const Module& module, std::string_view name) {
  const Instruction* x = Named(module, name);
  return x->sharding() == nullptr ? "none" : ToString(x->sharding());
}

inline bool Propagate(Module& module, const PropagationOptions& options = {},
                      ExplainRecorder* recorder = nullptr) {
  auto changed = PropagateShardings(module, options, recorder);
  if (!changed) FAIL(Render(changed.error()));
  return *changed;
}

}  // namespace gshard

#endif  // GSHARD_TESTS_UNIT_CORE_PROPAGATION_PROPAGATED_H_
