// Which message of XLA's a file holds, and where in it the module is.
#ifndef GSHARD_IR_PROTO_ENVELOPE_H_
#define GSHARD_IR_PROTO_ENVELOPE_H_

#include <optional>
#include <string_view>
#include <vector>

namespace gshard::proto {

struct Envelope {
  std::string_view module;                  // an HloModuleProto
  std::vector<std::string_view> arguments;  // LiteralProtos of a snapshot
};

// Nothing if the bytes are no message that holds a module.
std::optional<Envelope> OpenEnvelope(std::string_view bytes);

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_ENVELOPE_H_
