// Loops of tile functions, compiled once per Highway target: include inside the target's namespace.
// An operation is a struct with static Do(..) on single elements.

template <typename Op, typename In, typename Out>
void UnaryLoop(const Tile& tile) {
  const In* a = static_cast<const In*>(tile.in[0]);
  Out* out = static_cast<Out*>(tile.out);
  const int64_t n = tile.count;
  GSHARD_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) out[i] = Op::Do(a[i]);
}

template <typename Op, typename In, typename Out>
void BinaryLoop(const Tile& tile) {
  const In* a = static_cast<const In*>(tile.in[0]);
  const In* b = static_cast<const In*>(tile.in[1]);
  Out* out = static_cast<Out*>(tile.out);
  const int64_t n = tile.count;
  GSHARD_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) out[i] = Op::Do(a[i], b[i]);
}

template <typename Op, typename T>
void TernaryLoop(const Tile& tile) {
  const T* a = static_cast<const T*>(tile.in[0]);
  const T* b = static_cast<const T*>(tile.in[1]);
  const T* c = static_cast<const T*>(tile.in[2]);
  T* out = static_cast<T*>(tile.out);
  const int64_t n = tile.count;
  GSHARD_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) out[i] = Op::Do(a[i], b[i], c[i]);
}

// With the tile's parameter as last argument.
template <typename Op, typename In, typename Out>
void UnaryParameterLoop(const Tile& tile) {
  const In* a = static_cast<const In*>(tile.in[0]);
  Out* out = static_cast<Out*>(tile.out);
  const int64_t n = tile.count;
  const int parameter = static_cast<int>(tile.parameter);
  GSHARD_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) out[i] = Op::Do(a[i], parameter);
}

template <typename Op, typename In, typename Out>
void BinaryParameterLoop(const Tile& tile) {
  const In* a = static_cast<const In*>(tile.in[0]);
  const In* b = static_cast<const In*>(tile.in[1]);
  Out* out = static_cast<Out*>(tile.out);
  const int64_t n = tile.count;
  const int parameter = static_cast<int>(tile.parameter);
  GSHARD_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) out[i] = Op::Do(a[i], b[i], parameter);
}
