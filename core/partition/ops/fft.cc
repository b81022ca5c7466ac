// FFT: local on the dims that are not transformed. Transformed dims that are cut are transformed
// one after another, each while its tiles are elsewhere; or where they lie, by the four-step
// algorithm (Bailey, "FFTs in external or hierarchical memory", 1990).
#include <algorithm>
#include <numbers>
#include <optional>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/halo.h"
#include "core/partition/scope/moving_tiles.h"
#include "core/partition/scope/range_cut.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

bool IsInverse(FftType type) { return type == FftType::kIfft || type == FftType::kIrfft; }

// Dims that are transformed together. Only the last one of all is real (RFFT, IRFFT).
struct FftStep {
  FftType type = FftType::kFft;
  std::vector<int64_t> dims;     // ascending
  std::vector<int64_t> lengths;  // of the signal, per dim
  const Shape* shape = nullptr;  // of the result
  Strategy strategy = {};
};

// --- one dim, where it lies

// A signal of L = n * m elements on n shards, element j = j1 * m + j2 with shard j1; k = k1 + n *
// k2.
//   X[k] = sum over j2 of w_m^(j2 k2) w_L^(j2 k1) (sum over j1 of x[j] w_n^(j1 k1))
// Shards exchange their m elements in n chunks (all-to-all), so that the inner sums are local, and
// back; twiddle factors and transforms of length m give shard k1 the residue class k1 of the
// result; a last all-to-all makes tiles of it. Inverse real transforms go the other way, from
// residue classes of the spectrum on.
class FourStepFft {
 public:
  FourStepFft(PartitionContext& rule, const FftStep& step)
      : rule_(rule),
        builder_(rule.builder()),
        type_(step.type),
        layout_(step.strategy.operands[0]),
        dim_(step.dims[0]),
        shards_(layout_->Count(dim_)),
        length_(step.lengths[0]),
        tile_(length_ / shards_) {}

  // What a device receives, in complex elements of one row.
  static double Received(FftType type, int64_t length, int64_t shards) {
    bool is_real = type == FftType::kRfft || type == FftType::kIrfft;
    int64_t spectrum = is_real ? length / 2 + 1 : length;
    int64_t tile = CeilOfRatio(spectrum, shards);
    int64_t chunks = CeilOfRatio(CeilOfRatio(length, shards), shards);
    double exchanged = (is_real ? 1.5 : 2) * static_cast<double>(chunks);
    exchanged += static_cast<double>(CeilOfRatio(tile, shards));
    double mirrored = type == FftType::kIrfft ? static_cast<double>(tile) : 0;
    return exchanged * static_cast<double>(shards - 1) + mirrored;
  }

  // Of a tile of the signal (of the spectrum), its transformed dim the last one, to one of the
  // spectrum (of the signal).
  Instruction* Run(Instruction* x) {
    last_ = x->shape()->rank() - 1;
    if (type_ == FftType::kIrfft) {
      x = Twiddled(Transformed(WholeClass(ToResidues(x)), FftType::kIfft, tile_));
      return AcrossShards(x);
    }
    x = Transformed(Twiddled(AcrossShards(x)), ComplexType(), tile_);
    x = FromResidues(x);
    return IsReal() ? WithRealBins(x) : x;
  }

 private:
  FftType ComplexType() const { return IsInverse(type_) ? FftType::kIfft : FftType::kFft; }
  bool IsReal() const { return type_ == FftType::kRfft || type_ == FftType::kIrfft; }
  // Elements of the spectrum, and of a tile of it.
  int64_t SpectrumSize() const { return IsReal() ? length_ / 2 + 1 : length_; }
  int64_t SpectrumTile() const { return CeilOfRatio(SpectrumSize(), shards_); }

  std::vector<int64_t> DimsOf(Instruction* x) const {
    return {x->shape()->dims().begin(), x->shape()->dims().end()};
  }

  // The last dim as two, [major, minor]; and back.
  Instruction* Split(Instruction* x, int64_t major, int64_t minor) {
    std::vector<int64_t> dims = DimsOf(x);
    dims[At(last_)] = major;
    dims.push_back(minor);
    return builder_.Reshape(x, dims);
  }
  Instruction* Merged(Instruction* x) {
    std::vector<int64_t> dims = DimsOf(x);
    dims[At(last_)] *= dims.back();
    dims.pop_back();
    return builder_.Reshape(x, dims);
  }
  Instruction* LastTwoSwapped(Instruction* x) {
    std::vector<int64_t> order;
    for (int64_t d = 0; d <= last_ + 1; ++d) order.push_back(d);
    std::swap(order[At(last_)], order[At(last_ + 1)]);
    return builder_.Transpose(x, order);
  }
  // Block j of the dim before the last goes to shard j.
  Instruction* Exchanged(Instruction* x) {
    return rule_.scope().AllToAll(x, last_, layout_, layout_->axes(dim_), rule_.Cause());
  }

  Instruction* Transformed(Instruction* x, FftType type, int64_t length) {
    const int64_t lengths[] = {length};
    return builder_.Add(Opcode::kFft, std::span<Instruction* const>(&x, 1),
                        FftAttributes{.type = type, .length = builder_.Copy(lengths)});
  }

  Instruction* Math(Opcode opcode, Instruction* x) {
    return builder_.Add(opcode, std::span<Instruction* const>(&x, 1), MathAttributes{});
  }

  // Transforms the elements that have the same place in every tile. Real where the signal is.
  Instruction* AcrossShards(Instruction* x) {
    int64_t chunk = CeilOfRatio(tile_, shards_);
    x = rule_.scope().Resize(x, last_, shards_ * chunk);
    x = LastTwoSwapped(Exchanged(Split(x, shards_, chunk)));
    if (type_ == FftType::kRfft) {
      bool is_single = x->shape()->dtype() == DType::kF32;
      x = builder_.Convert(x, is_single ? DType::kC64 : DType::kC128);
    }
    x = Transformed(x, ComplexType(), shards_);
    if (type_ == FftType::kIrfft) x = builder_.Add(Opcode::kReal, {x});
    x = Merged(Exchanged(LastTwoSwapped(x)));
    return rule_.scope().Resize(x, last_, tile_);
  }

  // Times w^(own ordinal * position).
  Instruction* Twiddled(Instruction* x) {
    DType real = x->shape()->dtype() == DType::kC64 ? DType::kF32 : DType::kF64;
    DType index = length_ > INT32_MAX ? DType::kS64 : DType::kS32;
    const int64_t dims[] = {tile_};
    Instruction* ordinal = rule_.geometry().Ordinal(layout_->axes(dim_), layout_->order, index);
    Instruction* product = builder_.Multiply(builder_.Iota(rule_.context().Array(index, dims), 0),
                                             builder_.BroadcastScalar(ordinal, dims));
    double turn = (IsInverse(type_) ? 2 : -2) * std::numbers::pi / static_cast<double>(length_);
    Instruction* angle =
        builder_.Multiply(builder_.Convert(product, real),
                          builder_.BroadcastScalar(rule_.geometry().Number(real, turn), dims));
    Instruction* factor =
        builder_.Add(Opcode::kComplex, {Math(Opcode::kCosine, angle), Math(Opcode::kSine, angle)});
    const int64_t last[] = {last_};
    return builder_.Multiply(x, builder_.Broadcast(factor, x->shape()->dims(), last));
  }

  // From the residue class to a tile, and back. A tile has `chunk` elements of a class (or one
  // less); it begins with class p * tile mod n where the tile is no multiple of n.
  Instruction* FromResidues(Instruction* x) {
    x = Taken(x, PlacesInClass());
    x = LastTwoSwapped(Exchanged(Split(x, shards_, Chunk())));
    x = Merged(Rotated(x, builder_.Add(Opcode::kRemainder, {TileStart(), Number(shards_)})));
    return rule_.scope().Resize(x, last_, SpectrumTile());
  }
  Instruction* ToResidues(Instruction* x) {
    x = Split(rule_.scope().Resize(x, last_, shards_ * Chunk()), Chunk(), shards_);
    Instruction* first = builder_.Add(Opcode::kRemainder, {TileStart(), Number(shards_)});
    x = Rotated(x, builder_.Subtract(Number(shards_), first));
    return Taken(Merged(Exchanged(LastTwoSwapped(x))), PlacesInChunks());
  }

  // Bin 0 of a real signal and, where its length is even, bin L/2 have no imaginary part: here they
  // would have what rounding left over, or the NaN of other bins' products.
  Instruction* WithRealBins(Instruction* x) {
    const int64_t period = length_ % 2 == 0 ? length_ / 2 : length_;
    const int64_t tile[] = {SpectrumTile()}, last[] = {last_};
    Instruction* start = builder_.BroadcastScalar(TileStart(), tile);
    Instruction* bin = builder_.Add(Counted(SpectrumTile()), start);
    Instruction* in_period = With(Opcode::kRemainder, bin, period);
    Instruction* is_real = builder_.Compare(ComparisonDirection::kEq, in_period,
                                            builder_.BroadcastScalar(Number(0), tile));
    Instruction* real = builder_.Add(Opcode::kReal, {x});
    Instruction* imag = builder_.Add(Opcode::kImag, {x});
    Instruction* zero = rule_.geometry().Number(imag->shape()->dtype(), 0);
    imag = builder_.Select(builder_.Broadcast(is_real, imag->shape()->dims(), last),
                           builder_.BroadcastScalar(zero, imag->shape()->dims()), imag);
    return builder_.Add(Opcode::kComplex, {real, imag});
  }

  int64_t Chunk() const { return CeilOfRatio(SpectrumTile(), shards_); }
  bool IsAligned() const { return SpectrumTile() % shards_ == 0; }
  Instruction* Number(int64_t value) { return rule_.geometry().Int(value, index_); }
  Instruction* TileStart() {
    return rule_.geometry().Affine(layout_->axes(dim_), layout_->order, SpectrumTile(), 0, index_);
  }

  // Elementwise with a number; 0, 1, ..
  Instruction* With(Opcode opcode, Instruction* x, int64_t number) {
    return builder_.Binary(opcode, x, builder_.BroadcastScalar(Number(number), x->shape()->dims()));
  }
  Instruction* Counted(int64_t count) {
    const int64_t dims[] = {count};
    return builder_.Iota(rule_.context().Array(index_, dims), 0);
  }

  // The number in the own class of the first element that lies in each of `tiles`.
  Instruction* FirstIn(Instruction* tiles) {
    Instruction* to_class =
        rule_.geometry().Affine(layout_->axes(dim_), layout_->order, -1, shards_ - 1, index_);
    Instruction* start = builder_.Add(With(Opcode::kMultiply, tiles, SpectrumTile()),
                                      builder_.BroadcastScalar(to_class, tiles->shape()->dims()));
    return With(Opcode::kDivide, start, shards_);
  }
  // Which element of the class is at each place of the chunks for all tiles; null: in order.
  Instruction* PlacesInClass() {
    if (IsAligned()) return nullptr;
    Instruction* place = Counted(shards_ * Chunk());
    Instruction* first = FirstIn(With(Opcode::kDivide, place, Chunk()));
    return builder_.Add(first, With(Opcode::kRemainder, place, Chunk()));
  }
  // The inverse.
  Instruction* PlacesInChunks() {
    if (IsAligned()) return nullptr;
    Instruction* number = Counted(SpectrumTile());
    Instruction* own = rule_.geometry().Ordinal(layout_->axes(dim_), layout_->order, index_);
    Instruction* element = builder_.Add(With(Opcode::kMultiply, number, shards_),
                                        builder_.BroadcastScalar(own, number->shape()->dims()));
    Instruction* tile = With(Opcode::kDivide, element, SpectrumTile());
    return builder_.Add(With(Opcode::kMultiply, tile, Chunk()),
                        builder_.Subtract(number, FirstIn(tile)));
  }

  // Elements of the last dim at these places, or as they are.
  Instruction* Taken(Instruction* x, Instruction* places) {
    if (places == nullptr) return builder_.SliceDim(x, last_, 0, shards_ * Chunk());
    std::vector<int64_t> offsets, sizes = DimsOf(x);
    for (int64_t d = 0; d < last_; ++d) offsets.push_back(d);
    sizes.back() = 1;
    const int64_t last[] = {last_};
    GatherAttributes gather;
    gather.offset_dims = builder_.Copy(offsets);
    gather.collapsed_slice_dims = builder_.Copy(last);
    gather.start_index_map = builder_.Copy(last);
    gather.index_vector_dim = 1;
    gather.slice_sizes = builder_.Copy(sizes);
    Instruction* const operands[] = {x, places};
    return builder_.Add(Opcode::kGather, operands, gather);
  }

  // The classes, [chunk, class], from the one at `start` on.
  Instruction* Rotated(Instruction* x, Instruction* start) {
    if (IsAligned()) return x;
    Instruction* const twice[] = {x, x};
    std::vector<Instruction*> starts(At(last_ + 1), Number(0));
    starts.push_back(start);
    return builder_.DynamicSlice(builder_.Concatenate(twice, last_ + 1), starts,
                                 x->shape()->dims());
  }

  // The residue class k1 of a whole spectrum from that of its first half: element L - k is the
  // conjugate of element k, and in class -k1.
  Instruction* WholeClass(Instruction* x) {
    int64_t half = x->shape()->dim(last_);
    std::vector<int64_t> mirror(At(shards_));
    for (int64_t i = 0; i < shards_; ++i) mirror[At(i)] = (shards_ - i) % shards_;
    const AxisList& axes = layout_->axes(dim_);
    Instruction* other = PermuteTiles(rule_.scope(), x, layout_, axes, mirror, rule_.Cause());
    const int64_t dims[] = {last_};
    other = builder_.Add(Opcode::kReverse, std::span<Instruction* const>(&other, 1),
                         DimensionsAttributes{builder_.Copy(dims)});
    Instruction* turned[] = {builder_.Add(Opcode::kReal, {other}),
                             builder_.Add(Opcode::kNegate, {builder_.Add(Opcode::kImag, {other})})};
    other = builder_.Add(Opcode::kComplex, {turned[0], turned[1]});
    // Class 0 mirrors element m - k2 to k2, the others element m - 1 - k2.
    Instruction* zero = rule_.geometry().Number(x->shape()->dtype(), 0);
    other = builder_.PadDimension(other, zero, last_, tile_ - half + 1, 0);
    std::vector<Instruction*> starts(At(last_), rule_.geometry().Int(0));
    Instruction* ordinal = rule_.geometry().Ordinal(axes, layout_->order);
    starts.push_back(builder_.Minimum(ordinal, rule_.geometry().Int(1)));
    std::vector<int64_t> sizes = DimsOf(other);
    sizes.back() = tile_;
    other = builder_.DynamicSlice(other, starts, sizes);
    // k1 + shards * k2 < SpectrumSize, by k2.
    Instruction* limit = rule_.geometry().AffineFloor(axes, layout_->order, -1,
                                                      SpectrumSize() + shards_ - 1, shards_);
    Instruction* position = rule_.geometry().Positions(sizes, last_, rule_.geometry().Int(0));
    Instruction* is_own = builder_.Compare(ComparisonDirection::kLt, position,
                                           builder_.BroadcastScalar(limit, sizes));
    x = builder_.PadDimension(x, zero, last_, 0, tile_ - half);
    return builder_.Select(is_own, x, other);
  }

  PartitionContext& rule_;
  Builder& builder_;
  FftType type_;
  const MeshLayout* layout_;
  int64_t dim_;
  int64_t shards_, length_, tile_;
  DType index_ = length_ > INT32_MAX ? DType::kS64 : DType::kS32;
  int64_t last_ = 0;
};

// --- strategies

class FftRule {
 public:
  explicit FftRule(PartitionContext& rule)
      : rule_(rule),
        type_(rule.attributes<FftAttributes>().type),
        lengths_(rule.attributes<FftAttributes>().length),
        rank_(rule.source().shape()->rank()) {}

  RuleResult Run() {
    std::vector<int64_t> all;
    for (size_t i = 0; i < lengths_.size(); ++i)
      all.push_back(FirstDim() + static_cast<int64_t>(i));
    Plan best = PlanOf({StepOf(type_, all)});
    std::vector<FftStep> apart = StepsApart();
    if (apart.size() > 1) {
      Plan other = PlanOf(std::move(apart));
      if (other.cost < best.cost) best = std::move(other);
    }
    return Emitted(best.steps);
  }

 private:
  struct Plan {
    std::vector<FftStep> steps;
    double cost = 0;
  };

  int64_t FirstDim() const { return rank_ - static_cast<int64_t>(lengths_.size()); }

  FftStep StepOf(FftType type, std::vector<int64_t> dims) const {
    FftStep step;
    step.type = type;
    for (int64_t d : dims) step.lengths.push_back(lengths_[At(d - FirstDim())]);
    step.dims = std::move(dims);
    return step;
  }

  // Dims that are whole in one step, cut ones in a step each, as late as can be. A real dim comes
  // first of all (RFFT) or last (IRFFT).
  std::vector<FftStep> StepsApart() const {
    bool is_real = type_ == FftType::kRfft || type_ == FftType::kIrfft;
    FftType complex = IsInverse(type_) ? FftType::kIfft : FftType::kFft;
    std::vector<int64_t> whole, cut;
    for (int64_t d = FirstDim(); d < rank_ - (is_real ? 1 : 0); ++d) {
      (MostTiles(*rule_.operand(0), d) > 1 ? cut : whole).push_back(d);
    }
    std::vector<FftStep> steps;
    if (!whole.empty()) steps.push_back(StepOf(complex, whole));
    for (int64_t d : cut) steps.push_back(StepOf(complex, {d}));
    if (!is_real) return steps;
    auto at = type_ == FftType::kRfft ? steps.begin() : steps.end();
    steps.insert(at, StepOf(type_, {rank_ - 1}));
    return steps;
  }

  // Chooses the strategies of steps one by one.
  Plan PlanOf(std::vector<FftStep> steps) {
    Plan plan;
    PartitionedValue* value = rule_.operand(0);
    for (size_t i = 0; i < steps.size(); ++i) {
      FftStep& step = steps[i];
      bool is_last = i + 1 == steps.size();
      step.shape = ShapeAfter(step, value->shape);
      plan.cost += Choose(step, value, is_last ? rule_.wanted() : PlaceOf(*value), is_last);
      value = rule_.scope().NewValue(step.shape, step.strategy.results[0], nullptr);
    }
    plan.steps = std::move(steps);
    return plan;
  }

  const Shape* ShapeAfter(const FftStep& step, const Shape* before) {
    std::vector<int64_t> dims(before->dims().begin(), before->dims().end());
    DType dtype = before->dtype();
    if (step.type == FftType::kRfft) {
      dims.back() = dims.back() / 2 + 1;
      dtype = dtype == DType::kF32 ? DType::kC64 : DType::kC128;
    } else if (step.type == FftType::kIrfft) {
      dims.back() = step.lengths.back();
      dtype = dtype == DType::kC64 ? DType::kF32 : DType::kF64;
    }
    return rule_.context().Array(dtype, dims);
  }

  // What is made on the way had better stay where it is.
  const MeshLayout* PlaceOf(const PartitionedValue& value) {
    const MeshLayout* layout = value.layout;
    if (layout == nullptr && !value.variants.empty()) layout = value.variants[0].layout;
    bool is_tiled =
        layout != nullptr && layout->kind == MeshLayout::Kind::kTiled && layout->unreduced.empty();
    return is_tiled ? layout : rule_.Whole(value.shape->rank());
  }

  // The step's strategy; its cost, without that of moving the result unless it is the last.
  double Choose(FftStep& step, PartitionedValue* value, const MeshLayout* wanted, bool is_last) {
    Labels labels = Labels::Pointwise(1, value->shape->rank());
    for (int64_t d : step.dims) {
      labels.operands[0][At(d)] = labels.results[0][At(d)] = Labels::kWhole;
    }
    PartitionScope& scope = rule_.scope();
    PartitionedValue* const operands[] = {value};
    const Shape* const results[] = {step.shape};
    const MeshLayout* const hints[] = {wanted};
    step.strategy = ChooseMovingTiles(scope, labels, operands, results, hints);
    int64_t dim = step.dims[0];
    int64_t shards = std::max(MostTiles(*value, dim), wanted->IsMaximal() ? 1 : wanted->Count(dim));
    double bytes = 0;
    if (step.dims.size() == 1 && shards > 1) {
      // Real elements have half the bytes.
      double row = RowBytes(*value, dim) * (step.type == FftType::kRfft ? 2 : 1);
      bytes = row * FourStepFft::Received(step.type, step.lengths[0], shards);
      labels.operands[0][At(dim)] = labels.results[0][At(dim)] =
          labels.Add({.groups = step.lengths[0], .bytes_if_cut = bytes});
      const Strategy& cut = ChooseStrategy(scope, labels, operands, results, hints);
      if (cut.cost < step.strategy.cost) step.strategy = cut;
    }
    if (is_last) return step.strategy.cost;
    return scope.ReshardCost(*value, step.strategy.operands[0]) + (IsCut(step) ? bytes : 0);
  }

  static bool IsCut(const FftStep& step) {
    return step.strategy.operands[0]->IsSharded(step.dims[0]);
  }

  PartitionedValue* Emitted(const std::vector<FftStep>& steps) {
    if (steps.size() == 1 && !IsCut(steps[0])) {
      Instruction* locals[] = {rule_.Operand(0, steps[0].strategy.operands[0])};
      return rule_.Emit(locals, steps[0].strategy.results);
    }
    PartitionedValue* value = nullptr;
    Instruction* local = nullptr;
    for (const FftStep& step : steps) {
      const MeshLayout* layout = step.strategy.operands[0];
      local = value == nullptr ? rule_.Operand(0, layout) : rule_.Move(value, layout);
      local = Transformed(step, local);
      value = rule_.scope().NewValue(step.shape, step.strategy.results[0], local);
    }
    return rule_.Finish(local, nullptr, steps.back().strategy.results[0]);
  }

  // With the step's dims as the last ones meanwhile.
  Instruction* Transformed(const FftStep& step, Instruction* x) {
    Builder& builder = rule_.builder();
    std::vector<int64_t> order, back(At(rank_));
    for (int64_t d = 0; d < rank_; ++d) {
      if (std::find(step.dims.begin(), step.dims.end(), d) == step.dims.end()) order.push_back(d);
    }
    order.insert(order.end(), step.dims.begin(), step.dims.end());
    for (int64_t i = 0; i < rank_; ++i) back[At(order[At(i)])] = i;
    x = builder.Transpose(x, order);
    if (IsCut(step)) {
      x = FourStepFft(rule_, step).Run(x);
    } else {
      x = builder.Add(Opcode::kFft, std::span<Instruction* const>(&x, 1),
                      FftAttributes{.type = step.type, .length = builder.Copy(step.lengths)});
    }
    return builder.Transpose(x, back);
  }

  PartitionContext& rule_;
  FftType type_;
  std::span<const int64_t> lengths_;
  int64_t rank_;
};

}  // namespace

RuleResult Fft(PartitionContext& rule) { return FftRule(rule).Run(); }

}  // namespace gshard::partition_rules
