// LiteralProto -> Literal: raw little-endian elements in the layout of the literal's shape.
#ifndef GSHARD_IR_PROTO_LITERALS_H_
#define GSHARD_IR_PROTO_LITERALS_H_

#include <string_view>

#include "ir/arena.h"
#include "ir/literal.h"
#include "ir/proto/errors.h"
#include "ir/proto/shapes.h"

namespace gshard::proto {

// A literal of an array or of a tuple, in `arena`; an array (no scalar) without elements that
// should have some is elided (profilers drop them). Null after an error.
const Literal* ReadLiteral(std::string_view bytes, Arena& arena, ShapeReader& shapes,
                           Errors& errors);

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_LITERALS_H_
