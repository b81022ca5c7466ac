// What each part of a merged loop has of its own, beside its examples.
//
//   while(i < 4) { total + gradient(weights, words[i], keys[i]) }     words: s32[4,8,128]
//
// Written once, for all examples, the body knows each of these by the rows: numbers of rows count
// within a part, a key is the one of the row's part. So values that a part has of its own, such as
// keys and what is made of them alone, get a first dim that counts parts, up to where they are
// broadcast to the part's rows. Example: of 4 parts of 8 rows
//
//   u32[8,16] broadcast(u32[] key)     u32[32,16] broadcast(u32[4] key [iota of 32 rows / 8])
//   iota of 8 rows                     iota of 32 rows % 8
#ifndef GSHARD_CORE_PIPELINE_PART_VALUES_H_
#define GSHARD_CORE_PIPELINE_PART_VALUES_H_

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/resize/example_dims.h"
#include "ir/builder.h"

namespace gshard::pipeline {

// How the rows of parts make those of the batch: part after part, or (minor) row after row, those
// of all parts beside each other.
struct PartRows {
  int64_t parts = 1, rows = 1;  // rows of a part
  bool is_minor = false;
};

class PartValues {
 public:
  // `examples` are of the body for one part, whose shapes are `before`, by instruction id; `module`
  // has it for all examples.
  PartValues(Module& module, const ExampleDims& examples, const std::vector<const Shape*>& before,
             const PartRows& rows);

  // Iotas of a part's rows count within it, but where they address the rows of all. Returns one
  // that does both; null: there is none.
  const Instruction* NumberRows();

  // Finds what follows from `own`: parameters of the entry that stand for what a part has. Returns
  // the first instruction whose values of all parts are not known; null: all are.
  const Instruction* Find(const std::unordered_set<const Instruction*>& own);

  // A copy of `x` at the end of the builder's computation, which is the entry or a loop's of it.
  Instruction* Copy(Instruction* x, const std::vector<Instruction*>& operands, Builder& b);

 private:
  bool Grew(const Instruction* x) const;
  int64_t GrownDim(const Instruction* x) const;
  const Instruction* Visit(const Computation& computation);
  const Instruction* VisitLoop(const Instruction* loop, std::vector<bool>& state);
  bool HasAny(const Instruction* x) const;
  bool IsKnown(const Instruction* x) const;
  std::vector<bool> Of(const Instruction* x) const;
  Instruction* LocalNumbers(Builder& b, const Instruction* iota) const;
  Instruction* AllRows(Builder& b, const Instruction* broadcast, Instruction* operand) const;
  Instruction* OfAllParts(Builder& b, const Instruction* x, std::vector<Instruction*> operands);
  Instruction* CopyLoop(Builder& b, const Instruction* loop, Instruction* init);
  const Shape* ShapeOf(const Shape* shape, const std::vector<bool>& own, size_t& leaf) const;

  Module& module_;
  const ExampleDims& examples_;
  const std::vector<const Shape*>& before_;
  PartRows rows_;
  std::unordered_set<const Instruction*> given_;
  std::unordered_map<const Instruction*, std::vector<bool>> own_;  // by leaf
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PART_VALUES_H_
