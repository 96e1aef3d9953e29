// oneDNN's linears beside ours: medians in milliseconds, the weight in the layout that oneDNN chooses (as ours are
// packed). 512 x 4096 x 4096 in f32, bf16 and s8 (s8 to s32). Debian's libdnnl-dev (2.6); bench/peers/peers.py builds
// and runs it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include <dnnl.hpp>

namespace {

constexpr dnnl::memory::dim m = 512, n = 4096, k = 4096;
constexpr int calls = 20;

void measure(const char* name, dnnl::memory::data_type x_type, dnnl::memory::data_type w_type,
             dnnl::memory::data_type y_type) {
  using Memory = dnnl::memory;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const Memory::desc x({m, k}, x_type, Memory::format_tag::ab), any({k, n}, w_type, Memory::format_tag::any),
      y({m, n}, y_type, Memory::format_tag::ab);
  const dnnl::matmul::primitive_desc how(dnnl::matmul::desc(x, any, y), engine);
  const dnnl::matmul product(how);
  Memory a(x, engine), b(how.weights_desc(), engine), c(y, engine);
  std::memset(a.get_data_handle(), 0, x.get_size());
  std::memset(b.get_data_handle(), 0, how.weights_desc().get_size());
  std::vector<double> times;
  for (int call = 0; call < calls + 2; ++call) {
    const auto begin = std::chrono::steady_clock::now();
    product.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
    if (call >= 2) times.push_back(taken.count());
  }
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  std::printf("%s, 512 rows: %.3f ms\n", name, times[calls / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  using Type = dnnl::memory::data_type;
  if (argc > 1 && std::string_view(argv[1]) == "--version") {
    const dnnl_version_t* const version = dnnl::version();
    std::printf("%d.%d.%d\n", version->major, version->minor, version->patch);
    return 0;
  }
  const auto measure_where_supported = [](auto... arguments) {
    try {
      measure(arguments...);
    } catch (const dnnl::error& error) {  // bf16 needs AVX-512 there
      if (error.status != dnnl_unimplemented) throw;
    }
  };
  measure_where_supported("f32", Type::f32, Type::f32, Type::f32);
  measure_where_supported("bf16", Type::bf16, Type::bf16, Type::f32);
  measure_where_supported("int8", Type::s8, Type::s8, Type::s32);
  return 0;
}
