// Sharding propagation: from a few annotations, the sharding of every tensor (GSPMD paper, section
// 3.5; exact behaviour in docs/propagation.md).
//
// The module must be verified and free of `call`s (core/transforms/inline_calls.h); remaining calls
// are handled like control flow. Cost is proportional to what changes and does not depend on the
// number of devices.
#ifndef GSHARD_CORE_PROPAGATION_PROPAGATION_H_
#define GSHARD_CORE_PROPAGATION_PROPAGATION_H_

#include <string_view>
#include <vector>

#include "core/explain/recorder.h"
#include "core/explain/propagation_findings.h"
#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

class DerivedShardings;

// Whose rules infer shardings: GSPMD's, or Shardy's, which JAX runs since version 0.7.
enum class PropagationMode : uint8_t {
  kByText,  // Shardy's where the text has annotations of Shardy, else GSPMD's
  kGspmd,
  kShardy,
};

// "gspmd", "shardy", as --propagation takes it; "" for kByText.
std::string_view ModeName(PropagationMode mode);

struct PropagationOptions {
  PropagationMode mode = PropagationMode::kByText;
  // One entry, or one per entry parameter (per element of a single tuple parameter) / per element
  // of the root tuple. Empty: as the module's header says; if that is silent, those without an
  // annotation are free, and a note among the warnings says so where they come out sharded.
  std::vector<bool> allow_to_parameters;
  std::vector<bool> allow_to_output;
  // In GSPMD's mode: operations that it has no rule for, top-k among them, hand on what cuts dims
  // that they relate (core/op_dims), and a constant that a tuple takes twice is two. No compiler
  // does so; it is for questions about the operations alone.
  bool by_relations = false;
  // As InlineCalls reports it; null: text order. Must not outlive a change of the graph.
  const UserOrderOverride* use_order = nullptr;
  // Filled if not null.
  PropagationFindings* findings = nullptr;
  // Warnings (contradicting annotations) go here if not null.
  std::vector<Diagnostic>* warnings = nullptr;
  // Of other runs in the module's context; learns this one's. May be null.
  DerivedShardings* derived = nullptr;
};

// The mode that runs: kGspmd or kShardy. Manual regions that gshard-opt has differentiated or
// pipelined are GSPMD's, whatever is wanted.
PropagationMode ModeFor(const Module& module, PropagationMode wanted);

// Infers shardings in place; returns true if anything changed. Every instruction whose sharding can
// be inferred carries one afterwards, those without are replicated. `Sharding` custom-calls become
// copies of the same name; the header's propagation flags are used up (a refusal stays where there
// is no annotation). Annotations of the user are never changed. A second run changes nothing. Not
// thread-safe per Context. Errors: E-PROP-*, located.
Expected<bool> PropagateShardings(Module& module, const PropagationOptions& options = {},
                                  ExplainRecorder* recorder = nullptr);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_PROPAGATION_H_
