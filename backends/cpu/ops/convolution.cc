// convolution in all its forms (docs/semantics.md, "Convolution"), as products of matrices.
//
// Input and kernel are brought to the orders [batch, spatial.., feature] and [window.., input
// feature, output feature]. Rows of outputs then are products of the input as it lies
// (SlidingProduct) or, where that does not pay, blocks of output positions are a matrix of patches
// (positions x window elements, holes and padding as zeros) times the kernel's matrix. Convolutions
// of single channels (depthwise) are sums of products along the features instead.
#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/arrays/window_geometry.h"
#include "backends/cpu/elementwise/array_convert.h"
#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/ops/dot_product.h"
#include "backends/cpu/ops/factories.h"
#include "backends/cpu/ops/sliding_product.h"

namespace gshard::cpu {
namespace {

// Patches of one block take about this much memory, but hold at least some rows.
constexpr int64_t kPatchBytes = 1 << 20;
constexpr int64_t kMinPatches = 48;

class ConvolutionKernel : public Kernel {
 public:
  explicit ConvolutionKernel(const Instruction& instruction)
      : accumulate_(AccumulationType(instruction.operand(0)->shape()->dtype(),
                                     instruction.operand(1)->shape()->dtype(),
                                     instruction.shape()->dtype())),
        lhs_convert_(instruction.operand(0)->shape()->dtype(), accumulate_),
        rhs_convert_(instruction.operand(1)->shape()->dtype(), accumulate_),
        result_convert_(accumulate_, instruction.shape()->dtype()),
        bytes_(StorageBytes(accumulate_)) {
    const ConvolutionAttributes& conv = instruction.attributes<ConvolutionAttributes>();
    const Shape* lhs = instruction.operand(0)->shape();
    const Shape* rhs = instruction.operand(1)->shape();
    const Shape* result = instruction.shape();
    batch_ = result->dim(conv.output_batch);
    features_ = lhs->dim(conv.input_feature);
    depth_ = rhs->dim(conv.kernel_input_feature);
    outputs_ = rhs->dim(conv.kernel_output_feature);
    feature_groups_ = conv.feature_group_count;
    batch_groups_ = conv.batch_group_count;
    for (size_t i = 0; i < conv.window.size(); ++i) {
      const WindowDim& w = conv.window[i];
      SlidingDim dim{lhs->dim(conv.input_spatial[i]),
                     result->dim(conv.output_spatial[i]),
                     w.size,
                     w.stride,
                     w.pad_low,
                     w.base_dilation,
                     w.window_dilation};
      positions_ *= dim.output;
      window_ *= dim.window;
      pointwise_ = pointwise_ && dim.IsTrivial();
      spatial_.push_back(dim);
    }
    // Strides of the spatial dims of the packed input.
    int64_t stride = features_;
    spatial_strides_.assign(spatial_.size(), 0);
    for (size_t i = spatial_.size(); i-- > 0;) {
      spatial_strides_[i] = stride;
      stride *= spatial_[i].operand;
    }
    image_ = stride;
    // Where images are outermost on both sides, they are brought into order one by one.
    const bool by_image = batch_groups_ == 1 && IsOutermost(lhs, conv.input_batch) &&
                          IsOutermost(result, conv.output_batch);
    images_ = by_image ? 1 : batch_;
    PlanKernelOrder(conv, rhs);
    PlanImageOrders(conv, lhs, result, by_image);
    ChooseProduct(by_image);
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRows(0, batch_ * rows_, operands, results[0], scratch);
  }
  // A row of positions, or an image of the result, where images need not be brought into another
  // order together.
  int64_t RangeGranule() const override {
    return images_ == 1 ? positions_ / std::max<int64_t>(rows_, 1) * outputs_ : 0;
  }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    const int64_t granule = RangeGranule();
    if (granule == 0) return Run(operands, results, scratch);
    RunRows(first / granule, (first + count) / granule, operands, results[0], scratch);
  }
  int64_t Flops() const override {
    return 2 * batch_ * positions_ * outputs_ * window_ * depth_ * (IsComplex(accumulate_) ? 4 : 1);
  }

 private:
  // The kernel as [window.., input feature, output feature], reversed dims walked from their end.
  void PlanKernelOrder(const ConvolutionAttributes& conv, const Shape* rhs) {
    std::vector<int64_t> strides = RowMajorStrides(rhs->dims());
    std::vector<int64_t> order(conv.kernel_spatial.begin(), conv.kernel_spatial.end());
    order.push_back(conv.kernel_input_feature);
    order.push_back(conv.kernel_output_feature);
    rhs_count_ = rhs->element_count();
    for (size_t i = 0; i < conv.window.size(); ++i) {
      if (!conv.window[i].reversal) continue;
      int64_t& stride = strides[static_cast<size_t>(conv.kernel_spatial[i])];
      if (rhs_count_ > 0) kernel_offset_ += (conv.window[i].size - 1) * stride;
      stride = -stride;
    }
    rhs_pack_ = Reorder(rhs->dims(), strides, order, false);
    packs_rhs_ = rhs_count_ > 0 && !rhs_pack_.IsContiguous();
  }

  // Input and result as [batch, spatial.., feature], of one image or of all together.
  void PlanImageOrders(const ConvolutionAttributes& conv, const Shape* lhs, const Shape* result,
                       bool by_image) {
    const auto order = [](int64_t batch, const Dims& spatial, int64_t feature) {
      std::vector<int64_t> dims{batch};
      dims.insert(dims.end(), spatial.begin(), spatial.end());
      dims.push_back(feature);
      return dims;
    };
    std::vector<int64_t> lhs_dims(lhs->dims().begin(), lhs->dims().end());
    std::vector<int64_t> result_dims(result->dims().begin(), result->dims().end());
    if (by_image) {
      lhs_dims[static_cast<size_t>(conv.input_batch)] = 1;
      result_dims[static_cast<size_t>(conv.output_batch)] = 1;
    }
    lhs_count_ = Product(lhs_dims);
    lhs_pack_ = Reorder(lhs_dims, RowMajorStrides(lhs->dims()),
                        order(conv.input_batch, conv.input_spatial, conv.input_feature), false);
    result_unpack_ =
        Reorder(result_dims, RowMajorStrides(result->dims()),
                order(conv.output_batch, conv.output_spatial, conv.output_feature), true);
    packs_lhs_ = lhs_count_ > 0 && !lhs_pack_.IsContiguous();
    unpacks_ = Product(result_dims) > 0 && !result_unpack_.IsContiguous();
  }

  // Which of the three ways pays, where the order of the arrays is known.
  void ChooseProduct(bool by_image) {
    depthwise_ = depth_ == 1 && outputs_ == feature_groups_ && feature_groups_ > 1 &&
                 batch_groups_ == 1 && (accumulate_ == DType::kF32 || accumulate_ == DType::kF64);
    const bool plain = feature_groups_ == 1 && batch_groups_ == 1 &&
                       (accumulate_ == DType::kF32 || accumulate_ == DType::kF64);
    if (plain && !pointwise_ && SlidingProduct::Pays(spatial_, features_)) {
      sliding_.emplace(spatial_, features_, outputs_);
      const bool as_they_lie = by_image && !packs_lhs_ && lhs_convert_.IsIdentity() && !unpacks_;
      if (as_they_lie) rows_ = sliding_->rows();
    }
  }

  // Between an array and a dense one with its dims in `order`.
  StridedCopy Reorder(std::span<const int64_t> dims, const std::vector<int64_t>& strides,
                      std::span<const int64_t> order, bool from_dense) const {
    std::vector<StridedDim> box(dims.size());
    int64_t dense = 1;
    for (size_t i = order.size(); i-- > 0;) {
      const size_t dim = static_cast<size_t>(order[i]);
      box[i] = from_dense ? StridedDim{dims[dim], dense, strides[dim]}
                          : StridedDim{dims[dim], strides[dim], dense};
      dense *= dims[dim];
    }
    return {std::move(box), bytes_};
  }

  static bool IsOutermost(const Shape* shape, int64_t dim) {
    return Product(shape->dims().first(static_cast<size_t>(dim))) == 1;
  }

  // Rows [begin, end) of all images' (`images_` together count as one).
  void RunRows(int64_t begin, int64_t end, ConstBuffers operands, std::byte* result,
               Scratch& scratch) const {
    const int64_t image_count = images_ * positions_ * outputs_;
    if (image_count == 0 || end == begin) return;
    const std::byte* rhs = rhs_convert_.InScratch(rhs_count_, operands[1], scratch);
    if (packs_rhs_) {
      std::byte* packed = scratch.Allocate(static_cast<size_t>(rhs_count_ * bytes_));
      rhs_pack_.Run(rhs + kernel_offset_ * bytes_, packed);
      rhs = packed;
    }
    if (images_ > 1) {
      RunImage(0, 0, 1, operands[0], rhs, result, scratch);
      return;
    }
    const int64_t row_bytes = image_count / rows_ * result_convert_.to_bytes();
    for (int64_t row = begin; row < end;) {
      const int64_t image = row / rows_, first = row % rows_;
      const int64_t count = std::min(rows_ - first, end - row);
      const Scratch::Mark mark = scratch.Position();
      RunImage(image, first, first + count, operands[0], rhs, result, scratch);
      scratch.Rewind(mark);
      result += count * row_bytes;
      row += count;
    }
  }

  // Rows of one image, or all of the images that are taken together.
  void RunImage(int64_t image, int64_t begin, int64_t end, const std::byte* lhs,
                const std::byte* rhs, std::byte* result, Scratch& scratch) const {
    const int64_t count = images_ * positions_ * outputs_ / rows_ * (end - begin);
    lhs = lhs_convert_.InScratch(lhs_count_, lhs + image * lhs_count_ * lhs_convert_.from_bytes(),
                                 scratch);
    if (packs_lhs_) {
      std::byte* packed = scratch.Allocate(static_cast<size_t>(lhs_count_ * bytes_));
      lhs_pack_.Run(lhs, packed);
      lhs = packed;
    }
    const bool direct = result_convert_.IsIdentity() && !unpacks_;
    std::byte* sums = direct ? result : scratch.Allocate(static_cast<size_t>(count * bytes_));
    WithAccumulationType(accumulate_, [&](auto tag) {
      RunTyped<decltype(tag)>(begin, end, lhs, rhs, sums, scratch);
    });
    if (direct) return;
    if (unpacks_) {
      std::byte* ordered = result_convert_.IsIdentity()
                               ? result
                               : scratch.Allocate(static_cast<size_t>(count * bytes_));
      result_unpack_.Run(sums, ordered);
      sums = ordered;
    }
    if (!result_convert_.IsIdentity()) result_convert_.Run(count, sums, result, scratch);
  }

  template <typename T>
  void RunTyped(int64_t begin, int64_t end, const std::byte* lhs_data, const std::byte* rhs_data,
                std::byte* result_data, Scratch& scratch) const {
    const T* lhs = reinterpret_cast<const T*>(lhs_data);
    const T* rhs = reinterpret_cast<const T*>(rhs_data);
    T* result = reinterpret_cast<T*>(result_data);
    const int64_t elements = window_ * depth_;  // of a patch
    const int64_t image_results = positions_ * outputs_;
    if (elements == 0) {
      std::fill_n(result, images_ * image_results / rows_ * (end - begin), T{0});
      return;
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (sliding_) {
        const bool whole = rows_ == 1;
        for (int64_t b = 0; b < images_; ++b) {
          sliding_->Run(whole ? 0 : begin, whole ? sliding_->rows() : end, lhs + b * image_, rhs,
                        result + b * image_results, scratch);
        }
        return;
      }
      if (depthwise_) {
        for (int64_t b = 0; b < images_; ++b) {
          Depthwise(lhs + b * image_, rhs, result + b * image_results);
        }
        return;
      }
    }
    const int64_t groups = std::max(feature_groups_, batch_groups_);
    const int64_t group_outputs = outputs_ / groups;
    const int64_t row_bytes = elements * static_cast<int64_t>(sizeof(T));
    const int64_t block = std::min(positions_, std::max(kPatchBytes / row_bytes, kMinPatches));
    T* patches = nullptr;
    if (!pointwise_) {
      patches = reinterpret_cast<T*>(scratch.Allocate(static_cast<size_t>(block * row_bytes)));
    }
    for (int64_t b = 0; b < images_; ++b) {
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t image = batch_groups_ > 1 ? g * batch_ + b : b;
        const T* in = lhs + image * image_ + (feature_groups_ > 1 ? g * depth_ : 0);
        const MatrixView<T> kernel{rhs + g * group_outputs, outputs_, 1};
        T* out = result + b * image_results + g * group_outputs;
        if (pointwise_) {
          RowwiseGemm<T>(positions_, group_outputs, depth_, {in, features_, 1}, kernel, out,
                         outputs_);
          continue;
        }
        for (int64_t p = 0; p < positions_; p += block) {
          const int64_t rows = std::min(block, positions_ - p);
          Patches(in, p, rows, patches);
          RowwiseGemm<T>(rows, group_outputs, elements, {patches, elements, 1}, kernel,
                         out + p * outputs_, outputs_);
        }
      }
    }
  }

  // Calls f(window position, offset of the input position or -1) for one output position.
  template <typename F>
  void ForWindow(int64_t position, F&& f) const {
    int64_t output[kMaxRank];
    for (size_t i = spatial_.size(); i-- > 0;) {
      output[i] = position % spatial_[i].output;
      position /= spatial_[i].output;
    }
    int64_t window[kMaxRank] = {};
    for (int64_t w = 0; w < window_; ++w) {
      int64_t offset = 0;
      for (size_t i = 0; i < spatial_.size(); ++i) {
        const int64_t index = spatial_[i].Index(output[i], window[i]);
        if (index < 0) {
          offset = -1;
          break;
        }
        offset += index * spatial_strides_[i];
      }
      f(w, offset);
      for (size_t i = spatial_.size(); i-- > 0;) {
        if (++window[i] < spatial_[i].window) break;
        window[i] = 0;
      }
    }
  }

  template <typename T>
  void Patches(const T* in, int64_t first, int64_t rows, T* patches) const {
    const size_t run = static_cast<size_t>(depth_) * sizeof(T);
    for (int64_t r = 0; r < rows; ++r) {
      ForWindow(first + r, [&](int64_t, int64_t offset) {
        if (offset < 0) {
          std::memset(static_cast<void*>(patches), 0, run);
        } else {
          std::memcpy(static_cast<void*>(patches), in + offset, run);
        }
        patches += depth_;
      });
    }
  }

  template <typename T>
  void Depthwise(const T* in, const T* kernel, T* out) const {
    for (int64_t p = 0; p < positions_; ++p, out += outputs_) {
      std::fill_n(out, outputs_, T{0});
      ForWindow(p, [&](int64_t w, int64_t offset) {
        if (offset < 0) return;
        const T* x = in + offset;
        const T* k = kernel + w * outputs_;
        for (int64_t o = 0; o < outputs_; ++o) out[o] += x[o] * k[o];
      });
    }
  }

  static constexpr size_t kMaxRank = 64;
  DType accumulate_;
  ArrayConvert lhs_convert_, rhs_convert_, result_convert_;
  int64_t bytes_;
  int64_t batch_ = 1, features_ = 1, depth_ = 1, outputs_ = 1;
  int64_t feature_groups_ = 1, batch_groups_ = 1;
  std::vector<SlidingDim> spatial_;
  std::vector<int64_t> spatial_strides_;  // in the packed input
  int64_t positions_ = 1, window_ = 1;    // elements of the output's and the window's box
  int64_t image_ = 1;                     // elements of one input image
  int64_t images_ = 1;                    // taken together: one, or all
  int64_t rows_ = 1;                      // of an image, that may be run by themselves
  int64_t lhs_count_ = 0;                 // of the images taken together
  int64_t rhs_count_ = 0, kernel_offset_ = 0;
  StridedCopy lhs_pack_, rhs_pack_, result_unpack_;
  bool packs_lhs_ = false, packs_rhs_ = false, unpacks_ = false;
  bool pointwise_ = true;  // every window is the one element under it
  bool depthwise_ = false;
  std::optional<SlidingProduct> sliding_;
};

}  // namespace

KernelOrError MakeConvolution(const Instruction& instruction) {
  LimitBlasThreads();
  return std::make_unique<ConvolutionKernel>(instruction);
}

}  // namespace gshard::cpu
