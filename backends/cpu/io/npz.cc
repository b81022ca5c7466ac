// .npz through libzip.
#include "backends/cpu/io/npz.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>

#include "backends/cpu/io/zip_layout.h"
#include "ir/output_file.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

tl::unexpected<Diagnostic> ZipError(const std::string& path, const std::string& message) {
  return Fail(MakeError("E-NPZ-FILE", fmt::format("{}: {}", path, message)));
}

std::string Describe(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

// Reads on until there are `size` bytes.
Expected<void> ReadUpTo(zip_file_t& file, size_t size, const std::string& member,
                        std::vector<std::byte>& bytes) {
  constexpr size_t kStep = size_t{64} << 20;  // sizes are not trusted for one big allocation
  while (bytes.size() < size) {
    const size_t begin = bytes.size(), step = std::min(kStep, size - begin);
    bytes.resize(begin + step);
    const zip_int64_t got = zip_fread(&file, bytes.data() + begin, step);
    if (got < 0) {
      return Fail(MakeError("E-NPZ-FILE",
                            fmt::format("{} is damaged: {}", member, zip_file_strerror(&file))));
    }
    if (got == 0) return Fail(MakeError("E-NPZ-FILE", fmt::format("{} is cut off", member)));
    bytes.resize(begin + static_cast<size_t>(got));
  }
  return {};
}

// A file without a name in the folder where the archive will be: there is room for it, if anywhere.
int OpenScratch(const std::filesystem::path& folder) {
  const std::string in = folder.empty() ? "." : folder.string();
  int fd = open(in.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string path = in + "/.gshard-XXXXXX";
  fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd >= 0) unlink(path.c_str());
  return fd;
}

}  // namespace

struct NpzReader::Archive {
  std::unique_ptr<zip_t, CloseArchive> zip;
  std::shared_ptr<const ReadFile> file;  // from when it is asked for first
};

// One member while it is read.
struct NpzReader::Member {
  std::string name;  // with the file's, for errors
  size_t index = 0;
  std::unique_ptr<zip_file_t, CloseFile> file;
  std::vector<std::byte> bytes;  // read so far
  NpyHeader header;
  size_t declared() const { return header.data_begin + header.data_bytes; }
};

NpzReader::~NpzReader() = default;

Expected<std::unique_ptr<NpzReader>> NpzReader::Open(const std::string& path) {
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (zip == nullptr && code == ZIP_ER_NOZIP) {
    return Fail(MakeError("E-NPZ-FILE", fmt::format("{}: not a .npz file, or cut off", path),
                          "numpy.savez(file, p0=.., p1=..) writes one"));
  }
  if (zip == nullptr) return ZipError(path, Describe(code));
  std::unique_ptr<NpzReader> reader(new NpzReader());
  reader->path_ = path;
  reader->archive_ = std::make_unique<Archive>();
  reader->archive_->zip.reset(zip);
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); ++i) {
    const char* name = zip_get_name(zip, static_cast<zip_uint64_t>(i), 0);
    std::string text = name == nullptr ? "" : name;
    if (text.ends_with(".npy")) text.resize(text.size() - 4);
    if (reader->Has(text)) return ZipError(path, fmt::format("{} is in it twice", text));
    reader->names_.push_back(std::move(text));
  }
  return reader;
}

bool NpzReader::Has(const std::string& name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

Expected<NpzReader::Member> NpzReader::Begin(const std::string& name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at == names_.end()) return ZipError(path_, fmt::format("no array {}", name));
  Member member;
  member.name = fmt::format("{}: {}", path_, name);
  member.index = static_cast<size_t>(at - names_.begin());
  zip_stat_t stat;
  zip_t* zip = archive_->zip.get();
  if (zip_stat_index(zip, member.index, 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0) {
    return ZipError(path_, fmt::format("{} cannot be read", name));
  }
  member.file.reset(zip_fopen_index(zip, member.index, 0));
  if (member.file == nullptr) return ZipError(path_, fmt::format("{} cannot be opened", name));
  // The header first: a member is never unpacked beyond the array that it declares.
  GSHARD_TRY(ReadUpTo(*member.file, std::min<size_t>(stat.size, kNpyPrefixBytes), member.name,
                      member.bytes));
  auto header_bytes = GSHARD_TRY(NpyHeaderBytes(member.bytes, member.name));
  GSHARD_TRY(
      ReadUpTo(*member.file, std::min<size_t>(stat.size, header_bytes), member.name, member.bytes));
  auto header = GSHARD_TRY(ParseNpyHeader(member.bytes, member.name));
  member.header = std::move(header);
  if (stat.size != member.declared()) {
    return ZipError(path_, fmt::format("{} has {} bytes, its header declares {}", name, stat.size,
                                       member.declared()));
  }
  return member;
}

Expected<void> NpzReader::CheckEnd(const Member& member) {
  // The checksum is looked at where the member ends.
  std::byte beyond{};
  const zip_int64_t got = zip_fread(member.file.get(), &beyond, 1);
  if (got == 0) return {};
  return Fail(MakeError("E-NPZ-FILE", fmt::format("{} is damaged: {}", member.name,
                                                  got > 0 ? "it goes on beyond its size"
                                                          : zip_file_strerror(member.file.get()))));
}

Expected<NpyHeader> NpzReader::Header(const std::string& name) const {
  auto member = GSHARD_TRY(Begin(name));
  return std::move(member.header);
}

Expected<NpyArray> NpzReader::Read(const std::string& name) const {
  auto member = GSHARD_TRY(Begin(name));
  GSHARD_TRY(ReadUpTo(*member.file, member.declared(), member.name, member.bytes));
  GSHARD_TRY(CheckEnd(member));
  return ParseNpy(member.bytes, member.name);
}

Expected<StoredArray> NpzReader::Stored(const std::string& name) const {
  auto member = GSHARD_TRY(Begin(name));
  if (archive_->file == nullptr) archive_->file = ReadFile::Open(path_);
  const std::shared_ptr<const ReadFile> file = archive_->file;
  if (file == nullptr) return StoredArray();
  const ReadBytes read = [&](size_t begin, std::span<std::byte> out) {
    return file->Read(begin, out);
  };
  const std::optional<MemberPlace> place = PlaceOfStoredMember(file->size(), read, member.index);
  if (!place || place->bytes != member.declared()) return StoredArray();
  // What libzip reads, checksum and all, is what lies there.
  std::vector<std::byte>& step = member.bytes;
  std::vector<std::byte> stored;
  for (size_t at = 0; at < place->bytes;) {
    stored.resize(step.size());
    if (!file->Read(place->begin + at, stored) || stored != step) return StoredArray();
    at += step.size();
    step.clear();
    constexpr size_t kStep = size_t{1} << 20;
    GSHARD_TRY(ReadUpTo(*member.file, std::min(kStep, place->bytes - at), member.name, step));
  }
  GSHARD_TRY(CheckEnd(member));
  return StoredArray{file, place->begin + member.header.data_begin, member.name};
}

struct NpzWriter::Archive {
  std::unique_ptr<zip_t, CloseArchive> zip;
  std::deque<std::vector<std::byte>> members;  // libzip reads them when the archive is closed
  std::span<std::byte> mapped;                 // of the file that was added last

  ~Archive() { Unmap(); }
  void Unmap() {
    if (!mapped.empty()) munmap(mapped.data(), mapped.size());
    mapped = {};
  }
};

NpzWriter::NpzWriter(std::string path, const std::atomic<bool>* stop)
    : path_(std::move(path)), stop_(stop), archive_(std::make_unique<Archive>()) {}
NpzWriter::~NpzWriter() = default;

// libzip writes beside the file and renames.
Expected<void> NpzWriter::OpenArchive() {
  if (archive_->zip != nullptr) return {};
  const std::string target = OutputTarget(path_);
  std::error_code error;
  if (std::filesystem::exists(target, error) && !std::filesystem::is_regular_file(target, error)) {
    return ZipError(path_, "is no regular file");
  }
  int code = 0;
  archive_->zip.reset(zip_open(target.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (archive_->zip == nullptr) return ZipError(path_, Describe(code));
  return {};
}

Expected<void> NpzWriter::Add(const std::string& name, std::vector<std::byte> file) {
  GSHARD_TRY(OpenArchive());
  archive_->Unmap();
  archive_->members.push_back(std::move(file));
  const std::vector<std::byte>& data = archive_->members.back();
  return AddSource(name, zip_source_buffer(archive_->zip.get(), data.data(), data.size(), 0));
}

Expected<std::span<std::byte>> NpzWriter::AddOnDisk(const std::string& name, size_t bytes) {
  GSHARD_TRY(OpenArchive());
  archive_->Unmap();
  const int fd = OpenScratch(std::filesystem::path(OutputTarget(path_)).parent_path());
  if (fd < 0) return ZipError(path_, std::strerror(errno));
  const int full = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  void* mapped =
      full != 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::FILE* file = mapped == MAP_FAILED ? nullptr : fdopen(fd, "rb");
  if (file == nullptr) {
    const int error = full != 0 ? full : errno;
    if (mapped != MAP_FAILED) munmap(mapped, bytes);
    close(fd);
    return ZipError(path_, std::strerror(error));
  }
  archive_->mapped = {static_cast<std::byte*>(mapped), bytes};
  fchmod(fd, 0666);  // libzip notes it in the archive: as of members from memory
  const auto length = static_cast<zip_int64_t>(bytes);
  GSHARD_TRY(AddSource(name, zip_source_filep(archive_->zip.get(), file, 0, length)));
  return archive_->mapped;
}

Expected<void> NpzWriter::AddSource(const std::string& name, zip_source_t* source) {
  zip_t* zip = archive_->zip.get();
  const std::string member = name + ".npy";
  const zip_int64_t index =
      source == nullptr ? -1 : zip_file_add(zip, member.c_str(), source, ZIP_FL_OVERWRITE);
  if (index < 0) {
    zip_source_free(source);
    return ZipError(path_, zip_strerror(zip));
  }
  zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  // A fixed time: the same run writes the same bytes.
  zip_file_set_dostime(zip, static_cast<zip_uint64_t>(index), 0, (1 << 5) | 1, 0);
  return {};
}

Expected<void> NpzWriter::Finish() {
  GSHARD_TRY(OpenArchive());
  archive_->Unmap();
  zip_t* zip = archive_->zip.release();
  if (stop_ != nullptr) {
    const auto stopped = [](zip_t*, void* stop) {
      return static_cast<const std::atomic<bool>*>(stop)->load() ? 1 : 0;
    };
    zip_register_cancel_callback_with_state(zip, stopped, nullptr,
                                            const_cast<std::atomic<bool>*>(stop_));
  }
  if (zip_close(zip) != 0) {
    const bool stopped = zip_error_code_zip(zip_get_error(zip)) == ZIP_ER_CANCELLED;
    const std::string message = zip_strerror(zip);
    zip_discard(zip);
    if (stopped) return Fail(MakeError("E-RUN-STOPPED", "interrupted"));
    return ZipError(path_, message);
  }
  return {};
}

}  // namespace gshard::cpu
