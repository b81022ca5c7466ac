#include "ir/input/module_input.h"

#include "ir/parser.h"
#include "ir/stablehlo/reader.h"

namespace gshard {

Expected<std::unique_ptr<Module>> ReadModuleInput(std::shared_ptr<const SourceText> source,
                                                  const InputOptions& options,
                                                  std::shared_ptr<Context> context) {
  if (stablehlo::IsMlirText(source->text())) {
    return stablehlo::ReadModule(std::move(source), std::move(context), {.dims = options.dims});
  }
  return ParseModule(std::move(source), std::move(context));
}

}  // namespace gshard
