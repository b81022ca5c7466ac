#include "core/transforms/expand/host_transfer_expander.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/analysis/partitioned.h"
#include "core/analysis/trip_count.h"
#include "core/transforms/expand/transfer_values.h"
#include "core/transforms/rewriter.h"
#include "ir/attribute_names.h"
#include "ir/dims.h"
#include "ir/host_transfers.h"
#include "ir/leaves.h"
#include "ir/metadata.h"
#include "ir/sharding.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

// Room for outfeeds whose number is not known, or is large because branches may be taken always.
constexpr int64_t kUnknownItems = 256;
constexpr int64_t kMaxBytes = int64_t{64} << 20;

bool BringsItem(const Instruction& x) {
  return x.opcode() == Opcode::kInfeed || x.opcode() == Opcode::kRecvDone;
}
bool TakesItem(const Instruction& x) {
  return x.opcode() == Opcode::kOutfeed || x.opcode() == Opcode::kSend;
}
// What an item is: an array or a tuple.
const Shape* ItemShape(const Instruction& x) {
  return BringsItem(x) ? x.shape()->element(0) : x.operand(0)->shape();
}

// The same structure with a dim of `items` before the others of every array.
const Shape* Stacked(Context& context, const Shape* shape, int64_t items) {
  if (shape->IsTuple()) {
    std::vector<const Shape*> elements;
    for (const Shape* element : shape->elements()) {
      elements.push_back(Stacked(context, element, items));
    }
    return context.Tuple(elements);
  }
  if (!shape->IsArray()) return shape;
  std::vector<int64_t> dims = {items};
  dims.insert(dims.end(), shape->dims().begin(), shape->dims().end());
  return context.Array(shape->dtype(), dims);
}

int64_t BytesOf(const Shape* shape) {
  if (shape->IsArray()) return shape->element_count() * StorageBytes(shape->dtype());
  int64_t bytes = 0;
  for (const Shape* element : shape->elements()) bytes += BytesOf(element);
  return bytes;
}

void AppendZeros(Builder& builder, const Shape* shape, std::vector<Instruction*>& leaves) {
  if (!shape->IsTuple()) {
    leaves.push_back(builder.Zero(shape));
    return;
  }
  for (const Shape* element : shape->elements()) AppendZeros(builder, element, leaves);
}

// The elements of a value that becomes part of a wider tuple: itself, unless it is a tuple.
std::vector<Instruction*> Elements(Builder& builder, Instruction* x) {
  if (!x->shape()->IsTuple()) return {x};
  std::vector<Instruction*> elements;
  for (int64_t i = 0; i < static_cast<int64_t>(x->shape()->elements().size()); ++i) {
    elements.push_back(builder.GetTupleElement(x, i));
  }
  return elements;
}

struct Feed {
  Instruction* transfer = nullptr;
  HostFeed* record = nullptr;
  Instruction* parameter = nullptr;            // of the entry, to the device
  std::optional<int64_t> executions;           // at most so many
  std::vector<const Sharding*> leaf_sharding;  // of the stacked items; null: none
};

// Where a feed is at one place of one computation.
struct FeedState {
  std::vector<Instruction*> arrays;  // items of every leaf
  Instruction* count = nullptr;      // s32[]
};
using States = std::map<size_t, FeedState>;  // by index of the feed

class HostTransfers {
 public:
  HostTransfers(Module& module, const HostTransferOptions& options)
      : module_(module), options_(options) {}

  Expected<HostFeeds> Run() {
    if (Expected<void> done = Collect(module_.entry(), 1); !done) return Fail(done.error());
    result_.feeds.resize(feeds_.size());
    for (size_t i = 0; i < feeds_.size(); ++i) Describe(feeds_[i], result_.feeds[i]);
    if (Expected<void> done = RewriteEntry(); !done) return Fail(done.error());
    return std::move(result_);
  }

 private:
  tl::unexpected<Diagnostic> Error(const Instruction& x, std::string message) {
    return Fail(module_.ErrorAt(&x, "E-RUN-HOST", std::move(message)));
  }

  // --- the feeds

  static std::optional<int64_t> Times(std::optional<int64_t> a, std::optional<int64_t> b) {
    int64_t product = 0;
    if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
    return product;
  }

  Expected<void> Collect(Computation* computation, std::optional<int64_t> executions) {
    for (Instruction* x : computation->instructions()) {
      if (IsHostTransfer(*x) && computation != module_.entry() &&
          (BringsItem(*x) || TakesItem(*x))) {
        Feed feed;
        feed.transfer = x;
        feed.executions = executions;
        feed_of_[x] = feeds_.size();
        feeds_.push_back(std::move(feed));
      }
      const size_t before = feeds_.size();
      switch (x->opcode()) {
        case Opcode::kWhile: {
          auto done = Collect(x->called(1), Times(executions, TripCount(*x)));
          if (!done) return done;
          break;
        }
        case Opcode::kConditional:
          for (Computation* branch : x->called()) {
            if (auto done = Collect(branch, executions); !done) return done;
          }
          break;
        default:  // runs what it calls once, or calls it for elements
          for (const Computation* called : x->called()) {
            if (!HoldsHostTransfer(*called)) continue;
            return Error(*x, fmt::format("{} {} calls a computation that talks to the host",
                                         OpcodeName(x->opcode()), x->name()));
          }
      }
      for (size_t i = before; i < feeds_.size(); ++i) used_by_[x].push_back(i);
    }
    return {};
  }

  void Describe(Feed& feed, HostFeed& record) {
    const Instruction& x = *feed.transfer;
    const Shape* shape = ItemShape(x);
    feed.record = &record;
    record.name = x.name();
    record.kind = OpcodeName(x.opcode());
    record.source = x.source();
    record.to_device = BringsItem(x);
    record.leaf_count = static_cast<size_t>(shape->leaf_count());
    feed.leaf_sharding.assign(record.leaf_count, nullptr);
    if (x.sharding() != nullptr && record.to_device) {
      const std::vector<const Sharding*> all = LeafShardings(x.shape(), x.sharding());
      constexpr int64_t kFirst[] = {0};
      for (size_t k = 0; k < record.leaf_count; ++k) {
        feed.leaf_sharding[k] = AddDims(module_.context(), all[k], kFirst);
      }
    }
    if (record.to_device) {
      record.capacity =
          std::clamp<int64_t>(feed.executions.value_or(kRandomItems), 1, kRandomItems);
      record.starts_over = true;
      SetKnownCapacity(record);
      return;
    }
    record.capacity = kUnknownItems;
    const auto bytes = Times(feed.executions, BytesOf(shape));
    if (feed.executions && (*feed.executions < kUnknownItems || (bytes && *bytes <= kMaxBytes))) {
      record.capacity = std::max<int64_t>(*feed.executions, 1);
    }
    SetKnownCapacity(record);
  }
  void SetKnownCapacity(HostFeed& record) const {
    for (const FeedCapacity& known : options_.capacities) {
      if (known.name == record.name) record.capacity = std::max<int64_t>(known.items, 1);
    }
  }

  // --- the entry

  Expected<void> RewriteEntry() {
    Computation* entry = module_.entry();
    Instruction* root = entry->root();
    Rewriter rewriter(module_);
    rewriter.Begin(entry);
    Builder& builder = rewriter.builder();
    const std::vector<Instruction*> old(entry->instructions().begin(), entry->instructions().end());
    // Parameters of transfers of the entry come before those of feeds.
    std::unordered_map<const Instruction*, Instruction*> parameters;
    for (const Instruction* x : old) {
      if (!IsHostTransfer(*x) || !BringsItem(*x)) continue;
      std::vector<const Sharding*> shardings;
      if (x->sharding() != nullptr) shardings = LeafShardings(x->shape(), x->sharding());
      shardings.resize(shardings.empty() ? 0 : shardings.size() - 1);  // without the token
      parameters[x] = AddParameter(builder, *x, ItemShape(*x), shardings);
    }
    if (Expected<void> done = AddFeedParameters(builder); !done) return done;
    States states;
    for (size_t i = 0; i < feeds_.size(); ++i) states[i] = InitialState(builder, feeds_[i]);
    std::vector<const Instruction*> fed;  // transfers to the host
    entry_parameters_ = &parameters;
    fed_ = &fed;
    Walk(rewriter, old, states);
    // Results: what there was, transfers of the entry, feeds, counts.
    root = rewriter.ValueOf(root);
    builder.set_origin(root);
    std::vector<Instruction*> results = Elements(builder, root);
    const size_t first_added = results.size();
    auto leaves = static_cast<size_t>(root->shape()->leaf_count());
    std::vector<std::string> records;  // of the leaves that come after
    for (const Instruction* x : fed) {
      results.push_back(x->operand(0));
      leaves += static_cast<size_t>(x->operand(0)->shape()->leaf_count());
      AppendRecords(*x, false, records);
    }
    for (size_t i = 0; i < feeds_.size(); ++i) {
      HostFeed& record = *feeds_[i].record;
      if (record.to_device) continue;
      record.first_result = leaves;
      leaves += record.leaf_count;
      results.insert(results.end(), states[i].arrays.begin(), states[i].arrays.end());
      AppendRecords(*feeds_[i].transfer, true, records);
    }
    result_.shown_results = leaves;
    for (size_t i = 0; i < feeds_.size(); ++i) {
      feeds_[i].record->count_result = leaves++;
      records.push_back("{manual}");
      results.push_back(states[i].count);
    }
    if (results.size() == first_added) {
      rewriter.Finish();
      return {};
    }
    AddResults(*root, results.size() - first_added, records);
    Instruction* all = builder.Tuple(results);
    all->set_sharding(ResultSharding(*root, fed));
    rewriter.Finish();
    entry->set_root(all);
    return {};
  }

  Instruction* AddParameter(Builder& builder, const Instruction& x, const Shape* shape,
                            std::span<const Sharding* const> leaf_shardings) {
    ModuleHeader& header = module_.header();
    builder.set_origin(&x);
    Instruction* made = builder.Parameter(module_.entry()->parameter_count(), shape, x.name());
    if (x.parent() == module_.entry()) made->set_name(x.name());  // x goes away
    if (!header.entry_parameter_layouts.empty()) header.entry_parameter_layouts.push_back(shape);
    if (header.propagation_to_parameters.size() > 1) {
      header.propagation_to_parameters.push_back(false);
    }
    const bool all =
        !leaf_shardings.empty() &&
        std::find(leaf_shardings.begin(), leaf_shardings.end(), nullptr) == leaf_shardings.end();
    if (all) {
      made->set_sharding(shape->IsTuple() ? module_.context().TupleOf(
                                                {leaf_shardings.begin(), leaf_shardings.end()})
                                          : leaf_shardings[0]);
    }
    return made;
  }

  // The file tells how many items a feed has, by names that are known once the parameters are.
  Expected<void> AddFeedParameters(Builder& builder) {
    for (Feed& feed : feeds_) {
      if (!feed.record->to_device) continue;
      const Shape* shape =
          Stacked(module_.context(), ItemShape(*feed.transfer), feed.record->capacity);
      feed.parameter = AddParameter(builder, *feed.transfer, shape, feed.leaf_sharding);
      // The transfer itself is replaced: its name is free for the parameter.
      feed.parameter->set_name(feed.transfer->name());
      feed.transfer->set_name(module_.UniqueName(feed.transfer->name()));
    }
    if (!options_.file_dims) return {};
    std::vector<size_t> first_leaf;  // by parameter
    size_t leaves = 0;
    for (const Instruction* parameter : module_.entry()->parameters()) {
      first_leaf.push_back(leaves);
      leaves += static_cast<size_t>(parameter->shape()->leaf_count());
    }
    for (Feed& feed : feeds_) {
      if (feed.parameter == nullptr) continue;
      const std::vector<const Shape*> shapes = LeafShapes(feed.parameter->shape());
      const size_t first = first_leaf[static_cast<size_t>(ParameterNumber(*feed.parameter))];
      std::optional<int64_t> items;
      for (size_t i = 0; i < shapes.size(); ++i) {
        auto dims = options_.file_dims(module_, first + i);
        if (!dims) return Fail(dims.error());
        if (!*dims) continue;
        // Items of all devices, or of each device.
        const size_t dim = (*dims)->size() == static_cast<size_t>(shapes[i]->rank()) + 1 ? 1 : 0;
        if (dim < (*dims)->size()) {
          items = items ? std::min(*items, (**dims)[dim]) : (**dims)[dim];
        }
      }
      if (!items) continue;
      if (*items == 0) {
        return Error(*feed.transfer, fmt::format("{} {}: the file has no items", feed.record->kind,
                                                 feed.record->name));
      }
      feed.record->capacity = *items;
      feed.record->starts_over = false;
      SetItems(feed, *items);
    }
    return {};
  }
  static int64_t ParameterNumber(const Instruction& parameter) {
    return parameter.attributes<ParameterAttributes>().number;
  }
  void SetItems(const Feed& feed, int64_t items) {
    const Shape* shape = Stacked(module_.context(), ItemShape(*feed.transfer), items);
    feed.parameter->set_shape(shape);
    std::vector<const Shape*>& layouts = module_.header().entry_parameter_layouts;
    if (!layouts.empty()) layouts[static_cast<size_t>(ParameterNumber(*feed.parameter))] = shape;
  }

  FeedState InitialState(Builder& builder, const Feed& feed) {
    builder.set_origin(feed.transfer);
    FeedState state;
    state.count = builder.ScalarInt(DType::kS32, 0);
    if (feed.parameter != nullptr) {
      state.arrays = LeafValues(builder, feed.parameter);
      return state;
    }
    AppendZeros(builder,
                Stacked(module_.context(), ItemShape(*feed.transfer), feed.record->capacity),
                state.arrays);
    return state;
  }
  static bool IsManualTransfer(const Instruction& x) {
    const Sharding* sharding = x.sharding();
    if (sharding != nullptr && sharding->IsTuple()) sharding = sharding->elements[0];
    return sharding != nullptr && sharding->IsManual();
  }

  // Of the widened root: what is fed from manual regions is each device's own, the rest is open.
  // Null where nothing is said.
  const Sharding* ResultSharding(const Instruction& root, std::span<const Instruction* const> fed) {
    std::vector<const Sharding*> leaves(static_cast<size_t>(root.shape()->leaf_count()),
                                        module_.context().Unknown());
    bool says = root.sharding() != nullptr;
    if (says) leaves = LeafShardings(root.shape(), root.sharding());
    auto append = [&](const Instruction& x, size_t count) {
      const bool manual = IsManualTransfer(x);
      says |= manual;
      leaves.resize(leaves.size() + count,
                    manual ? module_.context().Manual() : module_.context().Unknown());
    };
    for (const Instruction* x : fed) {
      append(*x, static_cast<size_t>(x->operand(0)->shape()->leaf_count()));
    }
    for (const Feed& feed : feeds_) {
      if (!feed.record->to_device) append(*feed.transfer, feed.record->leaf_count);
    }
    for (const Feed& feed : feeds_) append(*feed.transfer, 1);  // its count
    return says ? module_.context().TupleOf(std::move(leaves)) : nullptr;
  }

  // How per-device parts of what goes to the host form whole arrays: as the transfer's sharding
  // says, with items along a dim before the others if `stacked`; without one each device's.
  void AppendRecords(const Instruction& x, bool stacked, std::vector<std::string>& records) {
    const std::vector<const Shape*> shapes = LeafShapes(ItemShape(x));
    std::vector<const Sharding*> shardings(shapes.size(), x.sharding());
    if (x.opcode() == Opcode::kOutfeed) {
      shardings = OutfeedShardings(x);
    } else if (x.sharding() != nullptr && x.sharding()->IsTuple()) {
      shardings = LeafShardings(x.shape(), x.sharding());
      shardings.resize(shapes.size(), nullptr);
    }
    for (size_t k = 0; k < shapes.size(); ++k) {
      records.push_back(RecordOf(shapes[k], shardings[k], stacked));
    }
  }
  std::string RecordOf(const Shape* shape, const Sharding* sharding, bool stacked) {
    const bool whole = sharding != nullptr && sharding->IsReplicated();
    const bool tiled = sharding != nullptr && sharding->IsTiled() && shape->IsArray() &&
                       sharding->data_rank() == shape->rank();
    if (!whole && !tiled) return "{manual}";
    constexpr int64_t kFirst[] = {0};
    if (stacked) sharding = AddDims(module_.context(), sharding, kFirst);
    return ToString(sharding);
  }

  // Header entries that tell of the entry's results.
  void AddResults(const Instruction& old_root, size_t added, std::span<const std::string> records) {
    ModuleHeader& header = module_.header();
    header.entry_result_layout = nullptr;
    header.input_output_alias.clear();
    if (header.propagation_to_output.size() > 1) {
      header.propagation_to_output.resize(header.propagation_to_output.size() + added, true);
    }
    const std::string record =
        FrontendAttribute(header.frontend_attributes, kOutputShardingsAttribute);
    if (record.empty()) return;
    std::string text =
        old_root.shape()->IsTuple() ? record.substr(0, record.rfind('}')) : "{" + record;
    for (const std::string& leaf : records) text += (text.back() == '{' ? "" : ", ") + leaf;
    header.frontend_attributes =
        WithFrontendAttribute(module_.arena(), header.frontend_attributes,
                              std::string(kOutputShardingsAttribute), text + "}");
  }

  // --- instructions in order

  // `states`: of the feeds used here; brought up to date.
  void Walk(Rewriter& rewriter, std::span<Instruction* const> instructions, States& states) {
    Builder& builder = rewriter.builder();
    for (Instruction* x : instructions) {
      // Elements of what has become wider stay where they are.
      const bool element = x->opcode() == Opcode::kGetTupleElement;
      if (!element || widened_.count(x->operand(0)) == 0) rewriter.RedirectOperands(x);
      builder.set_origin(x);
      if (IsHostTransfer(*x)) {
        Transfer(rewriter, x, states);
        continue;
      }
      const auto used = used_by_.find(x);
      if (used == used_by_.end()) {
        rewriter.Keep(x);
        continue;
      }
      const Shape* before = x->shape();
      if (x->opcode() == Opcode::kWhile) {
        WidenWhile(builder, x, used->second, states);
      } else {
        WidenConditional(builder, x, used->second, states);
      }
      rewriter.Keep(x);
      if (before->IsTuple()) widened_.insert(x);
      rewriter.Alias(x, Narrowed(builder, x, before));
      int64_t next = before->IsTuple() ? static_cast<int64_t>(before->elements().size()) : 1;
      for (size_t i : used->second) ReadState(builder, x, next, states[i]);
    }
  }

  void Transfer(Rewriter& rewriter, Instruction* x, States& states) {
    Builder& builder = rewriter.builder();
    const auto feed = feed_of_.find(x);
    switch (x->opcode()) {
      case Opcode::kInfeed:
      case Opcode::kRecvDone: {
        Instruction* item = feed == feed_of_.end()
                                ? entry_parameters_->at(x)
                                : Take(builder, feeds_[feed->second], states[feed->second]);
        rewriter.Replace(x, WithToken(builder, item));
        break;
      }
      case Opcode::kRecv:
        rewriter.Replace(x, Started(builder, ZeroItem(builder, x->shape()->element(0))));
        break;
      case Opcode::kOutfeed:
      case Opcode::kSend:
        if (feed == feed_of_.end()) {
          fed_->push_back(x);
        } else {
          Append(builder, feeds_[feed->second], x->operand(0), states[feed->second]);
        }
        rewriter.Replace(
            x, x->opcode() == Opcode::kSend ? Started(builder, x->operand(0)) : Token(builder));
        break;
      default:  // send-done
        rewriter.Replace(x, Token(builder));
    }
  }

  static Instruction* ZeroItem(Builder& builder, const Shape* shape) {
    std::vector<Instruction*> leaves;
    AppendZeros(builder, shape, leaves);
    return FromLeaves(builder, shape, leaves);
  }

  Instruction* Take(Builder& builder, const Feed& feed, FeedState& state) {
    Instruction* at = state.count;
    if (feed.record->starts_over) {
      at = builder.Binary(Opcode::kRemainder, at,
                          builder.ScalarInt(DType::kS32, feed.record->capacity));
    }
    std::vector<Instruction*> leaves;
    for (Instruction* array : state.arrays) {
      leaves.push_back(builder.Reshape(builder.DynamicSliceDim(array, 0, at, 1),
                                       array->shape()->dims().subspan(1)));
    }
    Advance(builder, state);
    return FromLeaves(builder, ItemShape(*feed.transfer), leaves);
  }

  void Append(Builder& builder, const Feed& feed, Instruction* item, FeedState& state) {
    CheckInternal(!feed.record->to_device, "an item for the host in a feed for the device");
    const std::vector<Instruction*> leaves = LeafValues(builder, item);
    for (size_t k = 0; k < leaves.size(); ++k) {
      Instruction*& array = state.arrays[k];
      std::vector<int64_t> dims(array->shape()->dims().begin(), array->shape()->dims().end());
      dims[0] = 1;
      array = builder.DynamicUpdateDim(array, builder.Reshape(leaves[k], dims), 0, state.count);
    }
    Advance(builder, state);
  }

  static void Advance(Builder& builder, FeedState& state) {
    state.count = builder.Add(state.count, builder.ScalarInt(DType::kS32, 1));
  }

  // --- loops and branches, whose values become wider by the states of feeds

  static void AppendState(const FeedState& state, std::vector<Instruction*>& elements) {
    elements.insert(elements.end(), state.arrays.begin(), state.arrays.end());
    elements.push_back(state.count);
  }
  static void ReadState(Builder& builder, Instruction* tuple, int64_t& next, FeedState& state) {
    for (Instruction*& array : state.arrays) array = builder.GetTupleElement(tuple, next++);
    state.count = builder.GetTupleElement(tuple, next++);
  }
  Instruction* Widened(Builder& builder, Instruction* x, const std::vector<size_t>& used,
                       const States& states) {
    std::vector<Instruction*> elements = Elements(builder, x);
    for (size_t i : used) AppendState(states.at(i), elements);
    Instruction* wide = builder.Tuple(elements);
    if (x->sharding() != nullptr) {
      wide->set_sharding(WiderSharding(x->shape(), x->sharding(), wide->shape()->leaf_count()));
    }
    return wide;
  }
  // What `wide` was when it had the shape `before`.
  static Instruction* Narrowed(Builder& builder, Instruction* wide, const Shape* before) {
    if (!before->IsTuple()) return builder.GetTupleElement(wide, 0);
    std::vector<Instruction*> elements;
    for (int64_t i = 0; i < static_cast<int64_t>(before->elements().size()); ++i) {
      elements.push_back(builder.GetTupleElement(wide, i));
    }
    return builder.Tuple(elements);
  }

  // The sharding of a value of shape `before` that has `leaf_count` leaves now. What comes with it
  // is open, except in manual regions.
  const Sharding* WiderSharding(const Shape* before, const Sharding* sharding, int64_t leaf_count) {
    std::vector<const Sharding*> leaves = LeafShardings(before, sharding);
    const bool manual = !leaves.empty() && leaves[0]->IsManual();
    leaves.resize(static_cast<size_t>(leaf_count),
                  manual ? module_.context().Manual() : module_.context().Unknown());
    return module_.context().TupleOf(std::move(leaves));
  }

  void SetWide(Instruction* x, const Shape* wide) {
    if (x->sharding() != nullptr) {
      x->set_sharding(WiderSharding(x->shape(), x->sharding(), wide->leaf_count()));
    }
    x->set_shape(wide);
  }

  void WidenWhile(Builder& builder, Instruction* x, const std::vector<size_t>& used,
                  States& states) {
    const bool counted = TripCount(*x).has_value();
    Instruction* initial = Widened(builder, x->operand(0), used, states);
    x->set_operand(0, initial);
    SetWide(x, initial->shape());
    WidenCondition(x->called(0), initial->shape(), used, !counted);
    WidenBody(x->called(1), initial->shape(), used);
  }

  void WidenConditional(Builder& builder, Instruction* x, const std::vector<size_t>& used,
                        States& states) {
    const Shape* wide = nullptr;
    for (size_t b = 0; b < x->called().size(); ++b) {
      const auto k = static_cast<int64_t>(b) + 1;
      Instruction* argument = Widened(builder, x->operand(k), used, states);
      x->set_operand(k, argument);
      wide = WidenBody(x->called(static_cast<int64_t>(b)), argument->shape(), used);
    }
    SetWide(x, wide);
  }

  // The parameter of a computation becomes `wide`; `states`: the feeds as they come in.
  void WidenParameter(Rewriter& rewriter, const Shape* wide, const std::vector<size_t>& used,
                      States& states) {
    Builder& builder = rewriter.builder();
    Instruction* parameter = builder.computation()->parameter(0);
    const Shape* before = parameter->shape();
    SetWide(parameter, wide);
    builder.set_origin(parameter);
    rewriter.Keep(parameter);
    if (before->IsTuple()) widened_.insert(parameter);
    rewriter.Alias(parameter, Narrowed(builder, parameter, before));
    int64_t next = before->IsTuple() ? static_cast<int64_t>(before->elements().size()) : 1;
    for (size_t i : used) {
      FeedState& state = states[i];
      state.arrays.resize(feeds_[i].record->leaf_count);
      ReadState(builder, parameter, next, state);
    }
  }
  static std::vector<Instruction*> WithoutParameter(const Computation& computation) {
    std::vector<Instruction*> rest;
    for (Instruction* x : computation.instructions()) {
      if (x->opcode() != Opcode::kParameter) rest.push_back(x);
    }
    return rest;
  }

  // Returns the new shape of the root.
  const Shape* WidenBody(Computation* computation, const Shape* wide,
                         const std::vector<size_t>& used) {
    const std::vector<Instruction*> rest = WithoutParameter(*computation);
    Rewriter rewriter(module_);
    rewriter.Begin(computation);
    States states;
    WidenParameter(rewriter, wide, used, states);
    Walk(rewriter, rest, states);
    Instruction* root = rewriter.ValueOf(computation->root());
    rewriter.builder().set_origin(root);
    Instruction* both = Widened(rewriter.builder(), root, used, states);
    rewriter.Finish();
    computation->set_root(both);
    return both->shape();
  }

  // A loop that nothing else bounds ends when a feed has nothing more to give.
  void WidenCondition(Computation* computation, const Shape* wide, const std::vector<size_t>& used,
                      bool stops) {
    const std::vector<Instruction*> rest = WithoutParameter(*computation);
    Rewriter rewriter(module_);
    rewriter.Begin(computation);
    Builder& builder = rewriter.builder();
    States states;
    WidenParameter(rewriter, wide, used, states);
    Walk(rewriter, rest, states);
    Instruction* root = rewriter.ValueOf(computation->root());
    builder.set_origin(root);
    for (size_t i : used) {
      const HostFeed& record = *feeds_[i].record;
      if (!stops || !record.to_device || record.starts_over) continue;
      root = builder.And(root, builder.Compare(ComparisonDirection::kLe, states[i].count,
                                               builder.ScalarInt(DType::kS32, record.capacity)));
    }
    rewriter.Finish();
    computation->set_root(root);
  }

  Module& module_;
  const HostTransferOptions& options_;
  HostFeeds result_;
  std::vector<Feed> feeds_;
  std::unordered_map<const Instruction*, size_t> feed_of_;
  std::unordered_map<const Instruction*, std::vector<size_t>> used_by_;  // loops and conditionals
  std::unordered_set<const Instruction*> widened_;  // tuples with more elements than before
  std::unordered_map<const Instruction*, Instruction*>* entry_parameters_ = nullptr;
  std::vector<const Instruction*>* fed_ = nullptr;
};

}  // namespace

Expected<HostFeeds> ExpandHostTransfers(Module& module, const HostTransferOptions& options) {
  if (!HasHostTransfers(module)) return HostFeeds{};
  return HostTransfers(module, options).Run();
}

}  // namespace gshard
