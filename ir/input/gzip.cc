#include "ir/input/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <string>

namespace gshard {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 30;
// Above kFreeBytes a byte of the file may stand for kMaxRatio bytes at most: text packs 10 to 50
// to 1, what is made to fill memory 1000 to 1.
constexpr size_t kFreeBytes = size_t{64} << 20;
constexpr size_t kMaxRatio = 300;
constexpr int kWindowOfGzip = 15 + 16;

class Inflater {
 public:
  Inflater() { ok_ = inflateInit2(&stream_, kWindowOfGzip) == Z_OK; }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ok_) inflateEnd(&stream_);
  }
  bool ok() const { return ok_; }
  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
  bool ok_ = false;
};

}  // namespace

Expected<std::shared_ptr<const SourceText>> Gunzip(const SourceText& packed) {
  const std::string_view bytes = packed.text();
  Inflater inflater;
  z_stream& stream = inflater.stream();
  size_t taken = 0;
  const auto fail = [&](const char* code, const std::string& message, std::string hint = {}) {
    Diagnostic error =
        MakeError(code, fmt::format("{} (byte {})", message, taken), std::move(hint));
    error.file = packed.name();
    return Fail(std::move(error));
  };
  CheckInternal(inflater.ok(), "zlib could not be initialised");
  std::string out;
  size_t size = 0;
  while (true) {
    if (size == out.size()) out.resize(std::max<size_t>(size * 2, size_t{1} << 16));
    // zlib counts in 32 bits.
    const size_t next = std::min<size_t>(bytes.size() - taken, size_t{1} << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream.avail_in = static_cast<uInt>(next);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + size);
    stream.avail_out = static_cast<uInt>(std::min<size_t>(out.size() - size, size_t{1} << 30));
    const uInt room = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    taken += next - stream.avail_in;
    size += room - stream.avail_out;
    if (size > kMaxBytes || (size > kFreeBytes && size / kMaxRatio > taken)) {
      return fail("E-INPUT-002", fmt::format("unpacks to more than {} MiB", size >> 20),
                  "unpack it with gunzip, and give what comes out");
    }
    if (status == Z_STREAM_END) {
      // Another member may follow; zeros pad, and anything else is dropped, as by gzip.
      if (!IsGzip(bytes.substr(taken))) break;
      inflateReset(&stream);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return fail("E-INPUT-001", "the gzip stream is damaged");
    } else if (taken == bytes.size() && stream.avail_out > 0) {
      return fail("E-INPUT-001", "the gzip stream is cut short");
    }
  }
  out.resize(size);
  return SourceText::FromString(packed.name(), std::move(out));
}

}  // namespace gshard
