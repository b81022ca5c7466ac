#include "backends/cpu/io/npz.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace gshard::cpu {
namespace {

namespace fs = std::filesystem;

// A folder of its own that goes with the test.
struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "npz_test.XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::vector<std::byte> Numbers() {
  const float values[] = {1, 2, 3, 4};
  const int64_t dims[] = {4};
  return FormatNpy(DType::kF32, dims, std::as_bytes(std::span(values)));
}

std::string WriteArchive(const fs::path& path, std::vector<std::byte> member) {
  NpzWriter writer(path.string());
  REQUIRE(writer.Add("p0", std::move(member)));
  REQUIRE(writer.Finish());
  return path.string();
}

std::string ErrorOfReading(const std::string& path) {
  auto reader = NpzReader::Open(path);
  if (!reader) return reader.error().message;
  auto array = (*reader)->Read("p0");
  return array ? "" : array.error().message;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteAll(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<int64_t>(text.size()));
}

TEST_CASE("a member that is filled on the disk is as one from memory", "[io][npz]") {
  Folder folder;
  const std::string expected = ReadAll(WriteArchive(folder.path / "a.npz", Numbers()));
  const std::string path = (folder.path / "b.npz").string();
  NpzWriter writer(path);
  const std::vector<std::byte> file = Numbers();
  auto room = writer.AddOnDisk("p0", file.size());
  REQUIRE(room);
  std::ranges::copy(file, room->begin());
  REQUIRE(writer.Finish());
  CHECK(ReadAll(path) == expected);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path)) ++files;
  CHECK(files == 2);
}

TEST_CASE("an archive that is stopped is no fault of the file, and leaves none", "[io][npz]") {
  Folder folder;
  const std::atomic<bool> stop = true;
  NpzWriter writer((folder.path / "a.npz").string(), &stop);
  REQUIRE(writer.Add("p0", Numbers()));
  const Expected<void> done = writer.Finish();
  REQUIRE_FALSE(done);
  CHECK(done.error().code == "E-RUN-STOPPED");
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("members come back as they were written", "[io][npz]") {
  Folder folder;
  const std::string path = WriteArchive(folder.path / "a.npz", Numbers());
  auto reader = NpzReader::Open(path);
  REQUIRE(reader);
  auto array = (*reader)->Read("p0");
  REQUIRE(array);
  CHECK(array->dims == std::vector<int64_t>{4});
  CHECK(array->data.size() == 16);
}

TEST_CASE("members that are stored are read where they lie", "[io][npz]") {
  Folder folder;
  const std::string path = (folder.path / "a.npz").string();
  std::vector<float> many(1 << 20);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i);
  const int64_t dims[] = {1 << 20};
  NpzWriter writer(path);
  REQUIRE(writer.Add("p0", Numbers()));
  REQUIRE(writer.Add("p1", FormatNpy(DType::kF32, dims, std::as_bytes(std::span(many)))));
  REQUIRE(writer.Finish());
  auto reader = NpzReader::Open(path);
  REQUIRE(reader);
  auto data = (*reader)->Stored("p1");
  REQUIRE(data);
  REQUIRE(data->file != nullptr);
  reader->reset();  // the file stays open
  std::vector<float> read(many.size());
  REQUIRE(data->file->Read(data->begin, std::as_writable_bytes(std::span(read))));
  CHECK(read == many);
  CHECK_FALSE(data->file->Read(data->file->size() - 1, std::as_writable_bytes(std::span(read))));
}

TEST_CASE("runs of a file are what lies there, near or far", "[io]") {
  Folder folder;
  const std::string path = (folder.path / "a").string();
  std::string text(300000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 2654435761U >> 13);
  WriteAll(path, text);
  const auto file = ReadFile::Open(path);
  REQUIRE(file != nullptr);
  for (const size_t stride : {7U, 100U, 4000U, 70000U}) {
    for (const size_t length : {1U, 7U, 600U}) {
      RunReader reader(*file);
      for (size_t begin = 0; begin + length <= text.size(); begin += stride) {
        std::string run(length, ' ');
        REQUIRE(reader.Read(begin, std::as_writable_bytes(std::span(run))));
        REQUIRE(run == text.substr(begin, length));
      }
      std::string beyond(length, ' ');
      CHECK_FALSE(reader.Read(text.size() - length + 1, std::as_writable_bytes(std::span(beyond))));
    }
  }
  CHECK(ReadFile::Open(folder.path.string()) == nullptr);
}

TEST_CASE("a damaged value is found by its checksum, wherever it is read", "[io][npz]") {
  Folder folder;
  const std::string path = WriteArchive(folder.path / "a.npz", Numbers());
  std::string text = ReadAll(path);
  const size_t value = text.find(std::string("\0\0\x80\x40", 4));  // 4.0f
  REQUIRE(value != std::string::npos);
  text[value + 2] = '\x81';
  WriteAll(path, text);
  auto reader = NpzReader::Open(path);
  REQUIRE(reader);
  auto data = (*reader)->Stored("p0");
  REQUIRE_FALSE(data);
  CHECK(data.error().message.find("p0 is damaged") != std::string::npos);
  CHECK(ErrorOfReading(path).find("p0 is damaged") != std::string::npos);
}

TEST_CASE("a member is as long as its header declares", "[io][npz]") {
  Folder folder;
  std::vector<std::byte> longer = Numbers();
  longer.resize(longer.size() + 8);
  CHECK(
      ErrorOfReading(WriteArchive(folder.path / "long.npz", longer)).find("its header declares") !=
      std::string::npos);
  std::vector<std::byte> shorter = Numbers();
  shorter.resize(shorter.size() - 4);
  CHECK(ErrorOfReading(WriteArchive(folder.path / "short.npz", shorter))
            .find("its header declares") != std::string::npos);
}

TEST_CASE("versions of the format that nobody defined are refused", "[io][npy]") {
  std::vector<std::byte> file = Numbers();
  file[6] = std::byte{9};
  auto array = ParseNpy(file, "x");
  REQUIRE_FALSE(array);
  CHECK(array.error().message == "x: version 9 of the format is not known");
}

TEST_CASE("nothing follows the data", "[io][npy]") {
  std::vector<std::byte> file = Numbers();
  file.resize(file.size() + 3);
  auto array = ParseNpy(file, "x");
  REQUIRE_FALSE(array);
  CHECK(array.error().message == "x: 3 bytes follow the data");
}

}  // namespace
}  // namespace gshard::cpu
