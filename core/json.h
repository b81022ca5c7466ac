// A JSON document: reports are written through it, chip descriptions read. It hides the JSON
// library (nlohmann/json, in json.cc only), whose templates take seconds in each file that sees
// them. A document owns its parts; it may be read by many threads and written by one.
#ifndef GSHARD_CORE_JSON_H_
#define GSHARD_CORE_JSON_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gshard {

// What was read is no JSON, or not what was asked for; in words for the user.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Json {
 public:
  // One row of an object: {"bytes", 8}.
  struct Member;

  Json();  // null; the first member or element added makes it an object or an array
  Json(bool value);
  Json(int value);
  Json(int64_t value);
  Json(uint32_t value);
  Json(uint64_t value);
  Json(double value);  // JSON has no infinities and NaNs: null
  Json(const char* text);
  Json(std::string_view text);
  Json(const std::string& text);
  Json(const std::vector<int64_t>& values);
  Json(const std::vector<uint64_t>& values);
  Json(const std::vector<double>& values);
  Json(const std::vector<std::string>& values);
  // An object; members keep this order.
  Json(std::initializer_list<Member> members);
  static Json Array();
  Json(Json&& other) noexcept;
  Json& operator=(Json&& other) noexcept;
  ~Json();

  // Adds a member, or replaces the value of the one that there is.
  void Set(std::string_view key, Json value);
  void Append(Json element);

  // Pretty text, two spaces a level, with a newline at the end.
  std::string Text() const;
  // On one line, without blanks.
  std::string CompactText() const;

  // Throws JsonError, as everything below.
  static Json Parse(std::string_view text);
  bool Has(std::string_view key) const;
  bool IsList() const;
  std::string StringAt(std::string_view key) const;
  double NumberAt(std::string_view key) const;
  std::map<std::string, double> NumbersAt(std::string_view key) const;
  bool BoolAt(std::string_view key) const;
  std::vector<double> NumberListAt(std::string_view key) const;
  // A copy of the member, of element i of an array; all keys of an object in their order.
  Json At(std::string_view key) const;
  Json At(size_t i) const;
  size_t size() const;  // of an array or object; else 0
  std::vector<std::string> Keys() const;
  double AsNumber() const;
  std::string AsString() const;

 private:
  struct Value;
  explicit Json(Value value);

  std::unique_ptr<Value> value_;
};

struct Json::Member {
  std::string_view key;
  mutable Json value;  // moved into the object, which a list of initializers would forbid
};

// `text` as a JSON string, quotes included.
std::string JsonString(std::string_view text);

}  // namespace gshard

#endif  // GSHARD_CORE_JSON_H_
