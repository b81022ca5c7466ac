#include "core/pipeline/restack.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/pipeline/emit/stage_ring.h"
#include "core/pipeline/plan/stage_tiles.h"
#include "core/pipeline/row_exchange.h"
#include "core/pipeline/rows/row_function.h"
#include "core/transforms/rewriter.h"
#include "ir/constant_fill.h"
#include "ir/dims.h"
#include "ir/sharding_algebra.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

constexpr int64_t kTimesAsSmall = 8;

// What a concatenation takes: a function of rows, or what is `given`, or zeros, which are anything
// where nobody reads them.
struct Row {
  Instruction* given = nullptr;
  RowFunction function;
  bool is_unread = false;

  bool is_known() const { return !function.rows.empty(); }
  const Shape* shape() const {  // of the value
    return function.steps.empty() ? function.rows[0].source->shape()
                                  : function.steps.back().x->shape();
  }
};

// The types that the steps convert a row to, if they do nothing else; otherwise none.
std::vector<DType> TypesOf(const RowFunction& function) {
  std::vector<DType> types;
  for (const RowFunction::Step& step : function.steps) {
    const bool is_copy = step.x->opcode() == Opcode::kCopy && step.x->sharding() == nullptr;
    if (step.x->opcode() == Opcode::kConvert) {
      types.push_back(step.x->shape()->dtype());
    } else if (!is_copy && step.x->opcode() != Opcode::kReshape) {
      return {};
    }
  }
  return types;
}

// Are fewer bytes sent, `times` as few, if the steps come first?
bool Narrows(const Row& row, int64_t times = 1) {
  if (row.function.rows.size() != 1 || row.function.steps.empty()) return false;
  const Shape* source = row.function.rows[0].source->shape();
  return times * row.shape()->byte_size() * source->dim(0) < source->byte_size();
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
    bool narrows = false;  // the steps come first, as they leave fewer bytes
    // Of what is sent, over the devices of a stage: the value, or by source its rows.
    std::vector<std::optional<const Sharding*>> s;
    std::vector<DType> types;  // all that the steps do is to convert to these, which narrows
    std::vector<size_t> stacks;
  };

  void AddStack(Instruction* x) {
    if (x->opcode() != Opcode::kConcatenate) return;
    const int64_t count = x->operand_count(), each = RowsOfTile(count, stages_);
    if (x->attributes<DimensionsAttributes>().dimensions[0] != 0 || x->shape()->dim(0) != count)
      return;
    if (!FillsTiles(count, stages_)) return;
    Stack stack{x, each, {}, {}};
    for (Instruction* operand : x->operands()) stack.rows.push_back(RowOf(operand));
    const auto known =
        std::ranges::count_if(stack.rows, [](const Row& row) { return row.is_known(); });
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
      if (!row.is_known()) continue;
      const size_t c = ClassOf(row);
      stack.class_of.back() = static_cast<int>(c);
      RowClass& of = classes_[c];
      if (of.stacks.empty() || of.stacks.back() != number) of.stacks.push_back(number);
      is_known = is_known && std::ranges::all_of(of.s, [](auto& s) { return s.has_value(); });
      moves = moves || std::ranges::any_of(row.function.rows, [&](const SourceRow& from) {
                return from.row / EachOf(from) != static_cast<int64_t>(i) / stack.each;
              });
    }
    stack.is_exchanged = is_known && moves;
  }

  size_t ClassOf(const Row& row) {
    const auto is_same_source = [](const SourceRow& a, const SourceRow& b) {
      const Shape *shape = a.source->shape(), *other = b.source->shape();
      return a.source->sharding() == b.source->sharding() && other->dtype() == shape->dtype() &&
             std::ranges::equal(other->dims().subspan(1), shape->dims().subspan(1));
    };
    auto is_same = [&](const RowClass& of) {
      const RowFunction& function = of.row->function;
      return std::ranges::equal(function.rows, row.function.rows, is_same_source) &&
             SameSteps(function, row.function);
    };
    if (last_class_ < classes_.size() && is_same(classes_[last_class_])) return last_class_;
    const auto found = std::ranges::find_if(classes_, is_same);
    last_class_ = static_cast<size_t>(found - classes_.begin());
    if (found != classes_.end()) return last_class_;
    kept_rows_.push_back(row);
    RowClass made;
    made.row = &kept_rows_.back();
    for (const auto& [source, number] : row.function.rows) {
      made.s.push_back(in_.shardings->WithinStage(source->shape()->rank(), source->sharding()));
    }
    made.narrows = Narrows(row) && made.s[0].has_value();
    if (made.narrows && row.function.KeepsDims()) {
      made.types = TypesOf(row.function);
      made.s[0] = AfterCopies(row, *made.s[0]);
    } else if (made.narrows) {
      // How such a value lies over the devices of a stage is known where it is small: it is whole.
      made.s[0] =
          Narrows(row, kTimesAsSmall) ? std::optional<const Sharding*>(nullptr) : std::nullopt;
    }
    classes_.push_back(std::move(made));
    return last_class_;
  }

  // How a source's rows lie where steps have put them, `s` if there are none such.
  const Sharding* AfterCopies(const Row& row, const Sharding* s) const {
    const Shape* shape = row.function.rows[0].source->shape();
    for (const RowFunction::Step& step : row.function.steps) {
      if (step.x->sharding() == nullptr) continue;
      std::vector<int64_t> dims = Prepended(1, shape->dims().subspan(1));
      s = PropagateThroughReshape(module_.context(), in_.annotations->at(step.x),
                                  step.x->shape()->dims(), dims);
    }
    return s;
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
        x = OnRows(*b_, x, lead);
      }
      parts.push_back(
          {b_->Reshape(x, Prepended(lead, stack.x->shape()->dims().subspan(1))), known->second});
    }
    return Selected(parts, number_of);
  }

  // Of one stack the rows of a class; other rows are anything.
  Instruction* PieceOf(size_t c, size_t number) {
    const RowClass& of = classes_[c];
    if (of.narrows) return SentPiece({c, 0}, number);
    Instruction*& piece = pieces_[{c, number}];
    if (piece != nullptr) return piece;
    std::vector<Instruction*> rows;
    for (size_t from = 0; from < of.row->function.rows.size(); ++from) {
      rows.push_back(SentPiece({c, from}, number));
    }
    return piece = WithSteps(rows, of.row->function);
  }

  // A class, and which source of its function.
  using ClassSource = std::pair<size_t, size_t>;

  // What is sent of a source. Stacks that are sent with it, because that takes fewer
  // collective-permutes, are made, too.
  Instruction* SentPiece(ClassSource from, size_t number) {
    if (const auto made = sent_.find({from, number}); made != sent_.end()) return made->second;
    std::vector<size_t> members = SentWith(from, number);
    Sent sent = SentOf(from, members);
    int64_t apart = 0;
    for (const size_t m : members) {
      const size_t one[] = {m};
      apart += FewestPermutes(stages_, SentOf(from, one).moves);
    }
    if (apart <= FewestPermutes(stages_, sent.moves)) {
      members = {number};
      sent = SentOf(from, members);
    }
    const RowClass& of = classes_[from.first];
    const Sharding* s = *of.s[from.second];
    std::vector<Instruction*> held;
    for (Instruction* source : sent.sources) held.push_back(Entered(source, of, s));
    Instruction* all =
        ExchangeRows(*b_, *in_.shardings, {held, sent.moves, sent.count, of.types, s});
    Builder region(module_, b_->computation());
    region.set_origin(b_->origin());
    int64_t begin = 0;
    for (const size_t m : members) {
      const int64_t each = stacks_[m].each;
      Instruction* piece = region.SliceDim(all, 0, begin, begin + each);
      begin += each;
      piece->set_sharding(all->sharding());
      sent_[{from, m}] = ring_.Leave(region, piece, s, 0);
    }
    return sent_.at({from, number});
  }

  // What is sent for stacks.
  struct Sent {
    std::vector<Instruction*> sources;
    std::vector<RowMove> moves;
    int64_t count = 0;  // rows of a device
  };
  Sent SentOf(ClassSource from, std::span<const size_t> members) const {
    Sent sent;
    std::map<const Instruction*, size_t> number_of;
    for (const size_t m : members) {
      const Stack& stack = stacks_[m];
      for (size_t i = 0; i < stack.rows.size(); ++i) {
        if (stack.class_of[i] != static_cast<int>(from.first)) continue;
        const SourceRow& row = stack.rows[i].function.rows[from.second];
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
  std::vector<size_t> SentWith(ClassSource from, size_t number) const {
    const auto [c, source_of_class] = from;
    const size_t end = position_.at(stacks_[number].x);
    auto rows_of = [&](size_t m, auto accept) {
      const Stack& stack = stacks_[m];
      for (size_t i = 0; i < stack.rows.size(); ++i) {
        if (stack.class_of[i] != static_cast<int>(c)) continue;
        if (!accept(stack.rows[i].function.rows[source_of_class].source)) return false;
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
      if (m != number && stacks_[m].is_exchanged && is_ready && !sent_.contains({from, m})) {
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

  // The tiles of a source in the region, or of what the steps make of its rows.
  Instruction* Entered(Instruction* source, const RowClass& of, const Sharding* s) {
    Instruction* x = Whole(rewriter_->ValueOf(source));
    if (of.narrows && of.types.empty()) {
      const std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
      Instruction* const rows[] = {x};
      x = WithSteps(rows, of.row->function);
      if (of.row->function.KeepsDims()) x = b_->Reshape(x, dims);
    }
    return ring_.Enter(*b_, x, s, 0);
  }

  // The steps on all rows of arrays at once: of [N, ..] with the dims of a row behind the first, or
  // without its dim of size 1.
  Instruction* WithSteps(std::span<Instruction* const> of_sources, const RowFunction& function) {
    std::vector<Instruction*> rows;
    for (size_t i = 0; i < of_sources.size(); ++i) {
      const int64_t lead = of_sources[i]->shape()->dim(0);
      const Shape* source = function.rows[i].source->shape();
      rows.push_back(
          b_->Reshape(of_sources[i], Prepended(lead, Prepended(1, source->dims().subspan(1)))));
    }
    return OfRows(*b_, function, rows, [&](Instruction* x, const Instruction* copy) {
      return Annotated(x, in_.annotations->at(copy));
    });
  }

  // --- rows

  Row RowOf(Instruction* operand) const {
    Row found;
    if (IsFilledWithZero(operand)) {
      found.is_unread = in_.unread->contains(operand);
      return found;
    }
    const RowRules rules = {[&](const Instruction* x) { return IsStack(x); },
                            [&](const Instruction* x) { return in_.annotations->contains(x); }};
    if (auto function = RowFunctionOf(operand, rules)) {
      found.function = std::move(*function);
    } else {
      found.given = operand;
    }
    return found;
  }

  // Cut over the stages along dim 0, the last tiles perhaps shorter.
  bool IsStack(const Instruction* x) const {
    const Sharding* s = x->sharding();
    return x->shape()->rank() > 0 && s != nullptr && s->IsTiled() && s->TileCount(0) == stages_;
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
      std::vector<int64_t> shifts;  // by source of its function
    };
    std::vector<Group> groups;
    std::vector<int64_t> number_of;  // by device; -1: zeros
    for (int64_t d = 0; d < stages_; ++d) {
      const Row& row = *rows[static_cast<size_t>(d)];
      if (!row.is_known() && row.given == nullptr) {
        number_of.push_back(row.is_unread ? 0 : -1);
        continue;
      }
      std::vector<int64_t> shifts;
      for (const SourceRow& from : row.function.rows) {
        shifts.push_back(from.row / EachOf(from) - d);
      }
      auto same = std::ranges::find_if(groups, [&](const Group& group) {
        return group.row->given == row.given && group.shifts == shifts &&
               std::ranges::equal(group.row->function.rows, row.function.rows,
                                  [&](const SourceRow& a, const SourceRow& b) {
                                    return a.source == b.source &&
                                           a.row % EachOf(a) == b.row % EachOf(b);
                                  }) &&
               SameSteps(group.row->function, row.function);
      });
      if (same == groups.end()) same = groups.insert(same, {&row, shifts});
      number_of.push_back(same - groups.begin());
    }
    std::vector<Part> parts;
    if (groups.empty() || std::ranges::find(number_of, -1) != number_of.end()) {
      parts.push_back({ZeroRows(shape, stages_), -1});
    }
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& [row, shifts] = groups[i];
      Instruction* x = row->given == nullptr ? Shifted(*row, shifts)
                                             : OnRows(*b_, rewriter_->ValueOf(row->given), stages_);
      parts.push_back({x, static_cast<int64_t>(i)});
    }
    return Selected(parts, number_of);
  }

  int64_t EachOf(const SourceRow& row) const {
    return RowsOfTile(row.source->shape()->dim(0), stages_);
  }

  Instruction* ZeroRows(const Shape& row, int64_t lead) {
    return b_->Zero(module_.context().Array(row.dtype(), Prepended(lead, row.dims())));
  }

  // On each device a function of what devices further on have in the rows' places in their tiles.
  Instruction* Shifted(const Row& row, std::span<const int64_t> shifts) {
    const bool narrows = Narrows(row);
    std::vector<Instruction*> rows;
    for (size_t i = 0; i < shifts.size(); ++i) {
      const SourceRow& from = row.function.rows[i];
      const int64_t each = EachOf(from), place = from.row % each;
      auto [known, is_new] = tile_row_.try_emplace({from.source, place}, nullptr);
      if (is_new) known->second = b_->SliceDim(Tiles(from.source, each), 1, place, place + 1);
      rows.push_back(narrows ? known->second : ShiftedBy(known->second, shifts[i]));
    }
    Instruction* x = WithSteps(rows, row.function);
    return narrows ? ShiftedBy(x, shifts[0]) : x;
  }
  Instruction* ShiftedBy(Instruction* x, int64_t shift) {
    if (shift == 0) return x;
    return b_->PadDimension(x, b_->Scalar(x->shape()->dtype(), 0), 0, -shift, shift);
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
  std::map<std::pair<ClassSource, size_t>, Instruction*> sent_;  // by stack
  std::map<std::pair<size_t, size_t>, Instruction*> pieces_;     // by class and stack
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
