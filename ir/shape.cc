#include "ir/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace gshard {

bool SameDims(const Shape* a, const Shape* b) { return std::ranges::equal(a->dims(), b->dims()); }

void AppendShape(std::string& out, const Shape* shape, bool layouts) {
  switch (shape->kind()) {
    case ShapeKind::kTuple: {
      out += '(';
      for (size_t i = 0; i < shape->elements().size(); ++i) {
        if (i > 0) out += ", ";
        if (i > 0 && i % 5 == 0) out += fmt::format("/*index={}*/", i);
        AppendShape(out, shape->elements()[i], layouts);
      }
      out += ')';
      return;
    }
    case ShapeKind::kBuffer:
      out += "b(";
      AppendShape(out, shape->element(0), layouts);
      out += ')';
      return;
    case ShapeKind::kToken:
    case ShapeKind::kOpaque:
    case ShapeKind::kArray:
      break;
  }
  out += DTypeName(shape->dtype());
  out += '[';
  for (int64_t i = 0; i < shape->rank(); ++i) {
    if (i > 0) out += ',';
    if (shape->dim(i) == Shape::kUnbounded) {
      out += '?';
      continue;
    }
    if (shape->IsDynamic(i)) out += "<=";
    out += fmt::format_int(shape->dim(i)).c_str();
  }
  out += ']';
  const Layout* layout = shape->layout();
  if (!layouts || layout == nullptr) return;
  if (layout->minor_to_major.empty() && layout->tail.empty()) return;
  out += '{';
  for (size_t i = 0; i < layout->minor_to_major.size(); ++i) {
    if (i > 0) out += ',';
    out += fmt::format_int(layout->minor_to_major[i]).c_str();
  }
  if (!layout->tail.empty()) {
    out += ':';
    out += layout->tail;
  }
  out += '}';
}

std::vector<int64_t> FirstTile(std::string_view tail) {
  std::vector<int64_t> tile;
  size_t at = tail.find("T(");
  if (at == std::string_view::npos) return tile;
  at += 2;
  while (at < tail.size() && tail[at] != ')') {
    int64_t size = 0;
    auto [end, error] = std::from_chars(tail.data() + at, tail.data() + tail.size(), size);
    if (error != std::errc() || size <= 0) return {};  // T(*,128): not padded
    tile.push_back(size);
    at = static_cast<size_t>(end - tail.data());
    if (at < tail.size() && tail[at] == ',') ++at;
  }
  return tile;
}

std::string ToString(const Shape* shape, bool layouts) {
  std::string out;
  AppendShape(out, shape, layouts);
  return out;
}

}  // namespace gshard
