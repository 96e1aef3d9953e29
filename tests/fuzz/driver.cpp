// Runs a fuzz target without libFuzzer: the corpus, and mutations of it that are the same each time.
//
//   fuzz_gguf -runs=3000 -seed=1 -max_len=65536 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=64 corpus/..
//
// The arguments are libFuzzer's. CI builds the targets with this, in the build that has the libraries without coverage.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <sanitizer/allocator_interface.h>
#include <sanitizer/common_interface_defs.h>

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed)
    __attribute__((weak));
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
}

namespace {

std::minstd_rand bytes_random(1);
std::size_t malloc_limit = 0;
std::vector<std::uint8_t> current;

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "fuzz driver: %s\n", why);
  std::abort();
}

// The input that did it, beside whatever a sanitizer says.
void write_current() {
  const char name[] = "crash-input";
  if (std::FILE* file = std::fopen(name, "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "fuzz driver: the input is in %s/%s\n", std::filesystem::current_path().c_str(), name);
  }
}

void on_abort(int) {
  write_current();
  std::signal(SIGABRT, SIG_DFL);
}

void on_alarm(int) { fail("an input takes too long"); }

void on_malloc(const volatile void*, std::size_t size) {
  if (malloc_limit > 0 && size > malloc_limit) fail("an input asks for too much memory at once");
}
void on_free(const volatile void*) {}

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void run(unsigned seconds, std::size_t rss_limit) {
  ::alarm(seconds);
  // A block of its exact length: a read past the end is seen.
  const std::vector<std::uint8_t> exact(current);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  if (rss_limit > 0 && static_cast<std::size_t>(used.ru_maxrss) > rss_limit << 10) fail("too much memory is in use");
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  const auto below = [](std::size_t n) { return n == 0 ? 0 : bytes_random() % n; };
  const std::size_t at = below(size);
  constexpr std::uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, ' ', '"', '[', '{', '9'};
  switch (size == 0 ? 3 : bytes_random() % 7) {
    case 0: data[at] ^= static_cast<std::uint8_t>(1u << bytes_random() % 8); return size;
    case 1: data[at] = odd[bytes_random() % std::size(odd)]; return size;
    case 2: {  // some go
      const std::size_t count = std::min(size - at, below(8) + 1);
      std::memmove(data + at, data + at + count, size - at - count);
      return size - count;
    }
    case 3: {  // some come
      const std::size_t count = std::min(max_size - size, below(8) + 1);
      std::memmove(data + at + count, data + at, size - at);
      for (std::size_t i = 0; i < count; ++i) data[at + i] = static_cast<std::uint8_t>(bytes_random());
      return size + count;
    }
    case 4: {  // a part is written over another
      const std::size_t from = below(size), count = std::min({size - at, size - from, below(32) + 1});
      std::memmove(data + at, data + from, count);
      return size;
    }
    case 5: {  // a number of 4 or 8 bytes
      const std::size_t count = bytes_random() % 2 == 0 ? 4 : 8;
      const std::uint64_t value = std::uint64_t{1} << below(64);
      if (size - at >= count) std::memcpy(data + at, &value, count);
      return size;
    }
    default: return size - below(size);
  }
}

int main(int argc, char** argv) {
  std::map<std::string, long> options{{"runs", 0}, {"seed", 1}, {"max_len", 1 << 16}, {"timeout", 10}};
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    if (argument[0] == '-' && equals != std::string::npos)
      options[argument.substr(1, equals - 1)] = std::atol(argument.c_str() + equals + 1);
    else if (std::filesystem::is_directory(argument))
      for (const auto& entry : std::filesystem::directory_iterator(argument)) files.push_back(entry.path());
    else
      files.push_back(argument);
  }
  std::sort(files.begin(), files.end());
  std::signal(SIGALRM, on_alarm), std::signal(SIGABRT, on_abort);
  __sanitizer_set_death_callback(write_current);
  malloc_limit = static_cast<std::size_t>(options["malloc_limit_mb"]) << 20;
  __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  const auto seconds = static_cast<unsigned>(options["timeout"]);
  const auto rss_limit = static_cast<std::size_t>(options["rss_limit_mb"]);
  const auto max_size = static_cast<std::size_t>(options["max_len"]);
  std::vector<std::vector<std::uint8_t>> corpus;
  for (const auto& file : files) {
    current = bytes_of(file);
    run(seconds, rss_limit);
    if (current.size() <= max_size) corpus.push_back(current);
  }
  std::minstd_rand random(static_cast<unsigned>(options["seed"]));
  bytes_random.seed(random());
  for (long i = 0; i < options["runs"]; ++i) {
    if (corpus.empty()) {  // bytes that say what to do, and any do
      current.resize(random() % std::min<std::size_t>(max_size, 512));
      for (std::uint8_t& byte : current) byte = static_cast<std::uint8_t>(random());
      run(seconds, rss_limit);
      continue;
    }
    current = corpus[random() % corpus.size()];
    std::size_t size = current.size();
    current.resize(max_size);
    for (auto times = random() % 3 + 1; times > 0; --times)
      size = LLVMFuzzerCustomMutator && random() % 4 != 0
                 ? LLVMFuzzerCustomMutator(current.data(), size, max_size, static_cast<unsigned>(random()))
                 : LLVMFuzzerMutate(current.data(), size, max_size);
    current.resize(size);
    run(seconds, rss_limit);
  }
  std::printf("%zu files and %ld mutations\n", files.size(), options["runs"]);
  return 0;
}
