#include "backends/cpu/result_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/io/npz.h"
#include "ir/output_file.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

Expected<void> WriteNpy(const std::string& path, const OutputArray& array) {
  const auto bytes = FormatNpy(array.dtype, array.dims, array.data);
  return WriteWholeFile(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string NameOfResult(const EmulateOptions& options, size_t k) {
  return k < options.output_names.size() ? options.output_names[k] : fmt::format("o{}", k);
}

// A result whose tiles are brought here one rank's at a time, straight into the file. Where that
// fails the other ranks' pieces are taken all the same.
Expected<void> AddInPieces(MeshRun& run, size_t k, const EmulateOptions& options,
                           NpzWriter& writer) {
  const std::string header = FormatNpyHeader(run.OutputType(k), run.OutputDims(k));
  const auto item = static_cast<int64_t>(StorageBytes(run.OutputType(k)));
  int64_t bytes = item;
  for (int64_t dim : run.OutputDims(k)) bytes *= dim;
  auto file =
      writer.AddOnDisk(NameOfResult(options, k), header.size() + static_cast<size_t>(bytes));
  std::byte* data = nullptr;
  if (file) {
    std::memcpy(file->data(), header.data(), header.size());
    data = file->data() + header.size();
  }
  run.VisitTiles(k, [&](const MeshRun::Instance& tile) {
    options.Progress("write", 0);
    if (data == nullptr) return;
    ForEachRow(tile.start, tile.sizes, run.OutputDims(k),
               [&](int64_t global, int64_t local, int64_t length) {
                 std::memcpy(data + global * item, tile.data + local * item,
                             static_cast<size_t>(length * item));
               });
  });
  if (!file) return Fail(file.error());
  return {};
}

Expected<void> WriteOutputInPieces(const PreparedRun& prepared, const EmulateOptions& options) {
  MeshRun& run = *prepared.run;
  NpzWriter writer(options.output, options.stop);
  Expected<void> done;
  for (size_t k = 0; k < prepared.ShownResults(); ++k) {
    if (!run.IsArray(k)) continue;
    if (run.InPieces(k)) {
      Expected<void> added = AddInPieces(run, k, options, writer);
      if (done) done = std::move(added);
      continue;
    }
    run.GatherResult(k);
    const OutputArray array = run.Output(k);
    if (done)
      done = writer.Add(NameOfResult(options, k), FormatNpy(array.dtype, array.dims, array.data));
  }
  return done ? writer.Finish() : done;
}

}  // namespace

void NoteUnknownSizes(const PreparedRun& prepared, const EmulateOptions& options) {
  if (options.output.empty() || !prepared.programs.global_results.empty()) return;
  const MeshRun& run = *prepared.run;
  std::string results;
  size_t count = 0;
  for (size_t k = 0; k < prepared.ShownResults(); ++k) {
    if (!run.IsArray(k) || run.IsStacked(k)) continue;
    const std::span<const int64_t> tile = run.LocalDims(k);
    if (std::ranges::equal(run.OutputDims(k).last(tile.size()), tile)) continue;
    if (++count <= 3) results += fmt::format("{}o{}", results.empty() ? "" : ", ", k);
  }
  if (count == 0) return;
  if (count > 3) results += fmt::format(" and {} more", count - 3);
  Diagnostic note = MakeError(
      "", fmt::format("the text does not say how large its whole results are: {} {} written as "
                      "large as the tiles are together, padding included",
                      results, count == 1 ? "is" : "are"));
  note.severity = Severity::kNote;
  note.hint = "partitioned by this gshard-opt, the text has gshard.output_shapes";
  options.Warn(note);
}

bool WritesInPieces(const PreparedRun& prepared, const EmulateOptions& options) {
  return options.ranks != nullptr && options.ranks->size() > 1 && !options.output.empty() &&
         !options.verify && prepared.programs.feeds.feeds.empty();
}

void GivePieces(const PreparedRun& prepared) {
  MeshRun& run = *prepared.run;
  for (size_t k = 0; k < prepared.ShownResults(); ++k) {
    if (!run.IsArray(k)) continue;
    if (run.InPieces(k)) {
      run.VisitTiles(k, {});
    } else {
      run.GatherResult(k);
    }
  }
}

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
    GSHARD_TRY(CheckWritable(file));
  }
  return {};
}

Expected<void> CheckResultNames(const PreparedRun& prepared, const EmulateOptions& options) {
  const size_t names = options.output_names.size(), results = prepared.ShownResults();
  if (names <= results) return {};
  return Fail(MakeError("E-RUN-NAMES", fmt::format("--output-names has {} names, the program {} "
                                                   "result{}",
                                                   names, results, results == 1 ? "" : "s")));
}

Expected<void> WriteResults(const PreparedRun& prepared, const FeedItems& items,
                            const EmulateOptions& options, bool in_pieces) {
  const MeshRun& run = *prepared.run;
  if (in_pieces) {
    GSHARD_TRY(WriteOutputInPieces(prepared, options));
  } else if (!options.output.empty()) {
    NpzWriter writer(options.output, options.stop);
    for (size_t k = 0; k < prepared.ShownResults(); ++k) {
      OutputArray array = run.Output(k);
      if (!IsArrayType(array.dtype)) continue;
      TrimToItems(prepared.programs.feeds, items, k, run.IsStacked(k), array);
      GSHARD_TRY(
          writer.Add(NameOfResult(options, k), FormatNpy(array.dtype, array.dims, array.data)));
    }
    GSHARD_TRY(writer.Finish());
  }
  for (size_t d = 0; d < options.dumps.size(); ++d) {
    const EmulateOptions::Dump& dump = options.dumps[d];
    // Of a tuple the first leaf is written under the given name, the others with a number.
    const std::vector<size_t> leaves = run.KeptLeaves(d);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const std::string path = i == 0 ? dump.file : fmt::format("{}.{}", dump.file, i);
      GSHARD_TRY(WriteNpy(path, run.Kept(leaves[i], dump.device)));
    }
  }
  return {};
}

}  // namespace gshard::cpu
