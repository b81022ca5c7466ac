#include "ir/stablehlo/writer.h"

#include "ir/stablehlo/print/module_writer.h"
#include "ir/utf8.h"

namespace gshard::stablehlo {

Expected<std::string> WriteModule(const Module& module, const WriteOptions& options) {
  Expected<std::string> text = ModuleWriter(module, options.gspmd, options.locations).Write();
  if (text) EscapeNotUtf8(*text, ByteEscape::kHex);
  return text;
}

}  // namespace gshard::stablehlo
