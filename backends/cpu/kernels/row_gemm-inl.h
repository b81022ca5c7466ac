// Register-blocked matrix product for small and stacked matrices, compiled once per Highway target
// and type (row_gemm.cc, row_gemm_f64.cc): include inside the target's namespace.
//
// b is read in panels of a few vectors' width and some rows: in place when few rows of a use it,
// else packed on the stack. Operands of small products come from the last-level cache or from
// memory, one product after another: what follows is asked for while the processor multiplies.
// Every element is one chain of fused multiply-adds a chunk, whatever block it falls in, so its
// bits depend on its row and column only.

namespace hn = hwy::HWY_NAMESPACE;

// What becomes of c: overwritten; sums are added to it; sums go on from it, as if what is there had
// been their first term.
enum class Into : uint8_t { kStore, kAdd, kContinue };

constexpr int64_t kChunk = 128;        // rows of b in a panel, of one matrix
constexpr int64_t kTogether = 256;     // of several matrices
constexpr int64_t kPackedRows = 1024;  // rows of all panels that are packed at once
constexpr int64_t kRowBlock = 480;     // rows of a whose chunk stays in L2 while panels pass
constexpr int64_t kInL1 = 1 << 14;     // bytes of b that are read in place, whatever their distance
constexpr int64_t kOnce = 12;          // so few rows do not pay for a copy of b

// Rows of a block of c. Its sums, vectors of a row of b and an element of a fill the registers:
// fewer sums would wait on loads and on each other.
constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3;  // 32 instead of 16
constexpr size_t kRows = kManyRegisters ? 14 : 6;        // of two vectors, at most
constexpr size_t kNarrowRows = 12;                       // of one
constexpr size_t kFewRows = kManyRegisters ? 6 : 3;      // of four, if these are all rows there are

// A panel of each of several matrices: element (p, j) of matrix s at Of(s)[p * row + j].
template <typename T>
struct Panel {
  const T* const* in_place;  // null: packed, one after another
  const T* packed;
  int64_t offset, size, row;

  const T* Of(int64_t s) const { return in_place ? in_place[s] + offset : packed + s * size; }
};

// Rows of left-hand sides whose columns, `chunk` of each, follow one another.
template <typename T>
struct Rows {
  const T* const* data;
  int64_t count, offset;
  int64_t row, column;
  int64_t chunk;
};

// Asks for `rows` rows of `width` elements.
template <typename T>
void Prefetch(const T* data, int64_t rows, int64_t row, int64_t width) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t j = 0; j < width; j += kLine) __builtin_prefetch(data + p * row + j, 0, 2);
  }
}

// Products of rows of a and one panel of b: c[i][0 .. width) of all rows i.
template <typename T>
struct Columns {
  const Rows<T>& a;
  Panel<T> panel;
  T* c;
  int64_t c_row;
  int64_t width;
  Into into;
  bool prefetch;  // the rows of a that come next
};

// A compiler that knows how pointers differ keeps the differences, more than there are registers,
// and spills them to vector registers: then a block's addresses wait for the sums of the block
// before.
template <typename T>
HWY_INLINE void Forget(T*& pointer) {
  asm("" : "+r"(pointer));
}

constexpr size_t kAhead = 16;  // rows of a packed panel that are asked for ahead of their use

template <typename T, size_t kV>
HWY_INLINE void PrefetchRow(const T* row) {
  constexpr size_t kLine = 64 / sizeof(T);
  for (size_t j = 0; j < kV * hn::Lanes(hn::ScalableTag<T>()); j += kLine) {
    __builtin_prefetch(row + j, 0, 3);
  }
}

// Asks for a block of c, to be written.
template <typename T, size_t kR, size_t kV>
HWY_INLINE void PrefetchTile(const T* c, int64_t c_row) {
  constexpr size_t kLine = 64 / sizeof(T);
#pragma GCC unroll 24
  for (size_t i = 0; i < kR; ++i) {
    for (size_t j = 0; j < kV * hn::Lanes(hn::ScalableTag<T>()); j += kLine) {
      __builtin_prefetch(c + j, 1, 3);
    }
    c += c_row;
    Forget(c);
  }
}

// The first `width` elements of kR rows of sums.
template <typename T, size_t kR, size_t kV, typename V>
HWY_INLINE void StoreNarrow(int64_t width, const V (&sum)[kR][kV], Into into, T* out,
                            int64_t c_row) {
  const hn::ScalableTag<T> d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(width));
#pragma GCC unroll 24
  for (size_t i = 0; i < kR; ++i) {
    V whole = sum[i][0];
    if (into == Into::kAdd) whole = hn::Add(hn::MaskedLoad(mask, d, out), whole);
    hn::BlendedStore(whole, mask, d, out);
    out += c_row;
    Forget(out);
  }
}

// kR rows from `first` on of x, in kV vectors. kPacked: the rows of a block lie column by column,
// of a.row columns, the first of x at a.offset; their panel is packed, too.
template <typename T, size_t kR, size_t kV, bool kPacked>
HWY_INLINE void Block(const Columns<T>& x, int64_t first) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const Rows<T>& a = x.a;
  constexpr auto kRowCount = static_cast<int64_t>(kR);
  const int64_t offset = (kPacked ? a.offset * kRowCount : a.offset) + first * a.row;
  // Only a last panel, of one vector, can be narrower.
  const bool narrow = kV == 1 && x.width < static_cast<int64_t>(lanes);
  // Copies: stores of vectors could change any member.
  const int64_t c_row = x.c_row;
  const Into into = x.into;
  T* out = x.c + first * c_row;
  V sum[kR][kV];
  if (into == Into::kContinue) {
    const T* from = out;
#pragma GCC unroll 24
    for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 24
      for (size_t v = 0; v < kV; ++v) {
        sum[i][v] = narrow ? hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(x.width)), d, from)
                           : hn::LoadU(d, from + v * lanes);
      }
      from += c_row;
      Forget(from);
    }
  } else {
#pragma GCC unroll 24
    for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 24
      for (size_t v = 0; v < kV; ++v) sum[i][v] = hn::Zero(d);
    }
  }
  if constexpr (kPacked) PrefetchTile<T, kR, kV>(out, c_row);
  const int64_t chunk = a.chunk, b_row = x.panel.row;
  const int64_t a_row = kPacked ? 1 : a.row, a_column = kPacked ? kRowCount : a.column;
  for (int64_t s = 0; s < a.count; ++s) {
    const T* rows[(kR + 3) / 4];  // the first of each four
    rows[0] = a.data[s] + offset;
#pragma GCC unroll 24
    for (size_t i = 1; i < (kR + 3) / 4; ++i) {
      rows[i] = rows[i - 1] + 4 * a_row;
      Forget(rows[i]);
    }
    const T* b = x.panel.Of(s);
    for (int64_t p = 0; p < chunk; ++p) {
      V row[kV];
#pragma GCC unroll 24
      for (size_t v = 0; v < kV; ++v) row[v] = hn::LoadU(d, b + v * lanes);
      // Rows of a have displaced the panel from L1.
      if constexpr (kPacked) PrefetchRow<T, kV>(b + kAhead * kV * lanes);
#pragma GCC unroll 24
      for (size_t i = 0; i < kR; ++i) {
        const V factor = hn::Set(d, rows[i / 4][static_cast<int64_t>(i % 4) * a_row]);
#pragma GCC unroll 24
        for (size_t v = 0; v < kV; ++v) sum[i][v] = hn::MulAdd(factor, row[v], sum[i][v]);
      }
      b += b_row;
#pragma GCC unroll 24
      for (size_t i = 0; i < (kR + 3) / 4; ++i) rows[i] += a_column;
    }
  }
  if (narrow) return StoreNarrow<T, kR, kV>(x.width, sum, into, out, c_row);
#pragma GCC unroll 24
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 24
    for (size_t v = 0; v < kV; ++v) {
      T* to = out + v * lanes;
      hn::StoreU(into == Into::kAdd ? hn::Add(hn::LoadU(d, to), sum[i][v]) : sum[i][v], d, to);
    }
    out += c_row;
    Forget(out);
  }
}

// `count` blocks of `rows` rows, kR at most, from row `first` on.
template <typename T, size_t kV, bool kPacked, size_t kR>
void Blocks(int64_t count, int64_t rows, const Columns<T>& x, int64_t first) {
  constexpr int64_t kHeight = static_cast<int64_t>(kR);
  if constexpr (kR > 1) {
    if (rows < kHeight) return Blocks<T, kV, kPacked, kR - 1>(count, rows, x, first);
  }
  const Rows<T>& a = x.a;
  for (int64_t i = first; i < first + count * kHeight; i += kHeight) {
    if (x.prefetch) {
      Prefetch(a.data[0] + a.offset + (i + kHeight) * a.row, kHeight, a.row, a.chunk);
    }
    Block<T, kR, kV, kPacked>(x, i);
  }
}

// Rows in as few blocks as registers allow, whose heights differ by one at most: a low block would
// wait on the latency of its sums.
struct Heights {
  int64_t rows;           // of a low block
  int64_t higher, lower;  // how many blocks are a row higher, how many are not

  // Of the block that begins at row i.
  int64_t HeightAt(int64_t i) const { return i < higher * (rows + 1) ? rows + 1 : rows; }
};

template <typename T, size_t kV>
constexpr size_t kMaxRows = kV == 1   ? kNarrowRows
                            : kV == 2 ? kRows
                            : kV == 4 ? kFewRows
                                      : 1;

// Zen 4 does one product of vectors of 512 bits a cycle: 12 sums keep it busy, and of higher blocks
// it stores the sums while it has nothing to multiply. Zen 5 does two.
inline bool PrefersLowBlocks() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amdfam19h");
#else
  return false;
#endif
}

// Lines that a set of the L1 cache holds; 8 where the system does not say.
inline int64_t L1Ways() {
#if defined(_SC_LEVEL1_DCACHE_ASSOC)
  static const int64_t ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
  if (ways > 2) return ways;
#endif
  return 8;
}

template <typename T, size_t kV>
Heights HeightsOf(int64_t m, const Rows<T>& a) {
  // Rows at such distances lie in the same set of the L1 cache, beside lines of the panel.
  constexpr int64_t kSameLines = 4096, kLow = 6;
  const bool same_lines =
      a.column == 1 && a.row * static_cast<int64_t>(sizeof(T)) % kSameLines == 0;
  const auto most = static_cast<int64_t>(kMaxRows<T, kV>);
  int64_t limit = most;
  if (same_lines) limit = std::min(limit, L1Ways() - 2);
  if (kV > 1 && PrefersLowBlocks()) limit = std::min(limit, kLow);
  if (m <= limit) return {m, 0, 1};
  const int64_t count = (m + limit - 1) / limit;
  return {m / count, m % count, count - m % count};
}

template <typename T, size_t kV, bool kPacked = false>
void BlockRows(const Heights& heights, const Columns<T>& x) {
  constexpr size_t kMax = kMaxRows<T, kV>;
  const auto& [rows, higher, lower] = heights;
  if (higher > 0) Blocks<T, kV, kPacked, kMax>(higher, rows + 1, x, 0);
  Blocks<T, kV, kPacked, kMax>(lower, rows, x, higher * (rows + 1));
}

// Columns of adjacent elements to rows: panel[p * full + j] = from[p + j * column].
template <typename T>
void PackPanel(const T* from, int64_t column, int64_t chunk, int64_t n, int64_t full, T* panel) {
  int64_t whole = 0;  // columns done four by four
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const hn::FixedTag<T, 4> d;
    for (; whole + 4 <= n; whole += 4) {
      const T* a = from + whole * column;
      T* out = panel + whole;
      int64_t p = 0;
      for (; p + 4 <= chunk; p += 4) {
        const auto r0 = hn::LoadU(d, a + p), r1 = hn::LoadU(d, a + column + p);
        const auto r2 = hn::LoadU(d, a + 2 * column + p), r3 = hn::LoadU(d, a + 3 * column + p);
        const auto low01 = hn::InterleaveLower(d, r0, r1), high01 = hn::InterleaveUpper(d, r0, r1);
        const auto low23 = hn::InterleaveLower(d, r2, r3), high23 = hn::InterleaveUpper(d, r2, r3);
        hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, out + p * full);
        hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, out + (p + 1) * full);
        hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, out + (p + 2) * full);
        hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, out + (p + 3) * full);
      }
      for (; p < chunk; ++p) {
        for (int64_t j = 0; j < 4; ++j) out[p * full + j] = a[p + j * column];
      }
    }
  }
#endif
  for (int64_t p = 0; p < chunk; ++p) {
    for (int64_t j = whole; j < n; ++j) panel[p * full + j] = from[p + j * column];
  }
}

// Rows of adjacent elements to panels, as Pack. A call of memcpy would take longer than the copy.
template <typename T, size_t kV>
void PackRows(int64_t chunk, MatrixView<T> b, int64_t width, int64_t panel_size, T* panels) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const int64_t full = static_cast<int64_t>(kV * lanes);
  const int64_t whole = width / full * full;
  for (int64_t p = 0; p < chunk; ++p) {
    const T* row = b.data + p * b.row;
    T* to = panels + p * full;
    for (int64_t j = 0; j < whole; j += full, to += panel_size) {
#pragma GCC unroll 24
      for (size_t v = 0; v < kV; ++v) {
        hn::StoreU(hn::LoadU(d, row + j + v * lanes), d, to + v * lanes);
      }
    }
    for (int64_t j = whole; j < width; ++j) to[j - whole] = row[j];
    for (int64_t j = width; whole < width && j < whole + full; ++j) to[j - whole] = T{0};
  }
}

// Columns to panels, as Pack.
template <typename T>
HWY_NOINLINE void PackColumns(int64_t chunk, MatrixView<T> b, int64_t width, int64_t full,
                              int64_t panel_size, T* panels) {
  for (int64_t j0 = 0; j0 < width; j0 += full, panels += panel_size) {
    const int64_t n = std::min(full, width - j0);
    const T* from = b.data + j0 * b.column;
    if (b.row == 1) {
      PackPanel(from, b.column, chunk, n, full, panels);
      for (int64_t p = 0; n < full && p < chunk; ++p) {
        std::fill_n(panels + p * full + n, full - n, T{0});
      }
      continue;
    }
    for (int64_t p0 = 0; p0 < chunk; p0 += 16) {
      const int64_t p1 = std::min(p0 + 16, chunk);
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t p = p0; p < p1; ++p) panels[p * full + j] = from[p * b.row + j * b.column];
      }
      for (int64_t p = p0; p < p1; ++p) {
        for (int64_t j = n; j < full; ++j) panels[p * full + j] = T{0};
      }
    }
  }
}

// Columns [0, width) of b's rows to dense panels of kV vectors at distance `panel_size`, the last
// one padded with zeros.
template <typename T, size_t kV>
void Pack(int64_t chunk, MatrixView<T> b, int64_t width, int64_t panel_size, T* panels) {
  if (b.column == 1) {
    PackRows<T, kV>(chunk, b, width, panel_size, panels);
  } else {
    const int64_t full = static_cast<int64_t>(kV * hn::Lanes(hn::ScalableTag<T>()));
    PackColumns(chunk, b, width, full, panel_size, panels);
  }
}

// One chunk of k.
template <typename T>
struct Chunk {
  int64_t m, n;
  Rows<T> a;
  MatrixList<T> b;          // as many matrices as in a
  int64_t b_offset;         // of the chunk's first row
  const T* next = nullptr;  // rows of b that the following chunk begins with, if they are known
  int64_t next_rows = 0;
  T* c;
  int64_t c_row;
  Into into;
};

// The columns from `begin` on, in panels of kV vectors as long as `n` columns fill them (or, with
// kTail, for whatever is left). Returns the first column not done.
template <typename T, size_t kV, bool kTail>
int64_t Panels(const Chunk<T>& x, int64_t begin, T* packed) {
  const hn::ScalableTag<T> d;
  const int64_t full = static_cast<int64_t>(kV * hn::Lanes(d));
  const Rows<T>& a = x.a;
  const MatrixList<T>& b = x.b;
  // In place where packing would be for few rows, or would change nothing.
  const bool near = b.row * a.count * a.chunk * static_cast<int64_t>(sizeof(T)) <= kInL1;
  const bool in_place = b.column == 1 && (b.row == full || x.m <= kOnce || near);
  const int64_t end = kTail ? x.n : begin + (x.n - begin) / full * full;
  const int64_t panel_size = a.count * a.chunk * full;
  const int64_t strip_width = kPackedRows / (a.count * a.chunk) * full;
  const Heights heights = HeightsOf<T, kV>(x.m, a);
  const bool prefetch = a.column == 1 && a.count == 1;
  Columns<T> columns{a, {nullptr, packed, 0, a.chunk * full, 0}, x.c, x.c_row, full, x.into, false};
  for (int64_t strip = begin, strip_end = begin; strip < end; strip = strip_end) {
    strip_end = std::min(strip + strip_width, end);
    // A last panel that is not full is packed: in place it would be read beyond the end of b.
    if (in_place && strip_end - strip > full) strip_end -= (strip_end - strip) % full;
    const bool packs = !in_place || strip_end - strip < full;
    for (int64_t s = 0; s < a.count && packs; ++s) {
      const MatrixView<T> part{b.data[s] + x.b_offset + strip * b.column, b.row, b.column};
      Pack<T, kV>(a.chunk, part, strip_end - strip, panel_size, packed + s * a.chunk * full);
    }
    for (int64_t j = strip; j < strip_end; j += full) {
      columns.panel.in_place = packs ? nullptr : b.data;
      columns.panel.packed = packed + (j - strip) / full * panel_size;
      columns.panel.offset = x.b_offset + j;
      columns.panel.row = packs ? full : b.row;
      columns.c = x.c + j;
      columns.width = std::min(full, end - j);
      columns.prefetch = prefetch && j == 0;
      if (x.next_rows > 0) Prefetch(x.next + j, x.next_rows, b.row, columns.width);
      BlockRows<T, kV>(heights, columns);
    }
  }
  return end;
}

template <typename T>
void Run(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<T> a, MatrixList<T> b,
         ResultRows<T> c) {
  if (k == 0 || count == 0) {
    for (int64_t i = 0; !c.accumulate && i < m; ++i) std::fill_n(c.data + i * c.row, n, T{0});
    return;
  }
  HWY_ALIGN T packed[static_cast<size_t>(kPackedRows) * 2 * HWY_MAX_BYTES / sizeof(T)];
  const int64_t together = k <= kChunk ? kTogether / k : 1;  // matrices in a chunk
  // Sums of short products go on from call to call, so that how the matrices are divided among
  // calls does not show in the bits; those of long ones are added chunk by chunk, against rounding
  // errors.
  const Into again = k <= kChunk ? Into::kContinue : Into::kAdd;
  for (int64_t i = 0; i < m; i += kRowBlock) {
    Chunk<T> x{.m = std::min(kRowBlock, m - i),
               .n = n,
               .a = {},
               .b = {},
               .b_offset = 0,
               .c = c.data + i * c.row,
               .c_row = c.row,
               .into = c.accumulate ? again : Into::kStore};
    for (int64_t s = 0; s < count; s += together) {
      x.b = {b.data + s, b.row, b.column};
      for (int64_t p = 0; p < k; p += kChunk) {
        x.a = {a.data + s, std::min(together, count - s), i * a.row + p * a.column, a.row,
               a.column,   std::min(kChunk, k - p)};
        x.b_offset = p * b.row;
        x.next_rows = 0;
        if (b.column == 1 && p + kChunk < k) {
          x.next = b.data[s] + (p + kChunk) * b.row;
          x.next_rows = std::min(kChunk, k - p - kChunk);
        } else if (b.column == 1 && s + together < count) {
          x.next = b.data[s + together];
          x.next_rows = std::min(kChunk, k);
        }
        int64_t j = 0;
        // Few rows wait on the latency of their sums: more columns at once, read in place.
        if (x.m == 1 && b.column == 1 && x.a.count == 1) j = Panels<T, 8, false>(x, j, packed);
        if (x.m <= static_cast<int64_t>(kFewRows) && b.column == 1 && x.a.count == 1)
          j = Panels<T, 4, false>(x, j, packed);
        j = Panels<T, 2, false>(x, j, packed);
        Panels<T, 1, true>(x, j, packed);
        x.into = again;
      }
    }
  }
}
