// Dots and convolutions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "tests/property/program_maker.h"

namespace gshard::property {
namespace {

std::string DimsAttribute(const char* name, const Sizes& dims) {
  return dims.empty() ? std::string() : fmt::format(", {}={{{}}}", name, fmt::join(dims, ","));
}

// The dims of one array of a convolution: roles are 0 batch (or input feature), 1 feature (or
// output feature), 2.. spatial.
struct LabelledDims {
  std::string labels;         // of each dim, as dim_labels has them
  std::vector<size_t> place;  // of each role
};
LabelledDims Labelled(const std::vector<size_t>& roles, const char* names) {
  LabelledDims dims;
  dims.place.resize(roles.size());
  for (size_t i = 0; i < roles.size(); ++i) {
    const size_t role = roles[i];
    dims.place[role] = i;
    dims.labels += role < 2 ? names[role] : static_cast<char>('0' + role - 2);
  }
  return dims;
}

// window={..} of a convolution, dim by dim.
struct ConvolutionWindow {
  Sizes size, stride, lhs_dilate, rhs_dilate, reversal;
  std::vector<std::string> padding;

  std::string Attribute() const {
    if (size.empty()) return "";
    return fmt::format(
        ", window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={} rhs_reversal={}}}",
        fmt::join(size, "x"), fmt::join(stride, "x"), fmt::join(padding, "x"),
        fmt::join(lhs_dilate, "x"), fmt::join(rhs_dilate, "x"), fmt::join(reversal, "x"));
  }
  // Result of the dim that was added last, of an operand of size n.
  int64_t OutputSize(int64_t n, int64_t low, int64_t high) const {
    if (size.back() == 0) throw Rejected();
    const int64_t dilated = (n == 0 ? 0 : (n - 1) * lhs_dilate.back() + 1) + low + high;
    const int64_t window = (size.back() - 1) * rhs_dilate.back() + 1;
    if (dilated < window) throw Rejected();
    return (dilated - window) / stride.back() + 1;
  }
};

std::vector<int64_t> Divisors(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t d = 2; d <= n; ++d) {
    if (n % d == 0) divisors.push_back(d);
  }
  return divisors;
}

}  // namespace

void ProgramMaker::MakeDot() {
  const size_t lhs = Any([&](size_t i) {
    const ArrayType& type = TypeOf(i);
    return type.rank() >= 1 && type.dtype != DType::kPred;
  });
  const ArrayType left = TypeOf(lhs);
  // Each dim of the left: batch, contracted or free.
  Sizes lhs_batch, lhs_contracting;
  Sizes dims;  // of the result
  std::vector<int64_t> free;
  for (size_t i = 0; i < left.dims.size(); ++i) {
    const int64_t role = Below(10);
    if (role < 3) {
      lhs_batch.push_back(static_cast<int64_t>(i));
    } else if (role < 7) {
      lhs_contracting.push_back(static_cast<int64_t>(i));
    } else {
      free.push_back(left.dims[i]);
    }
  }
  if (Chance(20)) Shuffle(lhs_batch);
  if (Chance(20)) Shuffle(lhs_contracting);
  for (int64_t i : lhs_batch) dims.push_back(left.dims[static_cast<size_t>(i)]);
  dims.insert(dims.end(), free.begin(), free.end());
  // The right operand's dims in random order: batch 0.., contracted 100.., free 200...
  std::vector<int64_t> right;
  for (size_t i = 0; i < lhs_batch.size(); ++i) right.push_back(static_cast<int64_t>(i));
  for (size_t i = 0; i < lhs_contracting.size(); ++i)
    right.push_back(static_cast<int64_t>(100 + i));
  const int64_t rhs_free = Chance(20) ? 0 : Between(1, 2);
  for (int64_t i = 0; i < rhs_free; ++i) right.push_back(200 + i);
  if (right.empty()) throw Rejected();
  Shuffle(right);
  Sizes rhs_dims(right.size()), rhs_batch(lhs_batch.size()),
      rhs_contracting(lhs_contracting.size());
  Sizes rhs_free_dims;
  int64_t fold = 1;
  for (size_t i = 0; i < right.size(); ++i) {
    const int64_t role = right[i];
    if (role >= 200) {
      rhs_dims[i] = RandomSize();
      rhs_free_dims.push_back(rhs_dims[i]);
    } else if (role >= 100) {
      const auto k = static_cast<size_t>(role - 100);
      rhs_dims[i] = left.dims[static_cast<size_t>(lhs_contracting[k])];
      rhs_contracting[k] = static_cast<int64_t>(i);
      fold *= rhs_dims[i];
    } else {
      const auto k = static_cast<size_t>(role);
      rhs_dims[i] = left.dims[static_cast<size_t>(lhs_batch[k])];
      rhs_batch[k] = static_cast<int64_t>(i);
    }
  }
  dims.insert(dims.end(), rhs_free_dims.begin(), rhs_free_dims.end());
  const size_t rhs = Like({left.dtype, rhs_dims});
  Node node;
  node.opcode = Opcode::kDot;
  DType result = left.dtype;
  if (result == DType::kBF16 && Chance(30)) result = DType::kF32;
  if (result == DType::kS8 && Chance(50)) result = DType::kS32;
  node.types = {{result, dims}};
  node.operands = {lhs, rhs};
  node.fold = fold;
  node.attributes = DimsAttribute("lhs_batch_dims", lhs_batch) +
                    DimsAttribute("lhs_contracting_dims", lhs_contracting) +
                    DimsAttribute("rhs_batch_dims", rhs_batch) +
                    DimsAttribute("rhs_contracting_dims", rhs_contracting);
  Emit(std::move(node));
}

void ProgramMaker::MakeConvolution() {
  const size_t lhs = Any([&](size_t i) {
    const ArrayType& type = TypeOf(i);
    return type.rank() >= 2 && type.rank() <= 4 && IsNumeric(type.dtype);
  });
  const ArrayType left = TypeOf(lhs);
  const size_t rank = left.dims.size(), spatial = rank - 2;
  const auto in_random_order = [&](const char* names) {
    std::vector<size_t> roles(rank);
    std::iota(roles.begin(), roles.end(), size_t{0});
    Shuffle(roles);
    return Labelled(roles, names);
  };
  const LabelledDims in = in_random_order("bf"), kernel = in_random_order("io");
  const LabelledDims out = in_random_order("bf");
  const int64_t batch = left.dims[in.place[0]], features = left.dims[in.place[1]];
  const auto divisor = [&](int64_t n) {
    const std::vector<int64_t> divisors = Divisors(n);
    return divisors.empty() ? int64_t{1} : Pick(divisors);
  };
  int64_t feature_groups = 1, batch_groups = 1, out_features = RandomSize();
  if (Chance(25)) {
    feature_groups = divisor(features);
    out_features = feature_groups * Between(1, 3);
  } else if (Chance(15)) {
    batch_groups = divisor(batch);
    out_features = batch_groups * Between(1, 3);
  }
  Sizes rhs_dims(rank), out_dims(rank);
  rhs_dims[kernel.place[0]] = features / feature_groups;
  rhs_dims[kernel.place[1]] = out_features;
  out_dims[out.place[0]] = batch / batch_groups;
  out_dims[out.place[1]] = out_features;
  int64_t fold = features / feature_groups;
  ConvolutionWindow window;
  const bool plain = Chance(30);
  for (size_t s = 0; s < spatial; ++s) {
    const int64_t n = left.dims[in.place[s + 2]];
    const int64_t size = Chance(20) ? n : Between(1, std::min<int64_t>(n + 1, 4));
    window.size.push_back(size);
    window.stride.push_back(plain || Chance(60) ? 1 : Between(2, 3));
    window.lhs_dilate.push_back(plain || Chance(75) ? 1 : Between(2, 3));
    window.rhs_dilate.push_back(plain || Chance(75) ? 1 : 2);
    window.reversal.push_back(plain || Chance(80) ? 0 : 1);
    int64_t low = Chance(40) ? 0 : Between(-1, 3), high = Chance(40) ? 0 : Between(-1, 3);
    if (plain) {
      low = (size - 1) / 2;
      high = size / 2;
    }
    window.padding.push_back(fmt::format("{}_{}", low, high));
    rhs_dims[kernel.place[s + 2]] = size;
    out_dims[out.place[s + 2]] = window.OutputSize(n, low, high);
    fold *= size;
  }
  const size_t rhs = Like({left.dtype, rhs_dims});
  Node node;
  node.opcode = Opcode::kConvolution;
  node.types = {{left.dtype, out_dims}};
  node.operands = {lhs, rhs};
  node.fold = fold;
  node.attributes = window.Attribute();
  node.attributes += fmt::format(", dim_labels={}_{}->{}", in.labels, kernel.labels, out.labels);
  if (feature_groups > 1)
    node.attributes += fmt::format(", feature_group_count={}", feature_groups);
  if (batch_groups > 1) node.attributes += fmt::format(", batch_group_count={}", batch_groups);
  Emit(std::move(node));
}

// Products of narrow numbers, added up in a wider type.
void ProgramMaker::MakeDotWidened() {
  static const std::vector<std::pair<DType, DType>> kTypes = {
      {DType::kF16, DType::kF32},      {DType::kBF16, DType::kF32},
      {DType::kS8, DType::kS32},       {DType::kS4, DType::kS32},
      {DType::kU8, DType::kU32},       {DType::kF32, DType::kF64},
      {DType::kF8E4M3FN, DType::kF32}, {DType::kF8E5M2, DType::kBF16},
      {DType::kF8E4M3, DType::kF32},   {DType::kF8E4M3FNUZ, DType::kF32}};
  const auto [narrow, wide] = Pick(kTypes);
  const int64_t batch = RandomSize(), rows = RandomSize(), columns = RandomSize();
  const int64_t inner = RandomSize();
  Node node;
  node.opcode = Opcode::kDot;
  node.types = {{wide, {batch, rows, columns}}};
  node.operands = {Like({narrow, {batch, rows, inner}}), Like({narrow, {batch, inner, columns}})};
  node.fold = inner;
  node.attributes =
      ", lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
      "rhs_contracting_dims={1}";
  Emit(std::move(node));
}

}  // namespace gshard::property
