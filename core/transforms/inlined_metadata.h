// What a value says of its place in the program once the call that it belonged to is inlined.
//
//   call  {op_name="jit(step)/jvp(f)" stack_frame_id=5}      model.py:6
//   value {op_name="checkpoint/tanh" stack_frame_id=1}       layers.py:4
//   now   {op_name="jit(step)/jvp(f)/checkpoint/tanh" stack_frame_id=8}
//                                                            layers.py:4, called from model.py:6
//
// JAX lowers a function once for all of its calls and names what is in it from there; XLA's call
// inliner joins names and frames as here.
#ifndef GSHARD_CORE_TRANSFORMS_INLINED_METADATA_H_
#define GSHARD_CORE_TRANSFORMS_INLINED_METADATA_H_

#include <tsl/robin_map.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/hash.h"
#include "ir/module.h"

namespace gshard {

class InlinedMetadata {
 public:
  explicit InlinedMetadata(Module& module) : module_(module) {}

  // Of a value with the metadata `own` in what a call with the metadata `call` runs; both as
  // written, "{..}" or empty. Its op_name stands behind the call's unless it is named from the
  // program's start already; its stack frames are called from the call's; where its source is not
  // known it is the call's. In the module's arena, where both must lie as well.
  std::string_view Of(std::string_view call, std::string_view own);

  // Puts the frames that were made into the module's table; to be called once, at the end.
  void WriteFrames();

 private:
  struct Frame {
    int64_t location = -1;  // -1: the table has no such row
    int64_t parent = 0;     // its number, smaller than the frame's own; 0: none
  };
  struct HashNumber {  // of numbers that follow one another, which std::hash leaves so
    size_t operator()(int64_t number) const {
      return HashCombine(0, static_cast<uint64_t>(number));
    }
  };
  using FrameNumbers = tsl::robin_map<int64_t, int64_t, HashNumber>;
  struct Call {
    std::string op_name;  // as written, without its quotes
    std::string place;    // " source_file=.. source_line=.. stack_frame_id=.."
    int64_t frame = 0;
    FrameNumbers* joined = nullptr;                      // of `frame`, in joined_
    tsl::robin_map<const char*, std::string_view> made;  // by where the value's own text begins
  };
  Call& CallOf(std::string_view metadata);
  std::string_view Made(const Call& call, std::string_view own);
  // The module's table of stack frames, when the first one is asked for.
  void ReadFrames();
  const Frame* FrameOf(int64_t number) const;  // null: there is none
  // The frame `own` with its callers, called from the call's; `own` itself if it is that already.
  int64_t Joined(int64_t own, const Call& call);
  int64_t NewFrame(int64_t location, int64_t parent);

  Module& module_;
  bool has_frames_ = false;
  std::vector<Frame> frames_;       // by number; the first is none
  const char* rows_end_ = nullptr;  // where the last row of the module's table ends
  std::unordered_map<int64_t, FrameNumbers> joined_;  // by the call's frame, then by the own one
  std::string rows_;                                  // of the frames made here

  // By their text: layers that are alike say the same of most of their calls.
  std::unordered_map<std::string_view, Call> calls_;
  std::string_view last_text_;
  Call* last_call_ = nullptr;

  // For many texts and stacks, one after the other.
  std::string text_, rest_;
  std::vector<int64_t> stack_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_INLINED_METADATA_H_
