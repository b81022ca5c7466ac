// A main for fuzz targets where there is no libFuzzer: replays kept inputs, or mutates them.
//
//   gshard_pipeline_fuzz FILE|FOLDER ..                    replay; cases are split at "// -----"
//   gshard_pipeline_fuzz --mutate N [--bytes] [--seed S] [--from I] [--jobs J] [--most-bytes B]
//       [--faults DIR] FILE|FOLDER ..
//
// Mutates words, numbers and lines of the inputs (of up to B bytes) N times, with --bytes also
// bytes. A fault does not end it: it tells the first of each kind, and keeps its input in DIR
// (default: faults). Ends with "N passed, N failed". gshard_parse_fuzz, gshard_stablehlo_fuzz and
// gshard_proto_fuzz are alike.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/program_mutator.h"
#include "tests/property/check_apart.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using gshard::property::Verdict;

struct Options {
  uint64_t mutations = 0, seed = 1, from = 0;
  size_t most_bytes = SIZE_MAX;
  int jobs = 1;
  bool bytes = false;
  std::filesystem::path faults = "faults";
  std::vector<std::string> cases;
};

void AddCases(const std::filesystem::path& path, std::vector<std::string>& cases) {
  if (std::filesystem::is_directory(path)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      const auto extension = entry.path().extension();
      if (extension == ".hlo" || extension == ".mlir" || extension == ".pb") {
        files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) AddCases(file, cases);
    return;
  }
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  const std::string all = text.str(), separator = "// -----\n";
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(separator, begin), all.size());
    cases.push_back(all.substr(begin, end - begin));
    begin = end + separator.size();
  }
}

Options ReadOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--mutate") {
      options.mutations = std::strtoull(value, nullptr, 10);
    } else if (flag == "--seed") {
      options.seed = std::strtoull(value, nullptr, 10);
    } else if (flag == "--from") {
      options.from = std::strtoull(value, nullptr, 10);
    } else if (flag == "--jobs") {
      options.jobs = std::atoi(value);
    } else if (flag == "--most-bytes") {
      options.most_bytes = std::strtoull(value, nullptr, 10);
    } else if (flag == "--bytes") {
      options.bytes = true;
      continue;
    } else if (flag == "--faults") {
      options.faults = value;
    } else {
      AddCases(argv[i], options.cases);
      continue;
    }
    ++i;
  }
  std::erase_if(options.cases,
                [&](const std::string& text) { return text.size() > options.most_bytes; });
  return options;
}

// What the process of a case says goes here, from its beginning at each case.
class Log {
 public:
  Log() : file_(memfd_create("log", 0)) { dup2(file_, STDERR_FILENO); }
  void Restart() const {
    if (lseek(file_, 0, SEEK_CUR) == 0) return;
    if (ftruncate(file_, 0) == 0) lseek(file_, 0, SEEK_SET);
  }
  std::string Text() const {
    std::string text(4096, '\0');
    const ssize_t count = pread(file_, text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return text;
  }

 private:
  int file_;
};

// The same for the same cause: the first words of the fault without what is particular to a text.
std::string FaultKind(const std::string& failure, const std::string& log) {
  const size_t end = log.find('\n', std::min(log.find('\n'), log.size() - 1) + 1);
  std::string kind = failure + ": ";
  for (const char c : log.substr(0, std::min(end, size_t{400}))) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit || kind.back() != '#') kind += is_digit ? '#' : c;
  }
  return kind;
}

Verdict Try(const std::string& text) {
  const bool whole_way =
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size()) != 0;
  return {whole_way ? Verdict::Kind::kPassed : Verdict::Kind::kSkipped};
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = ReadOptions(argc, argv);
  if (options.cases.empty()) {
    std::fprintf(stderr, "no inputs\n");
    return 2;
  }
  const auto input = [&](uint64_t number) {
    if (options.mutations == 0) return options.cases[number];
    return options.bytes ? gshard::fuzz::MutatedBytes(options.cases, options.seed, number)
                         : gshard::fuzz::MutatedProgram(options.cases, options.seed, number);
  };
  const uint64_t inputs = options.mutations == 0 ? options.cases.size() : options.mutations;
  uint64_t next = options.from, whole_way = 0, passed = 0, failed = 0;
  std::map<std::string, uint64_t> kinds;
  const Log log;
  gshard::property::ApartOptions apart;
  apart.jobs = options.jobs;
  apart.batch = options.bytes ? 16384 : 256;  // readers take microseconds
  apart.seconds = 60;
  gshard::property::CheckApart(
      apart, [&] { return next < inputs ? std::optional(next++) : std::nullopt; },
      [&](uint64_t number) {
        log.Restart();
        return Try(input(number));
      },
      [&](uint64_t number, const Verdict& verdict) {
        whole_way += verdict.kind == Verdict::Kind::kPassed;
        if (verdict.kind != Verdict::Kind::kFailed) return ++passed, true;
        ++failed;
        const std::string said = log.Text();
        if (++kinds[FaultKind(verdict.failure, said)] > 1) return true;
        std::filesystem::create_directories(options.faults);
        const auto kept = options.faults / fmt::format("{}_{}.hlo", options.seed, number);
        std::ofstream(kept, std::ios::binary) << input(number);
        fmt::print("{}: {}\n{}\n", kept.string(), verdict.failure, said);
        std::fflush(stdout);
        return true;
      });
  for (const auto& [kind, count] : kinds) fmt::print("{} times {}\n", count, kind);
  fmt::print("{} were programs that went through the passes\n{} passed, {} failed\n", whole_way,
             passed, failed);
  return failed == 0 ? 0 : 1;
}
