// Are the user's annotations possible, and do they agree with one another? What contradicts is told
// with both places.
#ifndef GSHARD_CORE_PROPAGATION_ANNOTATION_CHECKS_H_
#define GSHARD_CORE_PROPAGATION_ANNOTATION_CHECKS_H_

#include <string>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

// A note at the place of `x`.
Diagnostic NoteAt(const Module& module, const Instruction* x, std::string message);
// A warning at the place of `x` with a note at the place of `other`.
Diagnostic WarningAbout(const Module& module, const Instruction* x, std::string code,
                        std::string message, const Instruction* other, std::string note);

// Ranks, device counts, devices (E-PROP-001).
Expected<void> CheckAnnotations(const Module& module);

// Meshes that give one axis name different sizes or devices (W-PROP-002): legal, rarely meant.
void WarnOfDifferingMeshes(const Module& module, std::vector<Diagnostic>& warnings);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_ANNOTATION_CHECKS_H_
