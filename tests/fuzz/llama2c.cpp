// A llama2.c checkpoint and its tokenizer.bin: u32 bytes of the tokenizer, tokenizer, checkpoint.
#include <cstring>
#include <random>
#include <vector>

#include <inlay/model/load.hpp>

#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/fuzz/support/use_model.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

namespace {

constexpr std::size_t front = sizeof(std::uint32_t), header = 7 * sizeof(std::int32_t);

// What the checkpoint's own header says of its length; 0 where it is beyond the fuzzer's.
std::size_t promised_bytes(const std::int32_t (&h)[7], std::size_t most) {
  for (const std::int32_t each : h)
    if (each > 4096 || each < -4096) return 0;
  const double dim = h[0], hidden = h[1], layers = h[2], heads = h[3], kv_heads = h[4], context = h[6];
  if (heads == 0) return 0;
  const double vocab = std::abs(h[5]), head_dim = h[0] / h[3], kv = kv_heads * head_dim;
  const double floats = vocab * dim * (h[5] > 0 ? 1 : 2) + dim + context * 2 * (h[0] / h[3] / 2) +
                        layers * (2 * dim + 2 * dim * dim + 2 * kv * dim + 3 * hidden * dim);
  return floats > 0 && header + 4 * floats < static_cast<double>(most) ? header + static_cast<std::size_t>(4 * floats)
                                                                       : 0;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  std::uint32_t text = 0;
  if (size >= front) std::memcpy(&text, data, front);
  if (random() % 2 == 0 || size < front + header || text > size - front - header)
    return LLVMFuzzerMutate(data, size, max_size);
  // A header that says something else, and a file that is as long as it says.
  const std::size_t at = front + text;
  std::int32_t h[7];
  std::memcpy(h, data + at, header);
  constexpr std::int32_t odd[] = {-264, -1, 0, 1, 2, 3, 4, 6, 8, 259, 264, 265, 1 << 20, INT32_MAX, INT32_MIN};
  for (auto changes = random() % 2 + 1; changes > 0; --changes) {
    std::int32_t& each = h[random() % 7];
    each = random() % 2 == 0 ? odd[random() % std::size(odd)]
                             : std::abs(each % 4096) + static_cast<std::int32_t>(random() % 5) - 2;
  }
  std::memcpy(data + at, h, header);
  const std::size_t promised = promised_bytes(h, max_size - at);
  if (promised == 0 || random() % 8 == 0) return size;
  if (at + promised > size) std::memset(data + size, 0x3c, at + promised - size);  // small positive floats
  return at + promised;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint32_t text = 0;
  if (size < front) return 0;
  std::memcpy(&text, data, front);
  if (text > size - front) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  fuzz::CheckpointFiles& files = fuzz::checkpoint_files();
  files.write("tokenizer.bin", all.substr(front, text));
  files.write("model.bin", all.substr(front + text));
  const test::Growth growth;
  auto model = exec::load_llama2c(files.path("model.bin"), text > 0 ? files.path("tokenizer.bin") : "");
  if (!model) return fuzz::expect_clean(model.error()), fuzz::expect_bounded(growth.bytes(), size), 0;
  fuzz::use_tokenizer(model->tokenizer, "ab abc \xff</s>  b");
  fuzz::run_tokens(std::move(*model));
  fuzz::expect_bounded(growth.bytes(), size);
  return 0;
}
