// Prints one module, or parts of it, into a string; see ir/printer.h. Internal to ir/.
//
// Every distinct shape, sharding and list of groups is formatted once per string: later uses copy
// the bytes of the first.
#ifndef GSHARD_IR_MODULE_PRINTER_H_
#define GSHARD_IR_MODULE_PRINTER_H_

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute_table.h"
#include "ir/module.h"
#include "ir/printer.h"
#include "tsl/robin_map.h"

namespace gshard {

class ModulePrinter {
 public:
  ModulePrinter(std::string& out, const Module& module, const PrintOptions& options)
      : out_(out), module_(module), options_(options) {}

  // Names without numbers and channel ids from 1 on, for ids = false. Without it both print as they
  // are.
  void ShortenNames();

  void PrintAll();
  void Print(const Computation& computation);
  void Print(const Instruction& instruction);

 private:
  // --- module level (printer.cc)
  void PrintHeader();
  void PrintIndex(std::span<const int64_t> index);
  void PrintSignature(const Computation& computation);
  std::string_view NameOf(const Instruction& instruction) const;
  std::string_view NameOf(const Computation& computation) const;

  // --- instructions (printer.cc)
  void PrintOperands(const Instruction& instruction);
  void PrintCommonAttributes(const Instruction& instruction, const Instruction* wrapped);

  // --- attributes (printer_attributes.cc)
  // Rows of the opcode, each after ", ". `called` are the instruction's computations.
  void PrintRows(const Instruction& instruction, Opcode opcode, const void* attributes);
  bool IsPrinted(const AttributeRow& row, const Instruction& instruction, const void* attributes);
  void PrintValue(const AttributeRow& row, const Instruction& instruction, const void* attributes);
  void PrintSlice(const SliceAttributes& slice);
  void PrintPadding(std::span<const PadDim> padding);
  void PrintWindow(std::span<const WindowDim> window);
  void PrintPairs(std::span<const DevicePair> pairs);
  void PrintPrecision(std::span<const Precision> precision);
  void PrintGroups(const ReplicaGroups* groups);
  void PrintSharding(const Sharding* sharding);
  void PrintShape(const Shape* shape) { PrintShape(shape, options_.layouts); }
  void PrintShape(const Shape* shape, bool layouts);
  // A shape that a literal follows: its layout keeps the literal's brace apart.
  void PrintShapeWithLayout(const Shape* shape);
  int64_t ChannelOf(int64_t channel_id);
  void PrintDims(Dims dims);
  void PrintPercentName(std::string_view name) {
    out_ += '%';
    out_ += name;
  }

  template <typename T>
  void PrintInteger(T value) {
    char digits[24];
    const char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    out_.append(digits, static_cast<size_t>(end - digits));
  }
  // Before element i of a list: ", ", and the index every five elements.
  void PrintSeparator(size_t i);

  // Runs `format` unless what `key` stands for was printed before.
  template <typename Format>
  void PrintCached(const void* key, Format&& format) {
    auto [it, inserted] = printed_.try_emplace(key);
    if (inserted) {
      const size_t begin = out_.size();
      format();
      // `it` may have moved: formatting a tuple prints its elements' parts.
      printed_[key] = {begin, out_.size() - begin};
    } else {
      out_.append(out_, it->second.begin, it->second.size);
    }
  }

  struct Printed {
    size_t begin = 0;
    size_t size = 0;
  };
  std::string& out_;
  const Module& module_;
  const PrintOptions options_;
  tsl::robin_map<const void*, Printed> printed_;
  bool short_names_ = false;
  std::vector<std::string> short_name_of_;  // by instruction id
  tsl::robin_map<const Computation*, std::string> short_computation_name_of_;
  tsl::robin_map<int64_t, int64_t> short_channel_of_;  // filled as they are printed
};

}  // namespace gshard

#endif  // GSHARD_IR_MODULE_PRINTER_H_
