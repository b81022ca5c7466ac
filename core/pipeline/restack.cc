#include "core/pipeline/restack.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/pipeline/emit/stage_ring.h"
#include "core/pipeline/plan/stage_tiles.h"
#include "core/pipeline/row_exchange.h"
#include "core/transforms/rewriter.h"
#include "ir/dims.h"
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
    // Frontend attributes say which stage uses that row.
    return SameButFrontendAttributes(*x, *y);
  });
}

std::span<const int64_t> Dimensions(const Instruction* x) {
  return x->attributes<DimensionsAttributes>().dimensions;
}

// Do the steps leave the dims as they are, but for dims of size 1?
bool KeepsDims(const Chain& steps) {
  auto wide = [](const Shape* shape) {
    std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
    std::erase(dims, 1);
    return dims;
  };
  return std::ranges::all_of(steps, [&](const Step& step) {
    const Opcode opcode = step.x->opcode();
    return (opcode == Opcode::kReshape || opcode == Opcode::kCopy || IsElementwise(opcode)) &&
           wide(step.x->shape()) == wide(step.x->operand(step.operand)->shape());
  });
}

// The types that the steps convert to, if they do nothing else; otherwise none.
std::vector<DType> TypesOf(const Chain& steps) {
  std::vector<DType> types;
  for (const Step& step : steps) {
    const bool is_copy = step.x->opcode() == Opcode::kCopy && step.x->sharding() == nullptr;
    if (step.x->opcode() == Opcode::kConvert) {
      types.push_back(step.x->shape()->dtype());
    } else if (!is_copy && step.x->opcode() != Opcode::kReshape) {
      return {};
    }
  }
  return types;
}

class Restacker {
 public:
  Restacker(Module& module, const RestackInputs& in)
      : module_(module), in_(in), stages_(in.shardings->stages()), ring_(*in.shardings) {
    size_t position = 0;
    for (Instruction* x : module.entry()->instructions()) {
      position_[x] = position++;
      AddStack(x);
    }
  }

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    const auto found = stack_of_.find(x);
    if (found == stack_of_.end()) return x;
    rewriter_ = &rewriter;
    b_ = &rewriter.builder();
    const size_t number = found->second;
    Instruction* all = stacks_[number].is_exchanged ? Exchanged(number) : ByShifts(stacks_[number]);
    const int64_t count = x->operand_count();
    return all->shape()->dim(0) == count ? all : b_->SliceDim(all, 0, 0, count);
  }

 private:
  // A concatenation of rows.
  struct Stack {
    Instruction* x = nullptr;
    int64_t each = 0;           // rows of a device
    std::vector<Row> rows;      // of all devices; the last tiles are filled up
    std::vector<int> class_of;  // by row: index in classes_; -1: not from a source
    bool is_exchanged = false;  // by ExchangeRows
  };
  // Rows that are alike but for their numbers and their sources can be sent together.
  struct RowClass {
    const Row* row = nullptr;
    bool narrows = false;              // the steps come first, as they leave fewer bytes
    std::optional<const Sharding*> s;  // of what is sent, over the devices of a stage
    std::vector<DType> types;  // all that the steps do is to convert to these, which narrows
    std::vector<size_t> stacks;
  };

  void AddStack(Instruction* x) {
    if (x->opcode() != Opcode::kConcatenate) return;
    const int64_t count = x->operand_count(), each = RowsOfTile(count, stages_);
    if (Dimensions(x)[0] != 0 || x->shape()->dim(0) != count) return;
    if (!FillsTiles(count, stages_)) return;
    Stack stack{x, each, {}, {}};
    for (Instruction* operand : x->operands()) stack.rows.push_back(RowOf(operand));
    const auto known =
        std::ranges::count_if(stack.rows, [](const Row& row) { return row.source != nullptr; });
    if (2 * known < count) return;
    Row filler;
    filler.is_unread = true;
    stack.rows.resize(static_cast<size_t>(each * stages_), filler);
    const size_t number = stacks_.size();
    stack_of_[x] = number;
    Classify(stacks_.emplace_back(std::move(stack)), number);
  }

  void Classify(Stack& stack, size_t number) {
    bool is_known = true, moves = false;
    for (size_t i = 0; i < stack.rows.size(); ++i) {
      const Row& row = stack.rows[i];
      stack.class_of.push_back(-1);
      if (row.source == nullptr) continue;
      const size_t c = ClassOf(row);
      stack.class_of.back() = static_cast<int>(c);
      RowClass& of = classes_[c];
      if (of.stacks.empty() || of.stacks.back() != number) of.stacks.push_back(number);
      is_known = is_known && of.s.has_value();
      moves = moves || row.row / EachOf(row) != static_cast<int64_t>(i) / stack.each;
    }
    stack.is_exchanged = is_known && moves;
  }

  size_t ClassOf(const Row& row) {
    const Shape* shape = row.source->shape();
    auto is_same = [&](const RowClass& of) {
      const Shape* other = of.row->source->shape();
      return of.row->source->sharding() == row.source->sharding() &&
             other->dtype() == shape->dtype() &&
             std::ranges::equal(other->dims().subspan(1), shape->dims().subspan(1)) &&
             SameSteps(of.row->steps, row.steps);
    };
    if (last_class_ < classes_.size() && is_same(classes_[last_class_])) return last_class_;
    const auto found = std::ranges::find_if(classes_, is_same);
    last_class_ = static_cast<size_t>(found - classes_.begin());
    if (found != classes_.end()) return last_class_;
    RowClass made;
    kept_rows_.push_back(row);
    made.row = &kept_rows_.back();
    made.narrows = Narrows(row);
    made.s = in_.shardings->WithinStage(shape->rank(), row.source->sharding());
    if (made.narrows && !KeepsDims(row.steps)) made.s.reset();
    if (made.narrows) made.types = TypesOf(row.steps);
    if (made.narrows && made.s) {
      for (const Step& step : row.steps) {
        if (step.x->sharding() == nullptr) continue;
        std::vector<int64_t> dims = Prepended(1, shape->dims().subspan(1));
        made.s = PropagateThroughReshape(module_.context(), in_.annotations->at(step.x),
                                         step.x->shape()->dims(), dims);
      }
    }
    classes_.push_back(std::move(made));
    return last_class_;
  }

  // --- by ExchangeRows

  Instruction* Exchanged(size_t number) {
    const Stack& stack = stacks_[number];
    std::map<Instruction*, int64_t> numbers;
    std::vector<Part> parts;
    std::vector<int64_t> number_of;  // by row
    for (size_t i = 0; i < stack.rows.size(); ++i) {
      const Row& row = stack.rows[i];
      Instruction* x = nullptr;
      if (const int c = stack.class_of[i]; c >= 0) {
        x = PieceOf(static_cast<size_t>(c), number);
      } else if (row.given != nullptr) {
        x = rewriter_->ValueOf(row.given);
      }
      number_of.push_back(0);
      if (x == nullptr && row.is_unread) continue;
      const auto [known, is_new] = numbers.try_emplace(x, std::ssize(parts));
      number_of.back() = known->second;
      if (!is_new) continue;
      const int64_t lead = std::ssize(stack.rows);
      if (x == nullptr) {
        x = ZeroRows(*stack.x->operand(0)->shape(), lead);
      } else if (stack.class_of[i] < 0) {
        x = OnAll(x, lead);
      }
      parts.push_back(
          {b_->Reshape(x, Prepended(lead, stack.x->shape()->dims().subspan(1))), known->second});
    }
    return Selected(parts, number_of);
  }

  // Of one stack the rows of a class; other rows are anything. Stacks that are sent with it,
  // because that takes fewer collective-permutes, are made, too.
  Instruction* PieceOf(size_t c, size_t number) {
    if (const auto made = pieces_.find({c, number}); made != pieces_.end()) return made->second;
    std::vector<size_t> members = SentWith(c, number);
    Sent sent = SentOf(c, members);
    int64_t apart = 0;
    for (const size_t m : members) {
      const size_t one[] = {m};
      apart += FewestPermutes(stages_, SentOf(c, one).moves);
    }
    if (apart <= FewestPermutes(stages_, sent.moves)) {
      members = {number};
      sent = SentOf(c, members);
    }
    const RowClass& of = classes_[c];
    std::vector<Instruction*> held;
    for (Instruction* source : sent.sources) held.push_back(Entered(source, of));
    Instruction* all =
        ExchangeRows(*b_, *in_.shardings, {held, sent.moves, sent.count, of.types, *of.s});
    Builder region(module_, b_->computation());
    region.set_origin(b_->origin());
    int64_t begin = 0;
    for (const size_t m : members) {
      const int64_t each = stacks_[m].each;
      Instruction* piece = region.SliceDim(all, 0, begin, begin + each);
      begin += each;
      piece->set_sharding(all->sharding());
      piece = ring_.Leave(region, piece, *of.s, 0);
      pieces_[{c, m}] = of.narrows ? piece : RowsWithSteps(piece, of.row->steps);
    }
    return pieces_.at({c, number});
  }

  // What is sent for stacks.
  struct Sent {
    std::vector<Instruction*> sources;
    std::vector<RowMove> moves;
    int64_t count = 0;  // rows of a device
  };
  Sent SentOf(size_t c, std::span<const size_t> members) const {
    Sent sent;
    std::map<const Instruction*, size_t> number_of;
    for (const size_t m : members) {
      const Stack& stack = stacks_[m];
      for (size_t i = 0; i < stack.rows.size(); ++i) {
        if (stack.class_of[i] != static_cast<int>(c)) continue;
        const Row& row = stack.rows[i];
        const auto [known, is_new] = number_of.try_emplace(row.source, sent.sources.size());
        if (is_new) sent.sources.push_back(row.source);
        const int64_t each = EachOf(row), at = static_cast<int64_t>(i);
        sent.moves.push_back({known->second, row.row / each, row.row % each, at / stack.each,
                              sent.count + at % stack.each});
      }
      sent.count += stack.each;
    }
    return sent;
  }

  // The stacks that share sources with one, or with each other, and whose sources are made where
  // that one is.
  std::vector<size_t> SentWith(size_t c, size_t number) const {
    const size_t end = position_.at(stacks_[number].x);
    auto rows_of = [&](size_t m, auto accept) {
      const Stack& stack = stacks_[m];
      for (size_t i = 0; i < stack.rows.size(); ++i) {
        if (stack.class_of[i] == static_cast<int>(c) && !accept(stack.rows[i].source)) return false;
      }
      return true;
    };
    std::unordered_set<const Instruction*> sources;
    auto add = [&](const Instruction* source) { return sources.insert(source), true; };
    rows_of(number, add);
    std::vector<size_t> members = {number}, others;
    for (const size_t m : classes_[c].stacks) {
      const bool is_ready = rows_of(m, [&](const Instruction* source) {
        return source->opcode() != Opcode::kConcatenate && position_.at(source) < end;
      });
      if (m != number && stacks_[m].is_exchanged && is_ready && !pieces_.contains({c, m})) {
        others.push_back(m);
      }
    }
    for (size_t before = 0; before != members.size();) {
      before = members.size();
      std::erase_if(others, [&](size_t m) {
        if (rows_of(m, [&](const Instruction* source) { return !sources.contains(source); })) {
          return false;
        }
        rows_of(m, add);
        members.push_back(m);
        return true;
      });
    }
    return members;
  }

  // The tiles of a source in the region.
  Instruction* Entered(Instruction* source, const RowClass& of) {
    Instruction* x = Whole(rewriter_->ValueOf(source));
    if (of.narrows && of.types.empty()) {
      std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
      x = b_->Reshape(RowsWithSteps(x, of.row->steps), dims);
    }
    return ring_.Enter(*b_, x, *of.s, 0);
  }

  // The steps on all rows of an array at once, each of which stays a row: [N, ..].
  Instruction* RowsWithSteps(Instruction* x, const Chain& steps) {
    std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
    dims.insert(dims.begin() + 1, 1);
    return WithSteps(b_->Reshape(x, dims), steps);
  }

  // --- rows

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

  // A value, and the number of rows that it has.
  struct Part {
    Instruction* x;
    int64_t number;
  };
  // Of each row what the part has whose number is the row's; those that are no part's are anything.
  Instruction* Selected(std::span<const Part> parts, std::span<const int64_t> number_of) {
    Instruction *all = parts[0].x, *numbers = nullptr;
    const int64_t lead[] = {std::ssize(number_of)}, by_row[] = {0};
    for (const auto& [x, number] : parts.subspan(1)) {
      if (numbers == nullptr) numbers = b_->IntegerTable(DType::kS32, number_of);
      Instruction* own = b_->Compare(ComparisonDirection::kEq, numbers,
                                     b_->BroadcastScalar(b_->ScalarInt(DType::kS32, number), lead));
      all = b_->Select(b_->Broadcast(own, x->shape()->dims(), by_row), x, all);
    }
    return all;
  }

  // --- by shifts of all devices' rows

  Instruction* ByShifts(const Stack& stack) {
    std::vector<Instruction*> parts;
    for (int64_t j = 0; j < stack.each; ++j) {
      std::vector<const Row*> of_devices;
      for (int64_t d = 0; d < stages_; ++d) {
        of_devices.push_back(&stack.rows[static_cast<size_t>(d * stack.each + j)]);
      }
      parts.push_back(Gathered(of_devices, *stack.x->operand(0)->shape()));
    }
    return b_->Reshape(b_->Concatenate(parts, 1),
                       Prepended(stack.each * stages_, stack.x->shape()->dims().subspan(1)));
  }

  // [K, ..]: one row a device.
  Instruction* Gathered(const std::vector<const Row*>& rows, const Shape& shape) {
    struct Group {
      const Row* row;
      int64_t shift;
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
      if (same == groups.end()) same = groups.insert(same, {&row, shift});
      number_of.push_back(same - groups.begin());
    }
    std::vector<Part> parts;
    if (groups.empty() || std::ranges::find(number_of, -1) != number_of.end()) {
      parts.push_back({ZeroRows(shape, stages_), -1});
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& [row, shift] = groups[i];
      Instruction* x = row->given == nullptr ? Shifted(*row, shift)
                                             : OnAll(rewriter_->ValueOf(row->given), stages_);
      parts.push_back({x, static_cast<int64_t>(i)});
    }
    return Selected(parts, number_of);
  }

  int64_t EachOf(const Row& row) const {
    return row.source == nullptr ? 1 : RowsOfTile(row.source->shape()->dim(0), stages_);
  }

  Instruction* ZeroRows(const Shape& row, int64_t lead) {
    return b_->Zero(module_.context().Array(row.dtype(), Prepended(lead, row.dims())));
  }

  Instruction* OnAll(Instruction* row, int64_t lead) {
    std::vector<int64_t> dimensions(row->shape()->dims().size());
    std::iota(dimensions.begin(), dimensions.end(), 1);
    return b_->Broadcast(row, Prepended(lead, row->shape()->dims()), dimensions);
  }

  // What is sent is the narrower of both.
  bool Narrows(const Row& row) const {
    const Shape* source = row.source->shape();
    return !row.steps.empty() &&
           row.steps.back().x->shape()->byte_size() * source->dim(0) < source->byte_size();
  }

  // On each device what the device `shift` further has in the row's place in its tile.
  Instruction* Shifted(const Row& row, int64_t shift) {
    const int64_t each = EachOf(row), place = row.row % each;
    auto [known, is_new] = tile_row_.try_emplace({row.source, place}, nullptr);
    if (is_new) known->second = b_->SliceDim(Tiles(row.source, each), 1, place, place + 1);
    Instruction* x = known->second;
    const bool narrows = Narrows(row);
    if (narrows) x = WithSteps(x, row.steps);
    if (shift != 0) {
      x = b_->PadDimension(x, b_->Scalar(x->shape()->dtype(), 0), 0, -shift, shift);
    }
    return narrows ? x : WithSteps(x, row.steps);
  }

  // [K * each, ..]
  Instruction* Whole(Instruction* source) {
    const int64_t rows = source->shape()->dim(0);
    const int64_t missing = stages_ * RowsOfTile(rows, stages_) - rows;
    if (missing == 0) return source;
    Instruction* whole =
        b_->PadDimension(source, b_->Scalar(source->shape()->dtype(), 0), 0, 0, missing);
    whole->set_sharding(source->sharding());
    return whole;
  }

  // [K, each, ..]
  Instruction* Tiles(Instruction* source, int64_t each) {
    Instruction*& tiles = tiles_[source];
    if (tiles != nullptr) return tiles;
    Instruction* whole = Whole(rewriter_->ValueOf(source));
    std::vector<int64_t> dims(whole->shape()->dims().begin(), whole->shape()->dims().end());
    dims[0] = each;
    return tiles = b_->Reshape(whole, Prepended(stages_, dims));
  }

  // The steps on many rows at once: [N, ..] with a row's dims behind the first.
  Instruction* WithSteps(Instruction* x, const Chain& steps) {
    for (const auto& [step, operand] : steps) x = WithStep(x, step, operand);
    return x;
  }

  Instruction* WithStep(Instruction* x, const Instruction* step, int64_t operand) {
    const int64_t lead = x->shape()->dim(0);
    const std::vector<int64_t> dims = Prepended(lead, step->shape()->dims());
    switch (step->opcode()) {
      case Opcode::kReshape:
        return b_->Reshape(x, dims);
      case Opcode::kTranspose:
        return b_->Transpose(x, Prepended(0, OneLater(Dimensions(step))));
      case Opcode::kBroadcast:
        return b_->Broadcast(x, dims, Prepended(0, OneLater(Dimensions(step))));
      case Opcode::kSlice: {
        const auto& slice = step->attributes<SliceAttributes>();
        return b_->Slice(x, Prepended(0, slice.starts), Prepended(lead, slice.limits),
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
      operands.push_back(i == operand ? x : OnAll(step->operand(i), lead));
    }
    const Shape* shape = module_.context().Array(step->shape()->dtype(), dims);
    Instruction* made = b_->CloneWith(step, operands, shape);
    made->set_frontend_attributes("");
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
  StageRing ring_;
  Rewriter* rewriter_ = nullptr;
  Builder* b_ = nullptr;
  std::unordered_map<const Instruction*, size_t> position_;  // in the entry, before all changes
  std::vector<Stack> stacks_;
  std::unordered_map<const Instruction*, size_t> stack_of_;
  std::vector<RowClass> classes_;
  std::deque<Row> kept_rows_;  // one of each class
  size_t last_class_ = 0;
  std::map<std::pair<size_t, size_t>, Instruction*> pieces_;  // by class and stack
  std::map<std::pair<const Instruction*, int64_t>, Instruction*> tile_row_;
  std::map<const Instruction*, Instruction*> tiles_;
};

}  // namespace

void RestackRows(Module& module, const RestackInputs& inputs) {
  if (inputs.shardings->stages() == 1) return;
  Restacker restacker(module, inputs);
  RewriteModule(module,
                [&](Instruction* x, Rewriter& rewriter) { return restacker.Visit(x, rewriter); });
  RemoveDeadCode(module);
}

}  // namespace gshard::pipeline
