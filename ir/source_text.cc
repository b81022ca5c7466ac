#include "ir/source_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ir/utf8.h"

namespace gshard {
namespace {

constexpr size_t kMaxBytes = (size_t{1} << 32) - 1;  // SourceRange has 32-bit offsets
constexpr size_t kMaxLineShown = 160;
constexpr size_t kContextBeforeCaret = 60;

class FileDescriptor {
 public:
  FileDescriptor(int fd, bool owned) : fd_(fd), owned_(owned) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (owned_ && fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
  bool owned_;
};

// Same number of bytes as `raw`, so that offsets stay valid.
std::string Printable(std::string_view raw) {
  std::string line(raw);
  for (size_t i = 0; i < line.size();) {
    const size_t length = Utf8Length(raw, i);
    const auto c = static_cast<unsigned char>(raw[i]);
    if (c == '\t') {
      line[i] = ' ';
    } else if (length == 0 || c < 0x20 || c == 0x7F ||
               (c == 0xC2 && length == 2 && static_cast<unsigned char>(raw[i + 1]) < 0xA0)) {
      for (size_t k = 0; k < std::max<size_t>(length, 1); ++k) line[i + k] = '?';
    }
    i += std::max<size_t>(length, 1);
  }
  return line;
}

}  // namespace

Expected<std::shared_ptr<const SourceText>> SourceText::Open(const std::string& path) {
  const bool standard_input = path == "-";
  const std::string name = standard_input ? "<stdin>" : path;
  const auto fail = [&](const char* code, const std::string& message) {
    Diagnostic diagnostic = MakeError(code, message);
    diagnostic.file = name;
    return Fail(std::move(diagnostic));
  };
  FileDescriptor file(standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC),
                      !standard_input);
  if (file.get() < 0) return fail("E-IO-001", fmt::format("cannot open: {}", std::strerror(errno)));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) {
    return fail("E-IO-001", fmt::format("cannot open: {}", std::strerror(errno)));
  }
  if (S_ISDIR(info.st_mode)) return fail("E-IO-001", "cannot open: is a directory");
  const bool sized = S_ISREG(info.st_mode);
  if (sized && static_cast<size_t>(info.st_size) > kMaxBytes) {
    return fail("E-IO-003", "is larger than 4 GiB");
  }

  // One byte more than the file has, so that its end is seen without growing the buffer.
  size_t capacity = sized ? static_cast<size_t>(info.st_size) + 1 : size_t{1} << 16;
  std::unique_ptr<char[]> buffer(new char[capacity]);
  size_t size = 0;
  while (true) {
    const ssize_t got = read(file.get(), buffer.get() + size, capacity - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("E-IO-002", fmt::format("cannot read: {}", std::strerror(errno)));
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size > kMaxBytes) return fail("E-IO-003", "is larger than 4 GiB");
    if (size == capacity) {
      capacity *= 2;
      std::unique_ptr<char[]> larger(new char[capacity]);
      std::memcpy(larger.get(), buffer.get(), size);
      buffer = std::move(larger);
    }
  }
  std::shared_ptr<SourceText> source(new SourceText());
  source->name_ = name;
  source->buffer_ = std::move(buffer);
  source->text_ = {source->buffer_.get(), size};
  return source;
}

std::shared_ptr<const SourceText> SourceText::FromString(std::string name, std::string text) {
  std::shared_ptr<SourceText> source(new SourceText());
  source->name_ = std::move(name);
  source->owned_ = std::move(text);
  source->text_ = source->owned_;
  return source;
}

Diagnostic SourceText::Locate(SourceRange range, Severity severity, std::string code,
                              std::string message) const {
  Diagnostic diagnostic;
  diagnostic.severity = severity;
  diagnostic.code = std::move(code);
  diagnostic.message = std::move(message);
  diagnostic.file = name_;

  const size_t at = std::min<size_t>(range.begin, text_.size());
  const std::string_view before = text_.substr(0, at);
  const size_t newline = before.rfind('\n');
  const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
  const size_t line_end = std::min(text_.find('\n', at), text_.size());
  diagnostic.line = 1 + static_cast<uint32_t>(std::ranges::count(before, '\n'));
  diagnostic.column = static_cast<uint32_t>(at - line_begin) + 1;

  // A window on the line around the caret, cut between characters.
  const auto continues = [&](size_t i) {
    return i < line_end && (static_cast<unsigned char>(text_[i]) & 0xC0) == 0x80;
  };
  size_t from = line_begin;
  if (at - line_begin > kMaxLineShown / 2) from = at - kContextBeforeCaret;
  while (from < at && continues(from)) ++from;
  size_t to = std::min(line_end, from + kMaxLineShown);
  while (to > at && continues(to)) --to;
  if (to > from && text_[to - 1] == '\r') --to;
  diagnostic.source_line = Printable(text_.substr(from, to - std::min(from, to)));
  if (diagnostic.source_line.empty()) diagnostic.source_line.assign(1, ' ');
  diagnostic.caret_offset = static_cast<uint32_t>(at - from);
  const size_t marked_end =
      std::min<size_t>(std::max<size_t>(range.end, at + 1), std::max(to, at + 1));
  diagnostic.caret_length = static_cast<uint32_t>(marked_end - at);
  return diagnostic;
}

}  // namespace gshard
