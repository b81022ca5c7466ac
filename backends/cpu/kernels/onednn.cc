// Calls into oneDNN, whose functions are looked up when the library is loaded.
#include "backends/cpu/kernels/onednn.h"

#ifdef GSHARD_ONEDNN
#include <dlfcn.h>
#include <hwy/targets.h>
#include <oneapi/dnnl/dnnl.h>
#endif

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ir/diagnostic.h"

namespace gshard::cpu {

#if defined(GSHARD_ONEDNN) && defined(__x86_64__)
namespace {

struct Library {
  decltype(&dnnl_version) version;
  decltype(&dnnl_get_effective_cpu_isa) get_effective_cpu_isa;
  decltype(&dnnl_engine_create) engine_create;
  decltype(&dnnl_stream_create) stream_create;
  decltype(&dnnl_stream_wait) stream_wait;
  decltype(&dnnl_stream_destroy) stream_destroy;
  decltype(&dnnl_memory_create) memory_create;
  decltype(&dnnl_memory_set_data_handle) memory_set_data_handle;
  decltype(&dnnl_memory_destroy) memory_destroy;
#if DNNL_VERSION_MAJOR >= 3
  decltype(&dnnl_memory_desc_create_with_strides) memory_desc_create_with_strides;
  decltype(&dnnl_memory_desc_destroy) memory_desc_destroy;
  decltype(&dnnl_matmul_primitive_desc_create) matmul_primitive_desc_create;
#else
  decltype(&dnnl_memory_desc_init_by_strides) memory_desc_init_by_strides;
  decltype(&dnnl_matmul_desc_init) matmul_desc_init;
  decltype(&dnnl_primitive_desc_create) primitive_desc_create;
#endif
  decltype(&dnnl_primitive_desc_query) primitive_desc_query;
  decltype(&dnnl_primitive_desc_destroy) primitive_desc_destroy;
  decltype(&dnnl_primitive_create) primitive_create;
  decltype(&dnnl_primitive_execute) primitive_execute;
  decltype(&dnnl_primitive_destroy) primitive_destroy;
  void (*set_threads)(int);  // of the calling thread; null: the library has no threads
  dnnl_engine_t engine;
};

void Check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) {
    throw InternalError("oneDNN: " + std::string(what) + ": status " + std::to_string(status));
  }
}

// False where the library lacks something.
bool Load(Library& x) {
  const std::string name = "libdnnl.so." + std::to_string(DNNL_VERSION_MAJOR);
  void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return false;
  bool complete = true;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    complete = complete && function != nullptr;
  };
  find(x.version, "dnnl_version");
  find(x.get_effective_cpu_isa, "dnnl_get_effective_cpu_isa");
  find(x.engine_create, "dnnl_engine_create");
  find(x.stream_create, "dnnl_stream_create");
  find(x.stream_wait, "dnnl_stream_wait");
  find(x.stream_destroy, "dnnl_stream_destroy");
  find(x.memory_create, "dnnl_memory_create");
  find(x.memory_set_data_handle, "dnnl_memory_set_data_handle");
  find(x.memory_destroy, "dnnl_memory_destroy");
#if DNNL_VERSION_MAJOR >= 3
  find(x.memory_desc_create_with_strides, "dnnl_memory_desc_create_with_strides");
  find(x.memory_desc_destroy, "dnnl_memory_desc_destroy");
  find(x.matmul_primitive_desc_create, "dnnl_matmul_primitive_desc_create");
#else
  find(x.memory_desc_init_by_strides, "dnnl_memory_desc_init_by_strides");
  find(x.matmul_desc_init, "dnnl_matmul_desc_init");
  find(x.primitive_desc_create, "dnnl_primitive_desc_create");
#endif
  find(x.primitive_desc_query, "dnnl_primitive_desc_query");
  find(x.primitive_desc_destroy, "dnnl_primitive_desc_destroy");
  find(x.primitive_create, "dnnl_primitive_create");
  find(x.primitive_execute, "dnnl_primitive_execute");
  find(x.primitive_destroy, "dnnl_primitive_destroy");
  if (!complete) return false;
  // A library on threads of another kind cannot be held to the calling one.
  x.set_threads = nullptr;
  const unsigned runtime = x.version()->cpu_runtime;
  if (runtime == DNNL_RUNTIME_OMP) {
    find(x.set_threads, "omp_set_num_threads");
  } else if (runtime != DNNL_RUNTIME_SEQ) {
    return false;
  }
  return complete && x.engine_create(&x.engine, dnnl_cpu, 0) == dnnl_success;
}

// Null where there is none.
const Library* LoadedLibrary() {
  static Library library;
  static const bool loaded = Load(library);
  return loaded ? &library : nullptr;
}

bool HasInstructions(dnnl_cpu_isa_t isa) {
  const Library* library = LoadedLibrary();
  return library != nullptr && (static_cast<int>(library->get_effective_cpu_isa()) & isa) == isa;
}

// Factors and sums of one call.
struct Types {
  dnnl_data_type_t a, b, c;
  bool operator==(const Types&) const = default;
};

// A product of one shape, which other data can be put to.
class Product {
 public:
  struct Key {
    std::array<int64_t, 8> geometry;  // m, n, k, strides of a, of b, c's row
    Types types;
    bool operator==(const Key&) const = default;
  };
  Product(const Library& library, const Key& key) : library_(library), key_(key) {
    const auto& [m, n, k, a_row, a_column, b_row, b_column, c_row] = key.geometry;
    Create(Describe(m, k, a_row, a_column, key.types.a),
           Describe(k, n, b_row, b_column, key.types.b), Describe(m, n, c_row, 1, key.types.c));
  }
  ~Product() {
    for (const dnnl_memory_t memory : memory_) library_.memory_destroy(memory);
    library_.primitive_destroy(primitive_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  const Key& key() const { return key_; }
  const std::string& implementation() const { return implementation_; }
  std::optional<bool> exact;  // Products::IsExact, once it has been asked
  void Run(dnnl_stream_t stream, const void* a, const void* b, void* c) {
    const std::array<void*, 3> data = {const_cast<void*>(a), const_cast<void*>(b), c};
    for (size_t i = 0; i < data.size(); ++i) {
      Check(library_.memory_set_data_handle(memory_[i], data[i]), "data of a product");
    }
    const std::array<dnnl_exec_arg_t, 3> arguments = {
        {{DNNL_ARG_SRC, memory_[0]}, {DNNL_ARG_WEIGHTS, memory_[1]}, {DNNL_ARG_DST, memory_[2]}}};
    Check(library_.primitive_execute(primitive_, stream, static_cast<int>(arguments.size()),
                                     arguments.data()),
          "product");
    Check(library_.stream_wait(stream), "product");
  }

 private:
  using Description = dnnl_memory_desc_t;  // a pointer from version 3 on

  // Dims of size 1 have the strides of a dense matrix: with others oneDNN takes slower ways.
  Description Describe(int64_t rows, int64_t columns, int64_t row, int64_t column,
                       dnnl_data_type_t type) const {
    const bool plain = columns == 1 || column == 1;
    if (plain && rows == 1) row = columns;
    if (columns == 1) column = 1;
    if (rows == 1 && !plain) row = 1;
    const dnnl_dims_t dims = {rows, columns}, strides = {row, column};
    Description description{};
#if DNNL_VERSION_MAJOR >= 3
    Check(library_.memory_desc_create_with_strides(&description, 2, dims, type, strides), "matrix");
#else
    Check(library_.memory_desc_init_by_strides(&description, 2, dims, type, strides), "matrix");
#endif
    return description;
  }

  void Create(Description a, Description b, Description c) {
    dnnl_primitive_desc_t description = nullptr;
#if DNNL_VERSION_MAJOR >= 3
    Check(library_.matmul_primitive_desc_create(&description, library_.engine, a, b, nullptr, c,
                                                nullptr),
          "plan of a product");
    const std::array<const_dnnl_memory_desc_t, 3> matrices = {a, b, c};
#else
    dnnl_matmul_desc_t matmul;
    Check(library_.matmul_desc_init(&matmul, &a, &b, nullptr, &c), "plan of a product");
    Check(library_.primitive_desc_create(&description, &matmul, nullptr, library_.engine, nullptr),
          "plan of a product");
    const std::array<const dnnl_memory_desc_t*, 3> matrices = {&a, &b, &c};
#endif
    const char* name = nullptr;
    Check(library_.primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name), "name");
    implementation_ = name;
    Check(library_.primitive_create(&primitive_, description), "code of a product");
    Check(library_.primitive_desc_destroy(description), "plan of a product");
    for (size_t i = 0; i < matrices.size(); ++i) {
      Check(library_.memory_create(&memory_[i], matrices[i], library_.engine, DNNL_MEMORY_NONE),
            "matrix");
    }
#if DNNL_VERSION_MAJOR >= 3
    for (const Description matrix : {a, b, c}) library_.memory_desc_destroy(matrix);
#endif
  }

  const Library& library_;
  Key key_;
  std::string implementation_;
  dnnl_primitive_t primitive_ = nullptr;
  std::array<dnnl_memory_t, 3> memory_{};  // of a, b, c
};

// The products that a thread has done lately.
class Products {
 public:
  Products() : library_(*LoadedLibrary()) {
    if (library_.set_threads != nullptr) library_.set_threads(1);
    Check(library_.stream_create(&stream_, library_.engine, dnnl_stream_default_flags), "stream");
  }
  ~Products() {
    for (auto& product : products_) product.reset();
    library_.stream_destroy(stream_);
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  Product& Of(const Product::Key& key) {
    auto found = std::find_if(products_.begin(), products_.end(), [&](const auto& product) {
      return product != nullptr && product->key() == key;
    });
    if (found == products_.end()) {
      found = products_.begin() + static_cast<std::ptrdiff_t>(next_++ % products_.size());
      *found = std::make_unique<Product>(library_, key);
    }
    return **found;
  }
  void Run(const Product::Key& key, const void* a, const void* b, void* c) {
    Of(key).Run(stream_, a, b, c);
  }
  // Does the way in which oneDNN takes this product of integers add them up as integers? Some ways
  // end as floats, which hold no more than 2^24: that shows in a product of larger sums.
  bool IsExact(const Product::Key& key);

 private:
  const Library& library_;
  dnnl_stream_t stream_ = nullptr;
  std::array<std::unique_ptr<Product>, 32> products_;
  size_t next_ = 0;  // to be replaced
};

Products& OfThread() {
  thread_local Products products;
  return products;
}

// Tried on a product of the same kind, of so large sums that floats are right by chance at most.
bool IsExactKind(const Library& library, dnnl_stream_t stream, const Product& of) {
  constexpr int64_t kRows = 32, kColumns = 32, kDepth = 4163;
  const bool a_plain = of.key().geometry[4] == 1, b_plain = of.key().geometry[6] == 1;
  std::vector<int8_t> a(kRows * kDepth), b(kDepth * kColumns);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int8_t>(120 + i * i % 7);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int8_t>(121 + i * i % 5);
  std::vector<int32_t> c(kRows * kColumns);
  Product test(library, {{kRows, kColumns, kDepth, a_plain ? kDepth : 1, a_plain ? 1 : kRows,
                          b_plain ? kColumns : 1, b_plain ? 1 : kDepth, kColumns},
                         of.key().types});
  if (test.implementation() != of.implementation()) return false;
  test.Run(stream, a.data(), b.data(), c.data());
  for (size_t i = 0; i < c.size(); ++i) {
    const size_t row = i / kColumns, column = i % kColumns;
    int32_t sum = 0;
    for (size_t p = 0; p < kDepth; ++p) {
      sum += a[a_plain ? row * kDepth + p : p * kRows + row] *
             b[b_plain ? p * kColumns + column : column * kDepth + p];
    }
    if (c[i] != sum) return false;
  }
  return true;
}

bool Products::IsExact(const Product::Key& key) {
  Product& product = Of(key);
  if (product.exact.has_value()) return *product.exact;
  // Asked before, by any thread.
  struct Known {
    std::string implementation;
    Types types;
    bool a_plain, b_plain, exact;
  };
  static std::mutex mutex;
  static std::vector<Known> all;
  const std::lock_guard lock(mutex);
  const bool a_plain = key.geometry[4] == 1, b_plain = key.geometry[6] == 1;
  auto known = std::find_if(all.begin(), all.end(), [&](const Known& x) {
    return x.implementation == product.implementation() && x.types == key.types &&
           x.a_plain == a_plain && x.b_plain == b_plain;
  });
  if (known == all.end()) {
    const bool exact = IsExactKind(library_, stream_, product);
    known = all.insert(all.end(), {product.implementation(), key.types, a_plain, b_plain, exact});
  }
  product.exact = known->exact;
  return known->exact;
}

// The elements as they are with 128 added, or taken away: in dense rows, or as they are adjacent.
std::unique_ptr<std::byte[]> ShiftBy128(int64_t rows, int64_t columns, const Int8View& x,
                                        bool by_rows) {
  auto shifted = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(rows * columns));
  const int64_t lines = by_rows ? rows : columns, length = by_rows ? columns : rows;
  const int64_t line = by_rows ? x.row : x.column, step = by_rows ? x.column : x.row;
  std::byte* to = shifted.get();
  for (int64_t i = 0; i < lines; ++i, to += length) {
    const std::byte* from = x.data + i * line;
    if (step == 1) {
      for (int64_t j = 0; j < length; ++j) to[j] = from[j] ^ std::byte{0x80};
    } else {
      for (int64_t j = 0; j < length; ++j) to[j] = from[j * step] ^ std::byte{0x80};
    }
  }
  return shifted;
}

template <typename T>
std::vector<uint32_t> RowSums(int64_t rows, int64_t columns, const Int8View& x) {
  const T* data = reinterpret_cast<const T*>(x.data);
  std::vector<uint32_t> sums(static_cast<size_t>(rows));
  if (x.column == 1) {
    for (int64_t i = 0; i < rows; ++i) {
      uint32_t sum = 0;
      for (int64_t j = 0; j < columns; ++j) sum += static_cast<uint32_t>(data[i * x.row + j]);
      sums[static_cast<size_t>(i)] = sum;
    }
    return sums;
  }
  for (int64_t j = 0; j < columns; ++j) {
    const T* column = data + j * x.column;
    for (int64_t i = 0; i < rows; ++i) {
      sums[static_cast<size_t>(i)] += static_cast<uint32_t>(column[i * x.row]);
    }
  }
  return sums;
}

// A product of 8-bit integers, the right-hand ones signed.
struct Int8Product {
  int64_t m, n, k;
  Int8View a, b;
  uint32_t* c;
  int64_t c_row;

  Product::Key key() const {
    return {{m, n, k, a.row, a.column, b.row, b.column, c_row},
            {a.is_signed ? dnnl_s8 : dnnl_u8, dnnl_s8, dnnl_s32}};
  }
  void Run() const { OfThread().Run(key(), a.data, b.data, c); }
};

// a * b = (a + 128) * b - 128 * b.
void RunUnsigned(Int8Product x) {
  const auto shifted = ShiftBy128(x.m, x.k, x.a, /*by_rows=*/true);
  x.a = {shifted.get(), x.k, 1, false};
  x.Run();
  const std::vector<uint32_t> sums =
      RowSums<int8_t>(x.n, x.k, Int8View{x.b.data, x.b.column, x.b.row, true});
  for (int64_t i = 0; i < x.m; ++i) {
    uint32_t* row = x.c + i * x.c_row;
    for (int64_t j = 0; j < x.n; ++j) row[j] -= 128 * sums[static_cast<size_t>(j)];
  }
}

constexpr int64_t kExactDepth = 512;  // of which no sum is above 2^24: 512 * 255 * 128

void RunByChunks(const Int8Product& x) {
  std::vector<uint32_t> sums(static_cast<size_t>(x.m * x.n));
  for (int64_t p = 0; p < x.k; p += kExactDepth) {
    Int8Product chunk = x;
    chunk.k = std::min(kExactDepth, x.k - p);
    chunk.a.data += p * x.a.column;
    chunk.b.data += p * x.b.row;
    if (p > 0) {
      chunk.c = sums.data();
      chunk.c_row = x.n;
    }
    chunk.Run();
    for (int64_t i = 0; p > 0 && i < x.m; ++i) {
      for (int64_t j = 0; j < x.n; ++j)
        x.c[i * x.c_row + j] += sums[static_cast<size_t>(i * x.n + j)];
    }
  }
}

// Exactly, modulo 2^32.
void RunSigned(const Int8Product& x) {
  Products& products = OfThread();
  if (x.k <= kExactDepth || products.IsExact(x.key())) return x.Run();
  Int8Product shifted = x;
  shifted.a = {nullptr, x.k, 1, false};
  if (x.a.is_signed && products.IsExact(shifted.key())) return RunUnsigned(x);
  RunByChunks(x);
}

}  // namespace

bool HasInt8Products() {
  static const bool has = (hwy::SupportedTargets() & HWY_AVX3) != 0 &&
                          __builtin_cpu_supports("avx512vnni") &&
                          HasInstructions(dnnl_cpu_isa_avx512_core_vnni);
  return has;
}

bool HasBf16Products() {
  static const bool has = (hwy::SupportedTargets() & HWY_AVX3) != 0 &&
                          __builtin_cpu_supports("avx512bf16") &&
                          HasInstructions(dnnl_cpu_isa_avx512_core_bf16);
  return has;
}

void OneDnnGemm(int64_t m, int64_t n, int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b, float* c,
                int64_t c_row) {
  // Of more columns at once it multiplies at two thirds of the rate (2.6.3 with AMX).
  constexpr int64_t kColumns = 2048;
  for (int64_t j = 0; j < n; j += kColumns) {
    OfThread().Run({{m, std::min(kColumns, n - j), k, a.row, a.column, b.row, b.column, c_row},
                    {dnnl_bf16, dnnl_bf16, dnnl_f32}},
                   a.data, b.data + j * b.column, c + j);
  }
}

void OneDnnGemm(int64_t m, int64_t n, int64_t k, Int8View a, Int8View b, uint32_t* c,
                int64_t c_row) {
  if (b.is_signed) return RunSigned({m, n, k, a, b, c, c_row});
  // oneDNN wants signed factors on the right: a * b = a * (b - 128) + a * 128.
  const bool by_rows = n == 1 || b.column == 1;
  const auto shifted = ShiftBy128(k, n, b, by_rows);
  const Int8View right{shifted.get(), by_rows ? n : 1, by_rows ? 1 : k, true};
  RunSigned({m, n, k, a, right, c, c_row});
  const std::vector<uint32_t> sums =
      a.is_signed ? RowSums<int8_t>(m, k, a) : RowSums<uint8_t>(m, k, a);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) c[i * c_row + j] += 128 * sums[static_cast<size_t>(i)];
  }
}

#else

bool HasBf16Products() { return false; }
bool HasInt8Products() { return false; }
void OneDnnGemm(int64_t, int64_t, int64_t, MatrixView<Bf16>, MatrixView<Bf16>, float*, int64_t) {
  throw InternalError("product of bf16 without oneDNN");
}
void OneDnnGemm(int64_t, int64_t, int64_t, Int8View, Int8View, uint32_t*, int64_t) {
  throw InternalError("product of 8-bit integers without oneDNN");
}

#endif

}  // namespace gshard::cpu
