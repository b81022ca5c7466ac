#include "core/pipeline/restack.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/equality.h"
#include "ir/literal.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

using Chain = std::vector<const Instruction*>;  // operations on one row, first to last

// What a concatenation takes: `steps` of row `row` of `source`; without source what is `given`, or
// zeros.
struct Row {
  Instruction* given = nullptr;
  Instruction* source = nullptr;
  int64_t row = 0;
  Chain steps;
};

bool IsZero(const Instruction* x) {
  if (x->opcode() == Opcode::kBroadcast) x = x->operand(0);
  if (x->opcode() != Opcode::kConstant || x->shape()->element_count() != 1) return false;
  const Literal& literal = *x->attributes<ConstantAttributes>().literal;
  return !literal.elided && ElementAsComplex(literal, 0) == 0.0;
}

bool ActsOnOneRow(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kReshape:
    case Opcode::kTranspose:
    case Opcode::kConvert:
    case Opcode::kCopy:
    case Opcode::kSlice:
      return x->sharding() == nullptr;
    case Opcode::kReduce:
      return x->operand_count() == 2 && x->sharding() == nullptr;
    default:  // not done on all rows at once
      return false;
  }
}

// The slice of one whole row.
bool TakesRow(const Instruction* x) {
  if (x->opcode() != Opcode::kSlice || x->shape()->dim(0) != 1) return false;
  for (int64_t d = 1; d < x->shape()->rank(); ++d) {
    if (x->shape()->dim(d) != x->operand(0)->shape()->dim(d)) return false;
  }
  return true;
}

Row RowOf(Instruction* operand, int64_t stages) {
  Row found;
  if (IsZero(operand)) return found;
  for (Instruction* x = operand;; x = x->operand(0)) {
    if (!ActsOnOneRow(x)) {
      Row given;
      given.given = operand;
      return given;
    }
    Instruction* source = x->operand(0);
    const Sharding* s = source->sharding();
    const bool is_stack = source->shape()->rank() > 0 && s != nullptr && s->IsTiled() &&
                          s->TileCount(0) == stages && source->shape()->dim(0) % stages == 0;
    if (is_stack && TakesRow(x)) {
      found.source = source;
      found.row = x->attributes<SliceAttributes>().starts[0];
      std::ranges::reverse(found.steps);
      return found;
    }
    found.steps.push_back(x);
  }
}

bool SameSteps(const Chain& a, const Chain& b) {
  return std::ranges::equal(a, b, [](const Instruction* x, const Instruction* y) {
    const bool same_init = x->opcode() != Opcode::kReduce || x->operand(1) == y->operand(1);
    return x->opcode() == y->opcode() && x->shape()->bare() == y->shape()->bare() && same_init &&
           SameOperation(*x, *y);
  });
}

std::vector<int64_t> Prepended(int64_t first, std::span<const int64_t> list) {
  std::vector<int64_t> all = {first};
  all.insert(all.end(), list.begin(), list.end());
  return all;
}

// The numbers of the same dims behind a new first one.
std::vector<int64_t> OneLater(std::span<const int64_t> dims) {
  std::vector<int64_t> later(dims.begin(), dims.end());
  for (int64_t& d : later) ++d;
  return later;
}

std::span<const int64_t> Dimensions(const Instruction* x) {
  return x->attributes<DimensionsAttributes>().dimensions;
}

class Restacker {
 public:
  Restacker(Module& module, int64_t stages) : module_(module), stages_(stages) {}

  Instruction* Visit(Instruction* x, Builder& builder) {
    if (x->opcode() != Opcode::kConcatenate || x->parent() != module_.entry()) return x;
    const int64_t count = x->operand_count();
    if (x->attributes<DimensionsAttributes>().dimensions[0] != 0 || count % stages_ != 0 ||
        x->shape()->dim(0) != count) {
      return x;
    }
    std::vector<Row> rows;
    for (Instruction* operand : x->operands()) rows.push_back(RowOf(operand, stages_));
    const auto known =
        std::ranges::count_if(rows, [](const Row& row) { return row.source != nullptr; });
    if (2 * known < count) return x;
    b_ = &builder;
    const int64_t each = count / stages_;
    std::vector<Instruction*> parts;
    for (int64_t j = 0; j < each; ++j) {
      std::vector<const Row*> of_devices;
      for (int64_t d = 0; d < stages_; ++d) {
        of_devices.push_back(&rows[static_cast<size_t>(d * each + j)]);
      }
      parts.push_back(Gathered(of_devices, *x->operand(0)->shape()));
    }
    return builder.Reshape(builder.Concatenate(parts, 1), x->shape()->dims());
  }

 private:
  std::vector<int64_t> OfDevices(std::span<const int64_t> dims) const {
    return Prepended(stages_, dims);
  }

  // [K, ..]: one row a device.
  Instruction* Gathered(const std::vector<const Row*>& rows, const Shape& shape) {
    struct Group {
      const Row* row;
      int64_t shift, number;
    };
    std::vector<Group> groups;
    std::vector<int64_t> number_of;  // by device
    for (int64_t d = 0; d < stages_; ++d) {
      const Row& row = *rows[static_cast<size_t>(d)];
      if (row.source == nullptr && row.given == nullptr) {
        number_of.push_back(-1);
        continue;
      }
      const int64_t each = EachOf(row), shift = row.given != nullptr ? 0 : row.row / each - d;
      auto same = std::ranges::find_if(groups, [&](const Group& group) {
        return group.row->given == row.given && group.row->source == row.source &&
               group.row->row % each == row.row % each && group.shift == shift &&
               SameSteps(group.row->steps, row.steps);
      });
      if (same == groups.end()) {
        const auto number = static_cast<int64_t>(groups.size());
        same = groups.insert(same, {&row, shift, number});
      }
      number_of.push_back(same->number);
    }
    const std::vector<int64_t> dims = OfDevices(shape.dims());
    const bool has_none = std::ranges::find(number_of, -1) != number_of.end();
    Instruction* all = has_none ? b_->Zero(module_.context().Array(shape.dtype(), dims)) : nullptr;
    Instruction* numbers = b_->IntegerTable(DType::kS32, number_of);
    const int64_t by_device[] = {0};
    for (const Group& group : groups) {
      Instruction* rows_of_group =
          group.row->given != nullptr ? OnAll(group.row->given) : Shifted(*group.row, group.shift);
      if (all == nullptr) {
        all = rows_of_group;
        continue;
      }
      Instruction* own =
          b_->Compare(ComparisonDirection::kEq, numbers,
                      b_->BroadcastScalar(b_->ScalarInt(DType::kS32, group.number), OfDevices({})));
      all = b_->Select(b_->Broadcast(own, dims, by_device), rows_of_group, all);
    }
    return all;
  }

  int64_t EachOf(const Row& row) const {
    return row.source == nullptr ? 1 : row.source->shape()->dim(0) / stages_;
  }

  Instruction* OnAll(Instruction* row) {
    std::vector<int64_t> dimensions(row->shape()->dims().size());
    std::iota(dimensions.begin(), dimensions.end(), 1);
    return b_->Broadcast(row, OfDevices(row->shape()->dims()), dimensions);
  }

  // On each device what the device `shift` further has in the row's place in its tile.
  Instruction* Shifted(const Row& row, int64_t shift) {
    const int64_t each = EachOf(row), place = row.row % each;
    auto [known, is_new] = tile_row_.try_emplace({row.source, place}, nullptr);
    if (is_new) {
      const std::span<const int64_t> rest = row.source->shape()->dims().subspan(1);
      std::vector<int64_t> dims = {stages_, each};
      dims.insert(dims.end(), rest.begin(), rest.end());
      known->second = b_->SliceDim(b_->Reshape(row.source, dims), 1, place, place + 1);
    }
    Instruction* x = known->second;
    // What is sent is the narrower of both.
    const bool narrows = !row.steps.empty() &&
                         row.steps.back()->shape()->byte_size() * stages_ < x->shape()->byte_size();
    if (narrows) x = WithSteps(x, row.steps);
    if (shift != 0) {
      x = b_->PadDimension(x, b_->Scalar(x->shape()->dtype(), 0), 0, -shift, shift);
    }
    return narrows ? x : WithSteps(x, row.steps);
  }

  // The steps on the rows of all devices at once.
  Instruction* WithSteps(Instruction* x, const Chain& steps) {
    for (const Instruction* step : steps) {
      const std::vector<int64_t> dims = OfDevices(step->shape()->dims());
      switch (step->opcode()) {
        case Opcode::kReshape:
          x = b_->Reshape(x, dims);
          break;
        case Opcode::kTranspose:
          x = b_->Transpose(x, Prepended(0, OneLater(Dimensions(step))));
          break;
        case Opcode::kConvert:
          x = b_->Convert(x, step->shape()->dtype());
          break;
        case Opcode::kSlice: {
          const auto& slice = step->attributes<SliceAttributes>();
          x = b_->Slice(x, Prepended(0, slice.starts), Prepended(stages_, slice.limits),
                        Prepended(1, slice.strides));
          break;
        }
        case Opcode::kReduce:
          x = b_->Reduce(x, step->operand(1), OneLater(Dimensions(step)), step->called(0));
          break;
        default:  // a copy
          break;
      }
    }
    return x;
  }

  Module& module_;
  int64_t stages_;
  Builder* b_ = nullptr;
  std::map<std::pair<const Instruction*, int64_t>, Instruction*> tile_row_;
};

}  // namespace

void RestackRows(Module& module, int64_t stages) {
  if (stages == 1) return;
  Restacker restacker(module, stages);
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) {
    return restacker.Visit(x, rewriter.builder());
  });
  RemoveDeadCode(module);
}

}  // namespace gshard::pipeline
