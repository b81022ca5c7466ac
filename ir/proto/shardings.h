// OpSharding and meshes -> the text of shardings (docs/sharding.md), which the one parser of that
// text then reads.
#ifndef GSHARD_IR_PROTO_SHARDINGS_H_
#define GSHARD_IR_PROTO_SHARDINGS_H_

#include <string>
#include <string_view>

#include "ir/context.h"
#include "ir/proto/errors.h"
#include "ir/text_hash.h"
#include "tsl/robin_map.h"

namespace gshard::proto {

// "{devices=[2,4]<=[8]}". Nothing after an error.
std::optional<std::string> ShardingText(std::string_view bytes, Errors& errors);

// "mesh['x'=2,'y'=2] {'x'}" of a MeshAxesReplicaGroupList.
std::optional<std::string> MeshGroupsText(std::string_view bytes, Errors& errors);

// Every distinct byte string is read once.
class ShardingReader {
 public:
  ShardingReader(Context& context, Errors& errors) : context_(&context), errors_(&errors) {}
  // Null after an error. `bytes` must outlive the reader.
  const Sharding* Read(std::string_view bytes);

 private:
  Context* context_;
  Errors* errors_;
  tsl::robin_map<std::string_view, const Sharding*, TextHash> known_;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_SHARDINGS_H_
