#include "ir/stablehlo/writer.h"

#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {

Expected<std::string> WriteModule(const Module& module, const WriteOptions& options) {
  return ModuleWriter(module, options.gspmd, options.locations).Write();
}

}  // namespace gshard::stablehlo
