// MLIR locations as HLO metadata: the outermost name becomes op_name, the innermost file and line
// source_file and source_line, chains of call sites the module's stack frames.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_LOCATIONS_H_
#define GSHARD_IR_STABLEHLO_IMPORT_LOCATIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/stablehlo/syntax/syntax.h"

namespace gshard::stablehlo {

class Locations {
 public:
  // `program` and `arena` must outlive this.
  Locations(const Program& program, Arena& arena) : program_(program), arena_(arena) {}

  struct Entry {
    std::string_view metadata;  // "{op_name=..}"; empty if the location says nothing
    std::string_view op_name;
    std::string_view base_name;  // op_name's last part as the name of an instruction, or empty
  };
  // `text`: what stands in loc(..). Views live in the arena.
  const Entry& Of(std::string_view text);

  // The tables that stack_frame_id in the metadata refers to; empty if there are none.
  std::string DebugTables() const;

 private:
  struct Place {
    std::string op_name, function, file;
    int64_t line = 0, column = 0, end_line = 0, end_column = 0;
    int64_t frame = 0;  // of the innermost call site, 1-based; 0: none
  };
  // Reads a location into `place`, with `parent` as the frame that calls it.
  void Read(std::string_view text, int64_t parent, int depth, Place& place);
  void ReadNamed(std::string_view quoted, std::string_view rest, int64_t parent, int depth,
                 Place& place);
  void ReadFused(std::string_view parts_text, int64_t parent, int depth, Place& place);
  void ReadCallSite(std::string_view text, int64_t parent, int depth, Place& place);
  int64_t FrameOf(const Place& place, int64_t parent);
  int64_t IdOf(std::map<std::string, int64_t, std::less<>>& ids, std::vector<std::string>& list,
               const std::string& text);
  bool IsNamed(std::string_view text) const;
  Entry MakeEntry(std::string_view text);

  const Program& program_;
  Arena& arena_;
  ViewMap<Entry> entries_;
  std::map<std::pair<const char*, int64_t>, Place> read_;  // alias and calling frame
  int steps_ = 0;                                          // of the entry being made
  std::map<std::string, int64_t, std::less<>> file_ids_, function_ids_, location_ids_, frame_ids_;
  std::vector<std::string> files_, functions_, locations_, frames_;
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_LOCATIONS_H_
