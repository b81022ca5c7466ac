#include "backends/cpu/result_files.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/io/npz.h"
#include "ir/output_file.h"

namespace gshard::cpu {
namespace {

Expected<void> WriteNpy(const std::string& path, const OutputArray& array) {
  const auto bytes = FormatNpy(array.dtype, array.dims, array.data);
  return WriteWholeFile(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

Expected<void> CheckFiles(const EmulateOptions& options, uint32_t device_count) {
  std::vector<std::string> files;
  for (const EmulateOptions::Dump& dump : options.dumps) {
    if (dump.device && *dump.device >= device_count) {
      return Fail(MakeError("E-RUN-DUMP", fmt::format("--dump {}@{}: there are {} devices",
                                                      dump.name, *dump.device, device_count)));
    }
    files.push_back(dump.file);
  }
  files.push_back(options.output);
  files.push_back(options.trace);
  for (const std::string& file : files) {
    if (file.empty()) continue;
    if (Expected<void> done = CheckWritable(file); !done) return done;
  }
  return {};
}

Expected<void> WriteResults(const PreparedRun& prepared, const FeedItems& items,
                            const EmulateOptions& options) {
  const MeshRun& run = *prepared.run;
  if (!options.output.empty()) {
    NpzWriter writer(options.output, options.stop);
    for (size_t k = 0; k < prepared.ShownResults(); ++k) {
      OutputArray array = run.Output(k);
      if (!IsArrayType(array.dtype)) continue;
      TrimToItems(prepared.programs.feeds, items, k, run.IsStacked(k), array);
      Expected<void> done =
          writer.Add(fmt::format("o{}", k), FormatNpy(array.dtype, array.dims, array.data));
      if (!done) return done;
    }
    if (Expected<void> done = writer.Finish(); !done) return done;
  }
  for (size_t d = 0; d < options.dumps.size(); ++d) {
    const EmulateOptions::Dump& dump = options.dumps[d];
    // Of a tuple the first leaf is written under the given name, the others with a number.
    const std::vector<size_t> leaves = run.KeptLeaves(d);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const std::string path = i == 0 ? dump.file : fmt::format("{}.{}", dump.file, i);
      Expected<void> done = WriteNpy(path, run.Kept(leaves[i], dump.device));
      if (!done) return done;
    }
  }
  return {};
}

}  // namespace gshard::cpu
