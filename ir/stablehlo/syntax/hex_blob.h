// `"0x00FF.."`: bytes in MLIR text.
#ifndef GSHARD_IR_STABLEHLO_SYNTAX_HEX_BLOB_H_
#define GSHARD_IR_STABLEHLO_SYNTAX_HEX_BLOB_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace gshard::stablehlo {

// `quoted` with its quotes. False if it is no such text.
bool DecodeHexBlob(std::string_view quoted, std::vector<std::byte>& bytes);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_SYNTAX_HEX_BLOB_H_
