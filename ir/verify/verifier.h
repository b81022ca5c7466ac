// Checks that a module is well-formed: shapes as inferred, attributes in range, shardings that fit,
// called computations of the right signature, metadata well-formed.
//
// Codes: E-VERIFY-001 structure (entry, roots, parameter numbers, order), -002 operands and control
// predecessors, -003 what an operation requires of operands, attributes and called computations,
// -004 a shape that is not the inferred one, -005 calls (order, recursion, depth), -006
// collectives, -007 async pairs and channels, -008 shardings, -009 the module's header, -010
// metadata and frontend attributes.
#ifndef GSHARD_IR_VERIFY_VERIFIER_H_
#define GSHARD_IR_VERIFY_VERIFIER_H_

#include <optional>
#include <span>
#include <string>

#include "ir/module.h"

namespace gshard {

struct VerifyOptions {
  bool shardings = true;  // rank, device count
};

// The first problem in text order: expected, found, where. Linear in the size of the module; text
// is built for a failure only. Interns inferred shapes in the module's context.
Expected<void> VerifyModule(const Module& module, const VerifyOptions& options = {});

// The same of shardings alone, for passes that give instructions some: E-VERIFY-008.
Expected<void> VerifyShardings(const Module& module);

// What is wrong with a collective's shapes, attributes or operand count among groups of `size`
// devices; nothing if they fit. For callers that know the real size where the text leaves it open.
std::optional<std::string> CheckGroupSize(const Instruction& instruction, int64_t size);

// What is wrong with the pairs of a permute among `count` devices (0: any number of them): ids out
// of range, a source or a target twice.
std::optional<std::string> CheckDevicePairs(std::span<const DevicePair> pairs, int64_t count);

}  // namespace gshard

#endif  // GSHARD_IR_VERIFY_VERIFIER_H_
