#include "ir/tile_assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <numeric>
#include <utility>

#include "ir/device_subsets.h"
#include "ir/diagnostic.h"
#include "ir/hash.h"

namespace gshard {
namespace {

int64_t Product(std::span<const int64_t> values) {
  int64_t product = 1;
  for (int64_t value : values) {
    CheckInternal(value > 0 && !__builtin_mul_overflow(product, value, &product),
                  "tile assignment with empty or too many dims");
  }
  return product;
}

// Row-major strides of an array.
std::vector<int64_t> Strides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// Calls visit(value) for each element in row-major order of the strided array (dims, strides).
template <typename Visit>
void ForEachStrided(std::span<const int64_t> dims, std::span<const int64_t> strides, int64_t start,
                    Visit visit) {
  std::vector<int64_t> coordinate(dims.size(), 0);
  int64_t value = start;
  while (true) {
    visit(value);
    size_t i = dims.size();
    while (i-- > 0) {
      value += strides[i];
      if (++coordinate[i] < dims[i]) break;
      value -= strides[i] * dims[i];
      coordinate[i] = 0;
      if (i == 0) return;
    }
    if (dims.empty()) return;
  }
}

// The mixed-radix form of a list, major to minor, if it has one. Canonical axes are found greedily:
// the longest arithmetic run is the minormost axis, then the starts of those runs form the next
// list.
std::optional<std::vector<DeviceAxis>> RecogniseAxes(std::span<const int64_t> list) {
  if (list.empty() || list[0] != 0) return std::nullopt;
  std::vector<DeviceAxis> minor_first;
  size_t block = 1;
  while (block < list.size()) {
    const size_t count = list.size() / block;
    const int64_t stride = list[block];
    size_t run = 2;
    while (run < count && list[run * block] == stride * static_cast<int64_t>(run)) ++run;
    if (stride <= 0 || count % run != 0) return std::nullopt;
    minor_first.push_back({static_cast<int64_t>(run), stride});
    block *= run;
  }
  std::vector<int64_t> dims, strides;
  for (size_t i = minor_first.size(); i-- > 0;) {
    dims.push_back(minor_first[i].size);
    strides.push_back(minor_first[i].stride);
  }
  bool equal = true;
  size_t index = 0;
  ForEachStrided(dims, strides, 0, [&](int64_t value) { equal &= list[index++] == value; });
  if (!equal) return std::nullopt;
  std::ranges::reverse(minor_first);
  return minor_first;
}

// Do the devices of each run of `count` ascend, as is seen from the minor axes at once?
bool CountUpwards(std::span<const DeviceAxis> axes, int64_t count) {
  int64_t last_stride = 0;
  for (size_t k = axes.size(); count > 1; count /= axes[k].size) {
    --k;
    if (axes[k].stride < last_stride) return false;
    if (axes[k].size >= count) return axes[k].size % count == 0;
    if (count % axes[k].size != 0) return false;
    last_stride = axes[k].stride;
  }
  return true;
}

}  // namespace

struct TileAssignment::ExplicitList {
  std::vector<int64_t> devices;
  mutable std::once_flag sorted_once;
  mutable std::vector<std::pair<int64_t, int64_t>> sorted;  // (device, index), by device

  explicit ExplicitList(std::vector<int64_t> list) : devices(std::move(list)) {}
  int64_t IndexOf(int64_t device) const {
    std::call_once(sorted_once, [this] {
      for (size_t i = 0; i < devices.size(); ++i) {
        sorted.emplace_back(devices[i], static_cast<int64_t>(i));
      }
      std::ranges::sort(sorted);
    });
    const bool is_permutation = sorted.back().first + 1 == std::ssize(sorted);
    if (is_permutation) return sorted[static_cast<size_t>(device)].second;
    return std::ranges::lower_bound(sorted, std::pair(device, int64_t{0}))->second;
  }
};

TileAssignment::TileAssignment(std::span<const int64_t> dims)
    : dims_(dims.begin(), dims.end()), device_count_(Product(dims)) {}

void TileAssignment::SetAxes(std::span<const DeviceAxis> axes) {
  axes_.clear();
  for (const DeviceAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!axes_.empty() && axes_.back().stride == axis.size * axis.stride) {
      axes_.back() = {axes_.back().size * axis.size, axis.stride};
    } else {
      axes_.push_back(axis);
    }
  }
}

TileAssignment TileAssignment::Iota(std::span<const int64_t> dims) {
  TileAssignment result(dims);
  const DeviceAxis all{result.device_count_, 1};
  result.SetAxes({&all, 1});
  return result;
}

TileAssignment TileAssignment::Iota(std::span<const int64_t> dims,
                                    std::span<const int64_t> reshape_dims,
                                    std::span<const int64_t> permutation) {
  TileAssignment result(dims);
  CheckInternal(
      Product(reshape_dims) == result.device_count_ && permutation.size() == reshape_dims.size(),
      "iota dims do not match tile dims");
  const std::vector<int64_t> strides = Strides(reshape_dims);
  std::vector<DeviceAxis> axes;
  axes.reserve(permutation.size());
  for (int64_t source : permutation) {
    const auto i = static_cast<size_t>(source);
    axes.push_back({reshape_dims[i], strides[i]});
  }
  result.SetAxes(axes);
  return result;
}

bool TileAssignment::IsPermutation(std::span<const int64_t> devices) {
  std::vector<bool> seen(devices.size(), false);
  for (int64_t device : devices) {
    if (device < 0 || static_cast<size_t>(device) >= seen.size()) return false;
    if (seen[static_cast<size_t>(device)]) return false;
    seen[static_cast<size_t>(device)] = true;
  }
  return true;
}

TileAssignment TileAssignment::List(std::span<const int64_t> dims, std::vector<int64_t> devices) {
  TileAssignment result(dims);
  CheckInternal(static_cast<int64_t>(devices.size()) == result.device_count_,
                "device list does not match tile dims");
  const bool permutation = IsPermutation(devices);
  CheckInternal(permutation || (!FirstRepeated(devices) && std::ranges::min(devices) >= 0),
                "a device is listed twice");
  const auto axes = permutation ? RecogniseAxes(devices) : std::nullopt;
  if (axes) {
    result.SetAxes(*axes);
  } else {
    result.list_ = std::make_shared<ExplicitList>(std::move(devices));
  }
  return result;
}

TileAssignment TileAssignment::FromAxes(std::span<const int64_t> dims,
                                        std::vector<DeviceAxis> axes) {
  TileAssignment result(dims);
  result.SetAxes(axes);
  // Bijective onto 0..n-1 iff, by ascending stride, each stride is the product of the smaller
  // sizes.
  std::ranges::sort(axes, {},
                    [](const DeviceAxis& axis) { return std::pair(axis.stride, axis.size); });
  int64_t product = 1;
  for (const DeviceAxis& axis : axes) {
    if (axis.size == 1) continue;
    CheckInternal(axis.stride == product, "device axes overlap or leave gaps");
    product *= axis.size;
  }
  CheckInternal(product == result.device_count_, "device axes do not match tile dims");
  return result;
}

std::optional<std::vector<std::vector<DeviceAxis>>> TileAssignment::AxesByDim() const {
  if (!has_axes()) return std::nullopt;
  std::vector<std::vector<DeviceAxis>> by_dim(dims_.size());
  size_t next = axes_.size();
  DeviceAxis rest;  // what is left of the current axis: its major part
  for (size_t i = dims_.size(); i-- > 0;) {
    int64_t wanted = dims_[i];
    while (wanted > 1) {
      if (rest.size == 1) rest = axes_[--next];
      const int64_t take = std::min(wanted, rest.size);
      if (wanted % take != 0 || rest.size % take != 0) return std::nullopt;
      by_dim[i].push_back({take, rest.stride});
      wanted /= take;
      rest = {rest.size / take, rest.stride * take};
    }
    std::ranges::reverse(by_dim[i]);
  }
  return by_dim;
}

std::optional<std::vector<DeviceAxis>> TileAssignment::AxesOfDim(int64_t i) const {
  auto by_dim = AxesByDim();
  if (!by_dim) return std::nullopt;
  return std::move((*by_dim)[static_cast<size_t>(i)]);
}

int64_t TileAssignment::DeviceAtFlat(int64_t index) const {
  if (!has_axes()) return list_->devices[static_cast<size_t>(index)];
  int64_t device = 0;
  for (size_t k = axes_.size(); k-- > 0;) {
    device += index % axes_[k].size * axes_[k].stride;
    index /= axes_[k].size;
  }
  return device;
}

int64_t TileAssignment::DeviceAt(std::span<const int64_t> coordinate) const {
  int64_t index = 0;
  for (size_t i = 0; i < dims_.size(); ++i) index = index * dims_[i] + coordinate[i];
  return DeviceAtFlat(index);
}

int64_t TileAssignment::FlatIndexOf(int64_t device) const {
  if (!has_axes()) return list_->IndexOf(device);
  int64_t index = 0;
  for (const DeviceAxis& axis : axes_) index = index * axis.size + device / axis.stride % axis.size;
  return index;
}

std::vector<int64_t> TileAssignment::CoordinateOf(int64_t device) const {
  std::vector<int64_t> coordinate(dims_.size());
  int64_t index = FlatIndexOf(device);
  for (size_t i = dims_.size(); i-- > 0;) {
    coordinate[i] = index % dims_[i];
    index /= dims_[i];
  }
  return coordinate;
}

std::vector<int64_t> TileAssignment::ToList() const {
  if (!has_axes()) return list_->devices;
  std::vector<int64_t> sizes, strides, list;
  for (const DeviceAxis& axis : axes_) {
    sizes.push_back(axis.size);
    strides.push_back(axis.stride);
  }
  list.reserve(static_cast<size_t>(device_count_));
  ForEachStrided(sizes, strides, 0, [&](int64_t device) { list.push_back(device); });
  return list;
}

TileAssignment TileAssignment::Transpose(std::span<const int64_t> permutation) const {
  CheckInternal(permutation.size() == dims_.size(), "permutation does not match tile dims");
  std::vector<int64_t> new_dims;
  new_dims.reserve(dims_.size());
  for (int64_t source : permutation) new_dims.push_back(dim(source));
  if (const auto by_dim = AxesByDim()) {
    TileAssignment result(new_dims);
    std::vector<DeviceAxis> axes;
    for (int64_t source : permutation) {
      const std::vector<DeviceAxis>& part = (*by_dim)[static_cast<size_t>(source)];
      axes.insert(axes.end(), part.begin(), part.end());
    }
    result.SetAxes(axes);
    return result;
  }
  const std::vector<int64_t> strides = Strides(dims_);
  std::vector<int64_t> new_strides;
  for (int64_t source : permutation) new_strides.push_back(strides[static_cast<size_t>(source)]);
  const std::vector<int64_t> old_list = ToList();
  std::vector<int64_t> list;
  list.reserve(old_list.size());
  ForEachStrided(new_dims, new_strides, 0,
                 [&](int64_t index) { list.push_back(old_list[static_cast<size_t>(index)]); });
  return List(new_dims, std::move(list));
}

TileAssignment TileAssignment::Reshape(std::span<const int64_t> dims) const {
  TileAssignment result(dims);
  CheckInternal(result.device_count_ == device_count_, "reshape changes the number of devices");
  result.axes_ = axes_;
  result.list_ = list_;
  return result;
}

TileAssignment TileAssignment::Reverse(std::span<const int64_t> dims) const {
  std::vector<int64_t> strides = Strides(dims_);
  int64_t start = 0;
  for (int64_t d : dims) {
    if (dim(d) == 1) continue;
    int64_t& stride = strides[static_cast<size_t>(d)];
    start += stride * (dim(d) - 1);
    stride = -stride;
  }
  if (start == 0) return *this;
  const std::vector<int64_t> old_list = ToList();
  std::vector<int64_t> list;
  list.reserve(old_list.size());
  ForEachStrided(dims_, strides, start,
                 [&](int64_t index) { list.push_back(old_list[static_cast<size_t>(index)]); });
  return List(dims_, std::move(list));
}

TileAssignment TileAssignment::SortLastDim() const {
  if (dims_.empty() || dims_.back() == 1) return *this;
  if (has_axes() && CountUpwards(axes_, dims_.back())) return *this;
  const std::vector<int64_t> two_dims = {device_count_ / dims_.back(), dims_.back()};
  if (auto by_dim = Reshape(two_dims).AxesByDim()) {
    // Strides nest, so descending strides count upwards.
    std::ranges::sort((*by_dim)[1], std::ranges::greater{}, &DeviceAxis::stride);
    (*by_dim)[0].insert((*by_dim)[0].end(), (*by_dim)[1].begin(), (*by_dim)[1].end());
    TileAssignment result(dims_);
    result.SetAxes((*by_dim)[0]);
    return result;
  }
  std::vector<int64_t> list = ToList();
  for (auto run = list.begin(); run != list.end(); run += dims_.back()) {
    std::sort(run, run + dims_.back());
  }
  return List(dims_, std::move(list));
}

bool TileAssignment::operator==(const TileAssignment& other) const {
  if (dims_ != other.dims_ || axes_ != other.axes_) return false;
  if (list_ == other.list_) return true;
  return list_ != nullptr && other.list_ != nullptr && list_->devices == other.list_->devices;
}

size_t TileAssignment::Hash() const {
  size_t seed = HashSpan(0, std::span<const int64_t>(dims_));
  for (const DeviceAxis& axis : axes_) {
    seed = HashCombine(HashCombine(seed, static_cast<uint64_t>(axis.size)),
                       static_cast<uint64_t>(axis.stride));
  }
  if (list_ != nullptr) seed = HashSpan(seed, std::span<const int64_t>(list_->devices));
  return seed;
}

std::string TileAssignment::ToString(bool as_list) const {
  std::string out = "[";
  const auto append = [&out](int64_t value, bool comma) {
    if (comma) out += ',';
    const fmt::format_int text(value);
    out.append(text.data(), text.size());
  };
  for (size_t i = 0; i < dims_.size(); ++i) append(dims_[i], i > 0);
  out += ']';
  if (as_list || !has_axes()) {
    const std::vector<int64_t> list = ToList();
    for (size_t i = 0; i < list.size(); ++i) append(list[i], i > 0);
    return out;
  }
  out += "<=[";
  if (axes_.size() <= 1) {
    append(device_count_, false);
    out += ']';
    return out;
  }
  // Source dims are the axes by descending stride.
  std::vector<size_t> order(axes_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order,
                    [this](size_t a, size_t b) { return axes_[a].stride > axes_[b].stride; });
  std::vector<int64_t> source_of(axes_.size());
  for (size_t i = 0; i < order.size(); ++i) {
    source_of[order[i]] = static_cast<int64_t>(i);
    append(axes_[order[i]].size, i > 0);
  }
  out += "]T(";
  for (size_t i = 0; i < source_of.size(); ++i) append(source_of[i], i > 0);
  out += ')';
  return out;
}

}  // namespace gshard
