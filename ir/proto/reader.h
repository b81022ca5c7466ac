// HLO protos -> Module: what XLA dumps as .hlo.pb, and what jaxlib serialises.
//
// Read: HloModuleProto, HloProto (also with a buffer assignment), HloModuleProtoWithConfig,
// HloSnapshot and HloUnoptimizedSnapshot with their arguments. The wire format is read by
// ir/proto/wire.h; field numbers are XLA's (xla/service/hlo.proto, xla/xla_data.proto). Does not
// verify: see ir/verify/verifier.h.
#ifndef GSHARD_IR_PROTO_READER_H_
#define GSHARD_IR_PROTO_READER_H_

#include <memory>
#include <optional>
#include <vector>

#include "ir/module.h"

namespace gshard::proto {

// Is it a message that holds an HLO module? Looks at field numbers and types, not only at the
// start.
bool IsHloProto(std::string_view bytes);

struct ReadResult {
  std::unique_ptr<Module> module;
  // Of a snapshot: a literal for each parameter, in the module's arena; else empty.
  std::vector<const Literal*> arguments;
  // Content that is not read (W-PROTO-001), one warning for each kind of field.
  std::vector<Diagnostic> warnings;
};

// The module keeps views into `source` and shares its ownership. Errors: E-PROTO-*, with the
// instruction and its byte. Instructions have no source range: a proto has no lines.
Expected<ReadResult> ReadModule(std::shared_ptr<const SourceText> source,
                                std::shared_ptr<Context> context = nullptr);

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_READER_H_
