// Stage "outputs": the files with results and dumps.
#ifndef GSHARD_BACKENDS_CPU_RESULT_FILES_H_
#define GSHARD_BACKENDS_CPU_RESULT_FILES_H_

#include <cstdint>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/feed_items.h"
#include "backends/cpu/prepared_run.h"

namespace gshard::cpu {

// Before the run: can all files be written, and have dumps a device? Errors: E-RUN-DUMP, of files.
Expected<void> CheckFiles(const EmulateOptions& options, uint32_t device_count);

// Has the program a result for each of `options.output_names`? Errors: E-RUN-NAMES.
Expected<void> CheckResultNames(const PreparedRun& prepared, const EmulateOptions& options);

// After the run: `options.output`, "o0" upwards, and the dumps; what is on other ranks has been
// gathered, but for results that are written `in_pieces`. Errors: of files.
Expected<void> WriteResults(const PreparedRun& prepared, const FeedItems& items,
                            const EmulateOptions& options, bool in_pieces = false);
// Meanwhile on ranks other than the first: gives it the pieces.
void GivePieces(const PreparedRun& prepared);
// Says which results come out as large as their tiles together, because the program's text does not
// tell how large they are; nothing where none is written.
void NoteUnknownSizes(const PreparedRun& prepared, const EmulateOptions& options);
// Whether results can be written so: they are files' only, and none has items of a feed.
bool WritesInPieces(const PreparedRun& prepared, const EmulateOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RESULT_FILES_H_
