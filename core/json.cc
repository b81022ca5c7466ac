// See json.h.
#include "core/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace gshard {
using Library = nlohmann::ordered_json;

struct Json::Value {
  Library json;
};

namespace {

// Runs `read`; the library's words without their "[json.exception.parse_error.101] ".
template <typename F>
auto Reading(F read) {
  try {
    return read();
  } catch (const Library::exception& error) {
    const std::string_view words = error.what();
    const size_t tag_end = words.find("] ");
    const bool tagged = words.starts_with("[json.") && tag_end != words.npos;
    throw JsonError(std::string(tagged ? words.substr(tag_end + 2) : words));
  }
}

std::string_view KindOf(const Library& json) {
  switch (json.type()) {
    case Library::value_t::null:
      return "null";
    case Library::value_t::object:
      return "an object";
    case Library::value_t::array:
      return "a list";
    case Library::value_t::string:
      return "a string";
    case Library::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

// The member `key` of an object as a T, which is called `what`.
template <typename T>
T MemberAs(const Library& json, std::string_view key, std::string_view what) {
  if (!json.is_object()) {
    throw JsonError(fmt::format("'{}' is looked for in {}: an object has it", key, KindOf(json)));
  }
  const auto member = json.find(std::string(key));
  if (member == json.end()) throw JsonError(fmt::format("'{}' is missing: {}", key, what));
  try {
    return member->get<T>();
  } catch (const Library::exception&) {
    throw JsonError(fmt::format("'{}' must be {}, found {}", key, what, KindOf(*member)));
  }
}

// Names of a program may hold any bytes: what is no UTF-8 is replaced.
std::string TextOf(const Library& json, int indent) {
  return json.dump(indent, ' ', false, Library::error_handler_t::replace);
}

}  // namespace

Json::Json(Value value) : value_(std::make_unique<Value>(std::move(value))) {}
Json::Json() : Json(Value{}) {}
Json::Json(bool value) : Json(Value{value}) {}
Json::Json(int value) : Json(Value{value}) {}
Json::Json(int64_t value) : Json(Value{value}) {}
Json::Json(uint32_t value) : Json(Value{value}) {}
Json::Json(uint64_t value) : Json(Value{value}) {}
Json::Json(double value) : Json(Value{value}) {}
Json::Json(const char* text) : Json(Value{text}) {}
Json::Json(std::string_view text) : Json(Value{text}) {}
Json::Json(const std::string& text) : Json(Value{text}) {}
Json::Json(const std::vector<int64_t>& values) : Json(Value{values}) {}
Json::Json(const std::vector<uint64_t>& values) : Json(Value{values}) {}
Json::Json(const std::vector<double>& values) : Json(Value{values}) {}
Json::Json(const std::vector<std::string>& values) : Json(Value{values}) {}
Json::Json(std::initializer_list<Member> members) : Json(Value{Library::object()}) {
  for (const Member& member : members) Set(member.key, std::move(member.value));
}
Json Json::Array() { return Json(Value{Library::array()}); }
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

void Json::Set(std::string_view key, Json value) {
  value_->json[std::string(key)] = std::move(value.value_->json);
}

void Json::Append(Json element) { value_->json.push_back(std::move(element.value_->json)); }

std::string Json::Text() const { return TextOf(value_->json, 2) + "\n"; }

std::string Json::CompactText() const { return TextOf(value_->json, -1); }

Json Json::Parse(std::string_view text) {
  return Reading([&] { return Json(Value{Library::parse(text)}); });
}

bool Json::Has(std::string_view key) const { return value_->json.contains(std::string(key)); }

bool Json::IsList() const { return value_->json.is_array(); }

std::string Json::StringAt(std::string_view key) const {
  return MemberAs<std::string>(value_->json, key, "a string");
}

double Json::NumberAt(std::string_view key) const {
  return MemberAs<double>(value_->json, key, "a number");
}

std::map<std::string, double> Json::NumbersAt(std::string_view key) const {
  return MemberAs<std::map<std::string, double>>(value_->json, key, "an object of numbers");
}

bool Json::BoolAt(std::string_view key) const {
  return MemberAs<bool>(value_->json, key, "true or false");
}

std::vector<double> Json::NumberListAt(std::string_view key) const {
  return MemberAs<std::vector<double>>(value_->json, key, "a list of numbers");
}

Json Json::At(std::string_view key) const {
  return Reading([&] { return Json(Value{value_->json.at(std::string(key))}); });
}

Json Json::At(size_t i) const {
  return Reading([&] { return Json(Value{value_->json.at(i)}); });
}

size_t Json::size() const { return value_->json.is_structured() ? value_->json.size() : 0; }

std::vector<std::string> Json::Keys() const {
  std::vector<std::string> keys;
  if (!value_->json.is_object()) return keys;
  for (auto it = value_->json.begin(); it != value_->json.end(); ++it) keys.push_back(it.key());
  return keys;
}

double Json::AsNumber() const {
  return Reading([&] { return value_->json.get<double>(); });
}

std::string Json::AsString() const {
  return Reading([&] { return value_->json.get<std::string>(); });
}

std::string JsonString(std::string_view text) { return TextOf(text, -1); }

}  // namespace gshard
