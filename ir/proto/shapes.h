// ShapeProto -> Shape. Every distinct byte string is read once.
#ifndef GSHARD_IR_PROTO_SHAPES_H_
#define GSHARD_IR_PROTO_SHAPES_H_

#include <string_view>
#include <vector>

#include "ir/context.h"
#include "ir/proto/errors.h"
#include "ir/text_hash.h"
#include "tsl/robin_map.h"

namespace gshard::proto {

// The element type of a number of xla's PrimitiveType; nothing for tuples, buffers and unknown
// ones.
std::optional<DType> DTypeFromNumber(int64_t number);

class ShapeReader {
 public:
  ShapeReader(Context& context, Errors& errors) : context_(&context), errors_(&errors) {}

  // Null after an error. `bytes` must outlive the reader.
  const Shape* Read(std::string_view bytes);

 private:
  const Shape* ReadNew(std::string_view bytes, int depth);
  const Shape* Array(DType dtype, std::span<const int64_t> dims, std::vector<int64_t> dynamic,
                     std::string_view layout);
  bool ReadLayout(std::string_view bytes, size_t rank, const Layout*& layout);
  bool AppendTile(std::string_view bytes, std::string& tail);
  const Shape* Fail(std::string message);

  Context* context_;
  Errors* errors_;
  tsl::robin_map<std::string_view, const Shape*, TextHash> known_;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_SHAPES_H_
