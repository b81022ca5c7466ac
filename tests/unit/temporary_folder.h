// A folder of its own for the files of one test; it goes with the object. Tests run at the same
// time, and other users' too: no file of a test has a fixed name.
#ifndef GSHARD_TESTS_UNIT_TEMPORARY_FOLDER_H_
#define GSHARD_TESTS_UNIT_TEMPORARY_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace gshard {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "gshard-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace gshard

#endif  // GSHARD_TESTS_UNIT_TEMPORARY_FOLDER_H_
