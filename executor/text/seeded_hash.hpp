// Hashes for tables whose keys come from a file. Each process has its own, so that no file holds thousands of keys
// that fall into one bucket: with std::hash, which everybody knows, looking them up takes quadratic time.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace inlay::exec {

struct SeededHash {
  // libstdc++ keeps the hashes of functions that may throw beside the keys: texts are compared less often.
  std::size_t operator()(std::string_view text) const noexcept(false) {
    std::uint64_t hash = secret().second ^ text.size();
    for (; text.size() >= sizeof(std::uint64_t); text.remove_prefix(sizeof(std::uint64_t)))
      hash = fold(hash, word(text, sizeof(std::uint64_t)));
    return fold(hash, word(text, text.size()));
  }
  std::size_t operator()(std::uint64_t number) const noexcept { return fold(secret().second, number); }

 private:
  struct Secret {
    std::uint64_t first, second;
  };
  static const Secret& secret() {
    static const Secret value = [] {
      std::random_device random;
      const auto draw = [&] { return static_cast<std::uint64_t>(random()) << 32 | random(); };
      const std::uint64_t first = draw();
      return Secret{first, draw()};
    }();
    return value;
  }
  static std::uint64_t word(std::string_view text, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, text.data(), size);
    return value;
  }
  // Both halves of a product of 128 bits.
  static std::uint64_t fold(std::uint64_t hash, std::uint64_t word) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(hash ^ 0x9e3779b97f4a7c15u) * (word ^ secret().first);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }
};

}  // namespace inlay::exec
