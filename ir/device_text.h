// Reader of what sharding, mesh and replica-group texts share: device arrays, mesh bodies, axis
// lists.
//
// Every method returns false after recording what is wrong and where; only the first error is kept.
// Nothing is allocated in proportion to a number in the text, only to the length of the text.
#ifndef GSHARD_IR_DEVICE_TEXT_H_
#define GSHARD_IR_DEVICE_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "ir/lexer.h"
#include "ir/mesh.h"
#include "ir/sharding_text.h"

namespace gshard {

class DeviceTextReader {
 public:
  explicit DeviceTextReader(std::string_view text) : lex(text) {}

  Lexer lex;
  const TextError& error() const { return error_; }

  // Records an error at [start, end), or at the cursor's next character.
  bool Fail(const char* start, const char* end, std::string message);
  bool Fail(std::string_view token, std::string message) {
    return Fail(token.data(), token.data() + token.size(), std::move(message));
  }
  bool FailHere(std::string message);

  // "expected ',' or ']'" unless the character comes next.
  bool Expect(char c, std::string_view expected);
  bool ExpectEnd();
  // An integer in [low, high]; `what` names it in errors ("a device number").
  bool Integer(int64_t& value, int64_t low, int64_t high, std::string_view what);
  // Comma-separated integers up to `close`, at least one; the opening bracket has been taken.
  bool IntegerList(std::vector<int64_t>& values, int64_t low, int64_t high, char close,
                   std::string_view what);
  // "[2,4]": positive sizes, product at most TileAssignment::kMaxDevices.
  bool Dims(std::vector<int64_t>& dims, std::string_view what);
  // "[2,4]T(1,0)" or "[8]", which must have `devices` elements.
  bool IotaOrder(int64_t devices, std::vector<int64_t>& reshape_dims,
                 std::vector<int64_t>& permutation);
  // "0,2,1,3": so many different devices, comma-separated; `all`: those from 0 to devices-1.
  bool DeviceList(int64_t devices, bool all, std::vector<int64_t>& list);

  // "'name'" or "\"name\"", unescaped.
  bool QuotedName(std::string& name, std::string_view what);
  // "['a'=2,'b'=4]", then ", device_ids=(..)" if it follows.
  bool MeshBody(Mesh& mesh);
  // "([4,2]T(1,0))" or "(0,2,1,3)", after "device_ids=". mesh.axes must be set.
  bool DeviceIds(Mesh& mesh);
  // "'a'" or "'a':(2)4".
  bool Axis(const Mesh& mesh, AxisRef& ref);
  // "{'a', 'b':(1)2}", or with "?" last if `open` is given. Each ref is checked against, and added
  // to, `used`.
  bool AxisList(const Mesh& mesh, std::vector<AxisRef>& refs, std::vector<AxisRef>& used,
                bool* open);

 private:
  TextError error_;
  bool failed_ = false;
};

// "'a'=2,'b'=4", and with ", device_ids=(..)" after the bracket where needed: "mesh" is not
// included.
void AppendMeshBody(std::string& out, const Mesh& mesh);
void AppendInteger(std::string& out, int64_t value);
// "{'a', 'b':(1)2}" with `separator` between the refs.
void AppendAxes(std::string& out, const Mesh& mesh, std::span<const AxisRef> refs,
                std::string_view separator, bool open = false);

}  // namespace gshard

#endif  // GSHARD_IR_DEVICE_TEXT_H_
