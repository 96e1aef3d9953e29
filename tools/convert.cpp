// inlay convert: model files into GGUF.
#include <cstdio>
#include <filesystem>
#include <memory>

#include <inlay/model/convert.hpp>

#include "tools/commands.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct ConvertOptions {
  std::string in, out, tokenizer, quantize;
};

int convert(const ConvertOptions& options) {
  exec::ConvertOptions settings;
  if (!options.quantize.empty()) {
    auto format = exec::parse_weight_format(options.quantize);
    if (!format) return wrong(format.error());
    settings.weights = *format;
  }
  const bool llama2c = std::filesystem::path(options.in).extension() == ".bin";
  if (llama2c && options.tokenizer.empty())
    return wrong("--tokenizer is missing; a llama2.c model needs its tokenizer file");
  if (!llama2c && !options.tokenizer.empty())
    return wrong("--tokenizer is given; it must be left out unless the model is a llama2.c .bin file");
  auto report = llama2c ? exec::convert_llama2c(options.in, options.tokenizer, options.out, settings)
                        : exec::convert(options.in, options.out, settings);
  if (!report) return wrong(report.error());
  for (const std::string& note : report->notes) std::fprintf(stderr, "%s\n", note.c_str());
  std::error_code ignored;
  std::fprintf(stderr, "%s: %.1f MB\n", options.out.c_str(),
               static_cast<double>(std::filesystem::file_size(options.out, ignored)) * 1e-6);
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App& command = *app.add_subcommand("convert", "Write a GGUF file from GGUF, safetensors or llama2.c");
  command.add_option("model", options->in, "GGUF, .safetensors, a directory of them, or a llama2.c .bin file")
      ->required();
  command.add_option("-o,--output", options->out, "The GGUF file to write")->required();
  command.add_option("--tokenizer", options->tokenizer, "The tokenizer file of a llama2.c model");
  command.add_option("--quantize", options->quantize,
                     "Type of the linears: keep f32 f16 bf16 int8 q8_0 q4_0 w4a16 (q4_0)");
  command.callback([options, &chosen] { chosen = [options] { return convert(*options); }; });
}

}  // namespace inlay::tools
