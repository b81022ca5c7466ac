#include "core/pipeline/restack.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/pipeline/plan/stage_tiles.h"
#include "core/transforms/rewriter.h"
#include "ir/equality.h"
#include "ir/literal.h"
#include "ir/sharding_algebra.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

// Operations on one row, first to last, and which operand of each is the row.
struct Step {
  const Instruction* x = nullptr;
  int64_t operand = 0;
};
using Chain = std::vector<Step>;

// What a concatenation takes: `steps` of row `row` of `source`; without source what is `given`, or
// zeros, which are anything where nobody reads them.
struct Row {
  Instruction* given = nullptr;
  Instruction* source = nullptr;
  int64_t row = 0;
  Chain steps;
  bool is_unread = false;
};

bool IsZero(const Instruction* x) {
  if (x->opcode() == Opcode::kBroadcast) x = x->operand(0);
  if (x->opcode() != Opcode::kConstant || x->shape()->element_count() != 1) return false;
  const Literal& literal = *x->attributes<ConstantAttributes>().literal;
  return !literal.elided && ElementAsComplex(literal, 0) == 0.0;
}

// Made of numbers in the text alone: the same on all devices, and nothing to send.
bool IsCheapEverywhere(const Instruction* x, int depth = 8) {
  if (x->opcode() == Opcode::kConstant || x->opcode() == Opcode::kIota) return true;
  const bool is_plain = IsElementwise(x->opcode()) || x->opcode() == Opcode::kBroadcast ||
                        x->opcode() == Opcode::kReshape;
  return is_plain && depth > 0 && x->sharding() == nullptr &&
         std::ranges::all_of(x->operands(), [&](const Instruction* from) {
           return IsCheapEverywhere(from, depth - 1);
         });
}

// The slice of one whole row.
bool TakesRow(const Instruction* x) {
  if (x->opcode() != Opcode::kSlice || x->shape()->dim(0) != 1) return false;
  for (int64_t d = 1; d < x->shape()->rank(); ++d) {
    if (x->shape()->dim(d) != x->operand(0)->shape()->dim(d)) return false;
  }
  return true;
}

bool SameSteps(const Chain& a, const Chain& b) {
  return std::ranges::equal(a, b, [](const Step& s, const Step& t) {
    const Instruction *x = s.x, *y = t.x;
    if (x->opcode() != y->opcode() || s.operand != t.operand) return false;
    if (x->shape()->bare() != y->shape()->bare() || x->sharding() != y->sharding()) return false;
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      if (i != s.operand && x->operand(i) != y->operand(i)) return false;
    }
    return SameOperation(*x, *y);
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
  Restacker(Module& module, const RestackInputs& in)
      : module_(module), in_(in), stages_(in.shardings->stages()) {}

  Instruction* Visit(Instruction* x, Builder& builder) {
    if (x->opcode() != Opcode::kConcatenate || x->parent() != module_.entry()) return x;
    const int64_t count = x->operand_count(), each = RowsOfTile(count, stages_);
    if (x->attributes<DimensionsAttributes>().dimensions[0] != 0 || x->shape()->dim(0) != count) {
      return x;
    }
    if (!FillsTiles(count, stages_)) return x;
    std::vector<Row> rows;
    for (Instruction* operand : x->operands()) rows.push_back(RowOf(operand));
    const auto known =
        std::ranges::count_if(rows, [](const Row& row) { return row.source != nullptr; });
    if (2 * known < count) return x;
    b_ = &builder;
    // Rows that fill up the last devices' tiles.
    Row filler;
    filler.is_unread = true;
    rows.resize(static_cast<size_t>(each * stages_), filler);
    std::vector<Instruction*> parts;
    for (int64_t j = 0; j < each; ++j) {
      std::vector<const Row*> of_devices;
      for (int64_t d = 0; d < stages_; ++d) {
        of_devices.push_back(&rows[static_cast<size_t>(d * each + j)]);
      }
      parts.push_back(Gathered(of_devices, *x->operand(0)->shape()));
    }
    std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
    dims[0] = each * stages_;
    Instruction* all = builder.Reshape(builder.Concatenate(parts, 1), dims);
    return dims[0] == count ? all : builder.SliceDim(all, 0, 0, count);
  }

 private:
  Row RowOf(Instruction* operand) const {
    Row found;
    if (IsZero(operand)) {
      found.is_unread = in_.unread->contains(operand);
      return found;
    }
    Instruction* x = operand;
    while (true) {
      Instruction* source = x->operand_count() > 0 ? x->operand(0) : nullptr;
      if (source != nullptr && IsStack(source) && TakesRow(x)) {
        found.source = source;
        found.row = x->attributes<SliceAttributes>().starts[0];
        std::ranges::reverse(found.steps);
        return found;
      }
      const int64_t i = RowOperand(x);
      if (i < 0) break;
      found.steps.push_back({x, i});
      x = x->operand(i);
    }
    Row given;
    given.given = operand;
    return given;
  }

  // Cut over the stages along dim 0, the last tiles perhaps shorter.
  bool IsStack(const Instruction* x) const {
    const Sharding* s = x->sharding();
    return x->shape()->rank() > 0 && s != nullptr && s->IsTiled() && s->TileCount(0) == stages_;
  }

  // The operand that an operation on one row takes it by; -1: it is no such operation.
  int64_t RowOperand(const Instruction* x) const {
    if (x->sharding() != nullptr) {
      return x->opcode() == Opcode::kCopy && in_.annotations->contains(x) ? 0 : -1;
    }
    switch (x->opcode()) {
      case Opcode::kReshape:
      case Opcode::kTranspose:
      case Opcode::kConvert:
      case Opcode::kCopy:
      case Opcode::kSlice:
      case Opcode::kBroadcast:
        return 0;
      case Opcode::kReduce:
        return x->operand_count() == 2 ? 0 : -1;
      default:  // elementwise, or none
        break;
    }
    if (!IsElementwise(x->opcode())) return -1;
    int64_t found = -1;
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      if (IsCheapEverywhere(x->operand(i))) continue;
      if (found >= 0) return -1;
      found = i;
    }
    return found;
  }

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
    std::vector<int64_t> number_of;  // by device; -1: zeros
    for (int64_t d = 0; d < stages_; ++d) {
      const Row& row = *rows[static_cast<size_t>(d)];
      if (row.source == nullptr && row.given == nullptr) {
        number_of.push_back(row.is_unread ? 0 : -1);
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
    const bool has_none =
        groups.empty() || std::ranges::find(number_of, -1) != number_of.end();
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
    return row.source == nullptr ? 1 : RowsOfTile(row.source->shape()->dim(0), stages_);
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
    if (is_new) known->second = b_->SliceDim(Tiles(row.source, each), 1, place, place + 1);
    Instruction* x = known->second;
    // What is sent is the narrower of both.
    const bool narrows = !row.steps.empty() &&
                         row.steps.back().x->shape()->byte_size() * stages_ < x->shape()->byte_size();
    if (narrows) x = WithSteps(x, row.steps);
    if (shift != 0) {
      x = b_->PadDimension(x, b_->Scalar(x->shape()->dtype(), 0), 0, -shift, shift);
    }
    return narrows ? x : WithSteps(x, row.steps);
  }

  // [K, each, ..]
  Instruction* Tiles(Instruction* source, int64_t each) {
    Instruction*& tiles = tiles_[source];
    if (tiles != nullptr) return tiles;
    std::vector<int64_t> dims(source->shape()->dims().begin(), source->shape()->dims().end());
    Instruction* whole = source;
    if (const int64_t missing = stages_ * each - dims[0]; missing > 0) {
      whole = b_->PadDimension(whole, b_->Scalar(whole->shape()->dtype(), 0), 0, 0, missing);
      whole->set_sharding(source->sharding());
    }
    dims[0] = each;
    return tiles = b_->Reshape(whole, OfDevices(dims));
  }

  // The steps on the rows of all devices at once.
  Instruction* WithSteps(Instruction* x, const Chain& steps) {
    for (const auto& [step, operand] : steps) x = WithStep(x, step, operand);
    return x;
  }

  Instruction* WithStep(Instruction* x, const Instruction* step, int64_t operand) {
    const std::vector<int64_t> dims = OfDevices(step->shape()->dims());
    switch (step->opcode()) {
      case Opcode::kReshape:
        return b_->Reshape(x, dims);
      case Opcode::kTranspose:
        return b_->Transpose(x, Prepended(0, OneLater(Dimensions(step))));
      case Opcode::kBroadcast:
        return b_->Broadcast(x, dims, Prepended(0, OneLater(Dimensions(step))));
      case Opcode::kSlice: {
        const auto& slice = step->attributes<SliceAttributes>();
        return b_->Slice(x, Prepended(0, slice.starts), Prepended(stages_, slice.limits),
                         Prepended(1, slice.strides));
      }
      case Opcode::kReduce:
        return b_->Reduce(x, step->operand(1), OneLater(Dimensions(step)), step->called(0));
      case Opcode::kCopy:
        return step->sharding() == nullptr ? x : Annotated(x, in_.annotations->at(step));
      default:  // element by element
        break;
    }
    std::vector<Instruction*> operands;
    for (int64_t i = 0; i < step->operand_count(); ++i) {
      operands.push_back(i == operand ? x : OnAll(step->operand(i)));
    }
    const Shape* shape = module_.context().Array(step->shape()->dtype(), dims);
    Instruction* made = b_->CloneWith(step, operands, shape);
    made->set_frontend_attributes("");  // says which stage uses that row
    return made;
  }

  // As each row lies over the devices of its stage.
  Instruction* Annotated(Instruction* x, const Sharding* row) {
    Instruction* const operands[] = {x};
    Instruction* copy = b_->Add(Opcode::kCopy, operands, NoAttributes{}, x->shape()->bare());
    const Sharding* all = AddDims(module_.context(), row, std::vector<int64_t>{0});
    copy->set_sharding(in_.shardings->Outside(x->shape()->rank(), all, 0));
    return copy;
  }

  Module& module_;
  const RestackInputs& in_;
  int64_t stages_;
  Builder* b_ = nullptr;
  std::map<std::pair<const Instruction*, int64_t>, Instruction*> tile_row_;
  std::map<const Instruction*, Instruction*> tiles_;
};

}  // namespace

void RestackRows(Module& module, const RestackInputs& inputs) {
  if (inputs.shardings->stages() == 1) return;
  Restacker restacker(module, inputs);
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) {
    return restacker.Visit(x, rewriter.builder());
  });
  RemoveDeadCode(module);
}

}  // namespace gshard::pipeline
