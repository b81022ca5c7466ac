#include "ir/input/module_input.h"

#include <algorithm>
#include <iterator>

#include "ir/input/async_collectives.h"
#include "ir/input/cut_text.h"
#include "ir/input/foreign_file.h"
#include "ir/input/gzip.h"
#include "ir/input/leftover_shardings.h"
#include "ir/input/older_forms.h"
#include "ir/input/text_sections.h"
#include "ir/parser.h"
#include "ir/proto/reader.h"
#include "ir/stablehlo/reader.h"

namespace gshard {

Expected<std::unique_ptr<Module>> ReadModuleInput(std::shared_ptr<const SourceText> source,
                                                  const InputOptions& options,
                                                  std::shared_ptr<Context> context,
                                                  InputReport* report) {
  InputReport unread;
  if (report == nullptr) report = &unread;
  if (IsGzip(source->text())) {
    auto unpacked = Gunzip(*source);
    if (!unpacked.has_value()) return Fail(std::move(unpacked.error()));
    source = *std::move(unpacked);
  }
  if (proto::IsHloProto(source->text())) {
    auto read = proto::ReadModule(std::move(source), std::move(context));
    if (!read.has_value()) return Fail(std::move(read.error()));
    report->arguments = std::move(read->arguments);
    std::ranges::move(read->warnings, std::back_inserter(report->notes));
    RewriteOlderForms(*read->module);
    DropLeftoverShardings(*read->module);
    RewriteAsyncCollectives(*read->module);
    return std::move(read->module);
  }
  auto text = SelectModuleText(source, options.module_name, report->notes);
  if (!text.has_value()) return Fail(std::move(text.error()));
  if (*text == source) {  // nothing was skipped: is it a text at all?
    if (auto why = WhyNoProgram(*source)) return Fail(*std::move(why));
  }
  const bool is_mlir = stablehlo::IsMlirText((*text)->text());
  auto module = is_mlir ? stablehlo::ReadModule(*text, std::move(context), {.dims = options.dims})
                        : ParseModule(*text, std::move(context));
  if (!module.has_value()) return Fail(NamedAsCut(std::move(module.error()), **text));
  if (!is_mlir) {
    RewriteOlderForms(**module);
    DropLeftoverShardings(**module);
  }
  RewriteAsyncCollectives(**module);
  return module;
}

}  // namespace gshard
