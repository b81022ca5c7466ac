// RowGemm of operands that come from far away: include behind row_gemm-inl.h.
//
// Both operands are packed as the multiplication reads them (Goto and van de Geijn, Anatomy of
// high-performance matrix multiplication, 2008): panels of b of two vectors' width, and blocks of
// rows of a column by column. kDepth rows of a strip of b stay in L2 while all rows of a pass, a
// chunk of a panel in L1 while the blocks of kHeight rows do. Elements have the bits of
// row_gemm-inl.h.
//
// Factors may be of a narrower type than T: they are converted when they are packed.

constexpr int64_t kDepth = 4 * kChunk;
constexpr int64_t kStrip = 512;  // columns of b that are packed at once
constexpr int64_t kHeight = kManyRegisters ? 56 : 54;

template <typename T>
HWY_INLINE T Widened(T x) {
  return x;
}
HWY_INLINE float Widened(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// What a thread packs into.
template <typename T>
struct PackedRoom {
  static constexpr size_t kFull = 2 * HWY_MAX_BYTES / sizeof(T);  // of a panel, or more
  alignas(64) T right[kDepth * (kStrip + kFull)];
  alignas(64) T left[kDepth * kHeight];
  alignas(64) T sums[kHeight * kFull];
  alignas(64) T wide[kDepth * kFull];  // converted factors on their way
};

// `count` lines of adjacent elements, converted, one after another.
template <typename T, typename From>
void WidenLines(int64_t count, int64_t length, const From* from, int64_t line, T* to) {
  for (int64_t i = 0; i < count; ++i, from += line, to += length) {
    for (int64_t j = 0; j < length; ++j) to[j] = Widened(from[j]);
  }
}

// `height` rows of a, column after column.
template <typename T, typename From>
HWY_NOINLINE void PackLeft(int64_t height, int64_t depth, MatrixView<From> a, T* wide, T* to) {
  if (a.column == 1) {
    if constexpr (std::is_same_v<T, From>) {
      PackPanel(a.data, a.row, depth, height, height, to);
    } else {
      WidenLines(height, depth, a.data, a.row, wide);
      PackPanel(wide, depth, depth, height, height, to);
    }
    return;
  }
  for (int64_t p = 0; p < depth; ++p, to += height) {
    const From* from = a.data + p * a.column;
    for (int64_t i = 0; i < height; ++i) to[i] = Widened(from[i * a.row]);
  }
}

// Panels of two vectors' width, as Pack.
template <typename T, typename From>
HWY_NOINLINE void PackRight(int64_t depth, MatrixView<From> b, int64_t width, int64_t full, T* wide,
                            T* to) {
  const int64_t panel_size = depth * full;
  if constexpr (std::is_same_v<T, From>) {
    Pack<T, 2>(depth, b, width, panel_size, to);
  } else if (b.column == 1) {
    // As many rows as `wide` holds.
    const int64_t rows = kDepth * full / kStrip;
    for (int64_t p = 0; p < depth; p += rows) {
      const int64_t some = std::min(rows, depth - p);
      WidenLines(some, width, b.data + p * b.row, b.row, wide);
      Pack<T, 2>(some, MatrixView<T>{wide, width, 1}, width, panel_size, to + p * full);
    }
  } else {
    for (int64_t j = 0; j < width; j += full, to += panel_size) {
      const int64_t columns = std::min(full, width - j);
      for (int64_t q = 0; q < columns; ++q) {
        const From* from = b.data + (j + q) * b.column;
        for (int64_t p = 0; p < depth; ++p) wide[q * depth + p] = Widened(from[p * b.row]);
      }
      Pack<T, 2>(depth, MatrixView<T>{wide, 1, depth}, columns, panel_size, to);
    }
  }
}

// A packed panel of b: `depth` rows of `full` elements, of which `width` are b's.
template <typename T>
struct PackedPanel {
  const T* data;
  int64_t depth, width, full;
};

// c[0 .. rows)[0 .. width) (accumulate: +)= packed rows times a packed panel, chunk after chunk.
template <typename T>
void MultiplyPanel(const Heights& heights, int64_t rows, const T* left, const PackedPanel<T>& panel,
                   ResultRows<T> c, T* sums) {
  const auto [data, depth, width, full] = panel;
  const bool narrow = width < full;
  Into into = c.accumulate ? Into::kAdd : Into::kStore;
  if (narrow && c.accumulate) {
    for (int64_t i = 0; i < rows; ++i) std::copy_n(c.data + i * c.row, width, sums + i * full);
  }
  for (int64_t p = 0; p < depth; p += kChunk, into = Into::kAdd) {
    const Rows<T> a{&left, 1, p, depth, 1, std::min(kChunk, depth - p)};
    const Columns<T> columns{a,
                             {nullptr, data + p * full, 0, 0, full},
                             narrow ? sums : c.data,
                             narrow ? full : c.row,
                             full,
                             into,
                             false};
    BlockRows<T, 2, true>(heights, columns);
  }
  for (int64_t i = 0; narrow && i < rows; ++i) {
    std::copy_n(sums + i * full, width, c.data + i * c.row);
  }
}

template <typename T, typename From>
HWY_NOINLINE void RunPacked(int64_t m, int64_t n, int64_t k, MatrixView<From> a, MatrixView<From> b,
                            ResultRows<T> c) {
  const int64_t full = static_cast<int64_t>(2 * hn::Lanes(hn::ScalableTag<T>()));
  thread_local std::unique_ptr<PackedRoom<T>> room;
  if (room == nullptr) room = std::make_unique_for_overwrite<PackedRoom<T>>();
  const int64_t blocks = (m + kHeight - 1) / kHeight;
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    const bool accumulate = p > 0 || c.accumulate;
    for (int64_t j0 = 0; j0 < n; j0 += kStrip) {
      const int64_t strip = std::min(kStrip, n - j0);
      const MatrixView<From> part{b.data + p * b.row + j0 * b.column, b.row, b.column};
      PackRight(depth, part, strip, full, room->wide, room->right);
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t i0 = m * block / blocks, rows = m * (block + 1) / blocks - i0;
        const Heights heights = HeightsOf<T, 2>(rows, Rows<T>{nullptr, 1, 0, 1, 1, 0});
        for (int64_t i = 0; i < rows;) {
          const int64_t height = heights.HeightAt(i);
          const MatrixView<From> some{a.data + (i0 + i) * a.row + p * a.column, a.row, a.column};
          PackLeft(height, depth, some, room->wide, room->left + i * depth);
          i += height;
        }
        for (int64_t j = 0; j < strip; j += full) {
          const PackedPanel<T> panel{room->right + j * depth, depth, std::min(full, strip - j),
                                     full};
          T* const corner = c.data + i0 * c.row + j0 + j;
          MultiplyPanel(heights, rows, room->left, panel, {corner, c.row, accumulate}, room->sums);
        }
      }
    }
  }
}

// Where copies of the operands pay: b comes from beyond L2 for more than a few rows, or the result
// does and there is little to add.
template <typename T>
bool PrefersPacked(int64_t count, int64_t m, int64_t n, int64_t k, bool accumulate) {
  constexpr int64_t kFarBytes = 1 << 20, kNotFew = 6, kLittle = 64;
  constexpr int64_t kBytes = sizeof(T);
  if (count > 1 || (accumulate && k <= kChunk) || m < kNotFew || n < 128 || k == 0) return false;
  return k * n * kBytes > kFarBytes || (k <= kLittle && m * n * kBytes >= kFarBytes);
}
