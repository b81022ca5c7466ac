// The first error of a reader of protos: what is wrong, in which instruction, at which byte.
#ifndef GSHARD_IR_PROTO_ERRORS_H_
#define GSHARD_IR_PROTO_ERRORS_H_

#include <optional>
#include <string>
#include <string_view>

#include "ir/diagnostic.h"
#include "ir/source_text.h"

namespace gshard::proto {

enum class Error : uint8_t {
  kDamaged,    // E-PROTO-001: the bytes are no message
  kValue,      // E-PROTO-002: a value that the field cannot have
  kReference,  // E-PROTO-003: an id of nothing that stands before
};

class Errors {
 public:
  explicit Errors(const SourceText& source) : source_(&source) {}

  // What is being read, for messages; views of what outlives the reading.
  void Enter(std::string_view kind, std::string_view name, std::string_view bytes) {
    kind_ = kind;
    name_ = name;
    place_ = bytes;
  }
  // False, so that readers return it. Only the first error is kept.
  bool Fail(Error error, std::string message);
  bool Damaged(std::string_view what);  // "the shape is cut short or damaged"
  bool failed() const { return first_.has_value(); }
  Diagnostic Take() { return *std::move(first_); }

 private:
  const SourceText* source_;
  std::string_view kind_, name_, place_;
  std::optional<Diagnostic> first_;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_ERRORS_H_
