// Rows that change hands between stages, in few collective-permutes.
//
// Each device holds rows and is to have others. In one collective-permute every device sends one
// row and receives one, whichever these are; rows that stay are copied beside that. So there are as
// many as the device has rows to send or receive that has most, by König's edge colouring: 12 for
// stacks of 96 layers on 8 devices, where rows that move equally far share 57.
#ifndef GSHARD_CORE_PIPELINE_ROW_EXCHANGE_H_
#define GSHARD_CORE_PIPELINE_ROW_EXCHANGE_H_

#include <span>

#include "core/pipeline/emit/region_shardings.h"
#include "ir/builder.h"

namespace gshard::pipeline {

// Row `from` of array `held` on stage `source` is row `to` of what stage `target` gets.
struct RowMove {
  size_t held = 0;
  int64_t source = 0, from = 0;
  int64_t target = 0, to = 0;
};

// The fewest collective-permutes that do all moves.
int64_t FewestPermutes(int64_t stages, std::span<const RowMove> moves);

struct RowExchange {
  std::span<Instruction* const>
      held;  // local, in the region that is manual over the stages: [n, ..]
  std::span<const RowMove> moves;
  int64_t count = 0;             // rows that each stage gets; those that no move names are anything
  std::span<const DType> types;  // rows are converted to these, one after the other, to be sent
  const Sharding* s = nullptr;   // how all arrays lie over the devices of a stage; null: whole
};
// Returns [count, ..] in the region. New instructions are like `b`'s, at the end of its
// computation.
Instruction* ExchangeRows(const Builder& b, const RegionShardings& shardings,
                          const RowExchange& exchange);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ROW_EXCHANGE_H_
