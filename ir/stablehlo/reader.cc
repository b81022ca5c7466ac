#include "ir/stablehlo/reader.h"

#include "ir/stablehlo/import/importer.h"
#include "ir/stablehlo/syntax/lexer.h"
#include "ir/stablehlo/syntax/parser.h"

namespace gshard::stablehlo {

bool IsMlirText(std::string_view text) {
  Lexer lexer(text);
  lexer.SkipSpace();
  constexpr size_t kHead = 65536;  // aliases of attributes come first
  const std::string_view head = lexer.Rest().substr(0, kHead);
  const char first = lexer.Raw();
  const auto has = [head](std::string_view word) { return head.find(word) != head.npos; };
  if (first == '#') {
    return head.starts_with("#loc") || has("= loc(") || has("#sdy") || has("#stablehlo") ||
           has("module");
  }
  if (first == '{') return head.starts_with("{-#");
  if (first == '"') return has("\"builtin.module\"") || has("\"func.func\"");
  const std::string_view word = lexer.Identifier();
  if (word == "func.func" || word == "builtin.module" || word == "sdy.mesh") return true;
  if (word != "module") return false;
  const char next = lexer.Peek();
  if (next == '@') return true;
  if (next != '{') return lexer.ConsumeWord("attributes");
  // HLO without a header may have a computation called "module": {, then `[ROOT] [%]name = ..`.
  lexer.Consume('{');
  if (lexer.ConsumeWord("ROOT")) return false;
  lexer.Consume('%');
  lexer.SkipSpace();
  return lexer.Suffix().empty() || lexer.Peek() != '=';
}

Expected<std::unique_ptr<Module>> ReadModule(std::shared_ptr<const SourceText> source,
                                             std::shared_ptr<Context> context,
                                             const ReadOptions& options) {
  if (context == nullptr) context = std::make_shared<Context>();
  Errors errors(*source);
  Program program;
  if (Parser(errors, *context, program).Parse()) {
    Importer importer(errors, program, source, context, options.dims);
    if (std::unique_ptr<Module> module = importer.Run()) return module;
  }
  CheckInternal(errors.failed(), "reading StableHLO failed without an error");
  return gshard::Fail(errors.Take());
}

}  // namespace gshard::stablehlo
